package diagnose

import "bytes"

// removeBracket reads the brackets at the front of line, and removes them if they are
// no part of the text. more reports whether another prefix may follow.
func (h *head) removeBracket(line []byte) (rest []byte, more bool) {
	end := bytes.IndexByte(line[:min(len(line), 200)], ']')
	if end < 2 {
		return line, false
	}
	in, after := line[1:end], line[end+1:]
	colon := len(after) > 0 && after[0] == ':'
	if t, left := readBracketTime(in); t.isKnown() {
		h.setTime(t)
		if h.readTensorRank(left) {
			return skipSpace(after), true
		}
		if len(left) > 0 { // glog's file name belongs to the text
			h.readRank(skipSpace(after))
			return line, false
		}
		return skipSpace(after), true
	}
	if colon {
		after = after[1:]
	}
	if word, number, ok := bytes.Cut(in, []byte{' '}); ok && (string(word) == "task" || string(word) == "process" || string(word) == "proc" || string(word) == "worker") {
		if n, left := digits(number); n >= 0 && len(left) == 0 {
			if string(word) != "worker" { // several ranks may run on a worker of a TPU
				h.task = n
			}
			h.addLabel(in)
			return skipSpace(after), true
		}
	}
	switch {
	case bytes.HasPrefix(in, []byte("rank")):
		if n, left := digits(in[4:]); n >= 0 && len(left) == 0 {
			h.rank = n
			if !colon { // a part of the text
				return line, false
			}
			h.addLabel(in)
			return skipSpace(after), true
		}
	case bytes.HasPrefix(in, []byte("pod/")):
		h.addLabel(in)
		h.host, _, _ = cut(in[4:], '/')
		return skipSpace(after), true
	}
	if bytes.HasPrefix(in, []byte("E ")) || bytes.HasPrefix(in, []byte("W ")) { // torch up to 2.1 writes no time
		h.readRank(skipSpace(after))
	}
	h.readRank(line)
	return h.removeOtherBracket(line, in, after, colon)
}

// readBracketTime reads the time with which brackets begin. No time begins with a small
// letter, as most brackets do.
func readBracketTime(in []byte) (stamp, []byte) {
	in = bytes.TrimLeft(in, " ")
	if len(in) == 0 || in[0] > 'Z' {
		return stamp{}, in
	}
	return readTime(in)
}

// readTensorRank reads the rank from the fields that SGLang puts after the time of a
// line: ` TP2` or ` DP0 TP2 EP0`. ok reports whether there are only such fields.
func (h *head) readTensorRank(fields []byte) (ok bool) {
	rank := -1
	for field := range bytes.FieldsSeq(fields) {
		if len(field) < 3 || !bytes.Contains([]byte("TP DP PP EP "), append(bytes.Clone(field[:2]), ' ')) {
			return false
		}
		n, after := digits(field[2:])
		if n < 0 || len(after) > 0 {
			return false
		}
		if field[0] == 'T' {
			rank = n
		}
	}
	if rank < 0 {
		return false
	}
	h.rank = rank
	return true
}

// readRank reads the rank from `[Rank 3]` and `[PG 0 (default_pg) Rank 3]`.
func (h *head) readRank(p []byte) {
	if h.rank >= 0 || !bytes.HasPrefix(p, []byte("[Rank ")) && !bytes.HasPrefix(p, []byte("[PG ")) {
		return
	}
	if end := bytes.IndexByte(p[:min(len(p), 200)], ']'); end > 0 {
		if i := bytes.LastIndex(p[:end], []byte("Rank ")); i >= 0 {
			h.rank, _ = digits(p[i+5 : end])
		}
	}
}

// removeOtherBracket removes `[default0]:`, the tags of streams, `[3] ` and
// `[  12.345678] `. It reads `[host:pid]` and leaves it in the line.
func (h *head) removeOtherBracket(line, in, after []byte, colon bool) (rest []byte, more bool) {
	if at := bytes.IndexByte(in, '@'); at > 0 && (bytes.HasPrefix(in, []byte("proxy:")) || string(in[:at]) == "mpiexec") { // of Hydra itself
		h.host, _, _ = cut(in[at+1:], ']')
		h.task, h.rank = -1, -1
		return line, false
	}
	if rest, ok := h.removeTag(in, after); ok {
		return rest, true
	}
	n, left := digits(in)
	switch {
	case n >= 0 && len(left) == 0 && (n >= 1<<15 || bytes.HasPrefix(after, []byte(" signal ("))): // of Julia
		h.pid = n
		h.addLabel(in)
		return skipSpace(after), true
	case n >= 0 && len(left) == 0 && bytes.HasPrefix(after, []byte("PETSC ERROR: ")):
		h.rank = n
		h.addLabel(in)
		return after, true
	case n >= 0 && len(left) == 0 && len(after) > 0 && after[0] == ' ':
		h.task = n
		h.addLabel(in)
		return after[1:], true
	case bytes.IndexByte(in, '.') > 0 && len(bytes.Trim(in, " .0123456789")) == 0: // dmesg
		return skipSpace(after), true
	}
	if host, tail, ok := cut(in, ':'); ok && !colon && isName([]byte(host)) {
		if number, ok := bytes.CutPrefix(tail, []byte("mpi_rank_")); ok { // of MVAPICH
			if n, end := digits(number); n >= 0 && len(end) == 0 {
				h.host, h.rank = host, n
			}
		}
		if pid, end := digits(tail); pid >= 0 && (len(end) == 0 || end[0] == ':' || end[0] == ' ') {
			h.host, h.pid = host, pid
		}
		return line, false
	}
	i := len(in)
	for i > 0 && '0' <= in[i-1] && in[i-1] <= '9' {
		i--
	}
	if colon && i > 0 && i < len(in) && isName(in[:i]) {
		h.local, _ = digits(in[i:])
		h.addLabel(in)
		return after, true // torchrun and gorun put no space
	}
	return line, false
}

// removeTag removes what launchers write before each line of a rank's stream:
// `[1,3]<stderr>:` of mpirun, `[1,mpirank:3,algo-1]<stderr>:` of SageMaker, `[3]<stderr>:`
// of Horovod, and `[prterun-n1-77@1,3]<stderr>: `.
func (h *head) removeTag(in, after []byte) (rest []byte, ok bool) {
	end := bytes.Index(after[:min(len(after), 16)], []byte(">:"))
	if end < 0 || after[0] != '<' {
		return after, false
	}
	job, field, hasJob := bytes.Cut(in, []byte{','})
	if !hasJob {
		field = in
	}
	n, _ := digits(bytes.TrimPrefix(field, []byte("mpirank:")))
	if n < 0 {
		return after, false
	}
	h.rank = n
	h.addLabel(in)
	rest = after[end+2:]
	if bytes.HasPrefix(job, []byte("prterun-")) {
		rest = skipSpace(rest)
	}
	return rest, true
}
