package diagnose

import (
	"bytes"
	"strconv"
)

// head holds what the prefixes of a line say about its writer and its time.
type head struct {
	label uint64 // hash of the prefixes that name the stream; 0: none
	rank  int    // -1: unknown
	local int    // -1: unknown
	task  int    // of srun -l; -1: unknown
	host  string
	pid   int
	when  stamp
	timed bool // the line itself has a time
}

// readHead removes the prefixes of launchers and collectors from a line, in any
// order and number (gorun, torchrun, torch, srun, mpirun, Ray, vLLM, kubectl, CRI,
// docker compose, syslog, dmesg, times). It also reads the head of NCCL's lines. It
// returns the rest with its indentation.
func readHead(line []byte) (head, []byte) {
	h := head{rank: -1, local: -1, task: -1}
	for range 8 {
		rest, more := h.removePrefix(line)
		line = rest
		if !more {
			break
		}
	}
	h.readNCCL(line)
	return h, line
}

// removePrefix removes one prefix. more reports whether another may follow.
func (h *head) removePrefix(line []byte) (rest []byte, more bool) {
	if len(line) < 3 {
		return line, false
	}
	switch c := line[0]; {
	case c == '[':
		if rest, more := h.readRankField(line); more {
			return rest, true
		}
		return h.removeBracket(line)
	case c == '(':
		return h.removeActor(line)
	case '0' <= c && c <= '9':
		if t, rest := readTime(line); t.isKnown() {
			h.setTime(t)
			if journal := journalHost().FindSubmatch(rest); journal != nil {
				return h.removeSyslogHost(journal[1]), true
			}
			return removeCRI(skipSpace(bytes.TrimPrefix(rest, []byte(":")))), true
		}
		n, after := digits(line)
		if n >= 0 && len(after) > 1 && after[0] == ':' && after[1] == ' ' { // srun -l
			h.task = n
			h.addLabel(line[:len(line)-len(after)])
			return after[2:], true
		}
	case c == ' ' && h.label == 0: // srun -l aligns the numbers of tasks
		aligned := bytes.TrimLeft(line[:min(len(line), 8)], " ")
		n, after := digits(line[min(len(line), 8)-len(aligned):])
		if n >= 0 && len(after) > 1 && after[0] == ':' && after[1] == ' ' {
			return h.removePrefix(line[min(len(line), 8)-len(aligned):])
		}
	case 'A' <= c && c <= 'Z':
		t, rest := readTime(line)
		if !t.isKnown() {
			return h.removeLogger(line)
		}
		h.setTime(t)
		if '0' <= line[1] && line[1] <= '9' {
			return line, false // glog's pid and file belong to the text
		}
		return h.removeSyslogHost(skipSpace(rest)), true
	}
	return h.removeName(line)
}

// removeSyslogHost removes the host of `node2 kernel: `, which follows a time of
// syslog.
func (h *head) removeSyslogHost(line []byte) []byte {
	host, rest, ok := cut(line[:min(len(line), 200)], ' ')
	tag, _, also := cut(rest, ' ')
	if !ok || !also || host == "" || !isName([]byte(host)) || tag == "" || tag[len(tag)-1] != ':' {
		return line
	}
	h.host = host
	h.addLabel(line[:len(host)])
	return line[len(host)+1:]
}

// journalHost matches the host and the tag that journald writes after a time of ISO 8601.
var journalHost = lazyRegexp(`^ (([\w.-]+) (?:kernel:|[\w.@/-]+\[\d+\]:) .*)`)

// removeName removes `trainer-1  | ` of docker compose, `node1: ` of pdsh, and the host
// of `node1 kernel: `.
func (h *head) removeName(line []byte) (rest []byte, more bool) {
	i, digit := 0, false
	for i < len(line) && i < 64 && (line[i] >= 'a' && line[i] <= 'z' || line[i] >= '0' && line[i] <= '9' || i > 0 && (line[i] == '-' || line[i] == '.' || line[i] == '_')) {
		digit = digit || line[i] <= '9' && line[i] >= '0'
		i++
	}
	if i < 2 || i+2 > len(line) || isDuration(line[:i]) {
		return line, false
	}
	name, after := line[:i], line[i:]
	if bytes.HasPrefix(after, []byte(" kernel: ")) { // of syslog, without its time
		h.host = plainText(name)
		h.addLabel(name)
		return after[1:], false
	}
	if number, ok := bytes.CutPrefix(name, []byte("rank")); ok && after[0] == '[' { // of Composer: rank0[4711][MainThread]:
		n, left := digits(number)
		if end := bytes.Index(after[:min(len(after), 80)], []byte("]: ")); n >= 0 && len(left) == 0 && end > 0 {
			h.rank = n
			h.pid, _ = digits(after[1:])
			h.pid = max(h.pid, 0)
			h.addLabel(name)
			return after[end+3:], true
		}
	}
	if after[0] == ':' && (after[1] == 'p' || after[1] == 'r') {
		m := psmName().FindSubmatch(after[:min(len(after), 200)])
		if m == nil {
			return line, false
		}
		h.host = plainText(name)
		if n, _ := digits(m[2]); string(m[1]) == "rank" {
			h.rank = n
		} else {
			h.pid = n
		}
		return line, false
	}
	if host, ok := bytes.CutPrefix(name, []byte("slurmstepd-")); ok && after[0] == ':' { // its rows know the program
		h.host = plainText(host)
		return line, false
	}
	if after[0] == ':' && after[1] == ' ' && digit && !bytes.HasPrefix(name, []byte("mlx")) {
		h.addLabel(name)
		h.host = plainText(name)
		return after[2:], true
	}
	bar := bytes.TrimLeft(after, " ")
	if task, ok := bytes.CutPrefix(bar, []byte("||")); ok { // a container's id, no host
		h.addLabel(name)
		return skipSpace(task), true
	}
	if len(bar) < len(after) && len(bar) > 0 && bar[0] == '|' {
		h.addLabel(name)
		if number, ok := bytes.CutPrefix(name, []byte("rank")); ok && isNumber(number) {
			h.rank, _ = digits(number)
		} else if h.host == "" {
			h.host = plainText(name)
		}
		return skipSpace(bar[1:]), true
	}
	return line, false
}

// psmName matches the process that PSM names after the host: `:pid4711.program: `.
var psmName = lazyRegexp(`^:(pid|rank)(\d{1,9})(?:\.[\w.-]+)?: `)

// isDuration reports whether a name is a number with a unit: 0.512s.
func isDuration(name []byte) bool {
	digits := bytes.TrimRight(name, "smhdu")
	return len(digits) < len(name) && len(bytes.Trim(digits, "0123456789.")) == 0
}

// readNCCL reads host:pid:tid at the front of NCCL's lines.
func (h *head) readNCCL(line []byte) {
	if i := bytes.IndexByte(line[:min(len(line), 128)], ' '); i > 0 {
		host, tail, ok := cut(line[:i], ':')
		if !ok || host == "" {
			return
		}
		pid, tail := digits(tail)
		if pid <= 0 || len(tail) < 2 || tail[0] != ':' {
			return
		}
		if tid, end := digits(tail[1:]); tid > 0 && len(end) == 0 {
			h.host, h.pid = host, pid
		}
	}
}

// setTime sets the time, unless an outer prefix has one. One collector wrote the
// outer time for all lines.
func (h *head) setTime(t stamp) {
	if !h.when.isKnown() {
		h.when, h.timed = t, true
	}
}

// addLabel adds p to the hash of the prefixes that name the stream (FNV-1a).
func (h *head) addLabel(p []byte) {
	sum := h.label
	if sum == 0 {
		sum = 14695981039346656037
	}
	for _, c := range p {
		sum = (sum ^ uint64(c)) * 1099511628211
	}
	h.label = max(1, (sum^'/')*1099511628211)
}

// digits reads a number of at most 9 digits and returns what follows it. The
// number is -1 if p does not begin with one.
func digits(p []byte) (int, []byte) {
	i := 0
	for i < len(p) && '0' <= p[i] && p[i] <= '9' {
		i++
	}
	if i == 0 || i > 9 {
		return -1, p
	}
	n, _ := strconv.Atoi(string(p[:i]))
	return n, p[i:]
}

// cut returns the text of p before sep, and the bytes after it.
func cut(p []byte, sep byte) (string, []byte, bool) {
	i := bytes.IndexByte(p, sep)
	if i < 0 {
		return plainText(p), nil, false
	}
	return plainText(p[:i]), p[i+1:], true
}

// isNumber reports whether p is a number of at most 9 digits.
func isNumber(p []byte) bool {
	n, rest := digits(p)
	return n >= 0 && len(rest) == 0
}

// skipSpace removes one blank at the front of p.
func skipSpace(p []byte) []byte {
	if len(p) > 0 && p[0] == ' ' {
		return p[1:]
	}
	return p
}

// isName reports whether p has only the characters of names: ASCII letters,
// digits, "_", "-" and ".".
func isName(p []byte) bool {
	for _, c := range p {
		if (c|0x20 < 'a' || c|0x20 > 'z') && (c < '0' || c > '9') && c != '_' && c != '-' && c != '.' {
			return false
		}
	}
	return true
}
