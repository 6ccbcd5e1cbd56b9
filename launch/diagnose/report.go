package diagnose

import (
	"bytes"
	"strconv"
	"strings"
)

// report is the state of reading a report of torchrun or gorun.
type report struct {
	isOpen, isRoot     bool
	firstLine          int64
	stream             streamKey
	worker             event
	ofGorun, hasStderr bool // node: gorun wrote it; said: it has the worker's last words
	inQuote            bool // in a field that quotes the worker's own lines
	inStderr           bool // in the field of its last lines on standard error
	narrow             bool // quoted lines are indented by two blanks, not four
}

// isExplanation reports whether l belongs to an explanation that gorun printed earlier.
func (r *report) isExplanation(l *line) bool {
	return r.isOpen && l.stream == r.stream && (bytes.HasPrefix(l.raw, []byte("  likely cause: ")) || bytes.HasPrefix(l.raw, []byte("  fix: ")))
}

// readLine reads a line within the report. Its fields say which worker the quoted
// lines belong to.
func (r *report) readLine(s *Scanner, l *line) {
	if !r.isOpen || l.stream != r.stream {
		return
	}
	if bytes.HasPrefix(l.raw, []byte("=====")) || l.number-r.firstLine > 500 {
		r.isOpen = false
		if r.isRoot && r.ofGorun && !r.hasStderr {
			s.recordNoStderr(&r.worker)
		}
		return
	}
	if m := reportField().FindSubmatch(l.raw); m != nil {
		r.inQuote, r.inStderr = false, string(m[1]) == "stderr"
		switch value := m[2]; string(m[1]) {
		case "time":
			r.worker = *s.newEvent(s.m.byKey[rowNoReason], l)
			r.ofGorun, r.hasStderr = false, false
			if t, _ := readTime(value); t.isKnown() {
				r.worker.when = t
			}
		case "host":
			r.worker.host = plainText(value)
		case "rank":
			if m := reportRank().FindSubmatch(value); m != nil {
				r.worker.rank, _ = strconv.Atoi(string(m[1]))
				r.worker.local, _ = strconv.Atoi(string(m[2]))
				l.rank = r.worker.rank
			}
		case "exitcode":
			if m := reportExit().FindSubmatch(value); m != nil && r.worker.row != nil {
				r.worker.pid, _ = strconv.Atoi(string(m[2]))
				r.worker.text = plainText(l.raw)
				code, _ := strconv.Atoi(string(m[1]))
				e := r.worker
				s.addEnd(workerEnd{event: &e, code: code, isRoot: r.isRoot})
			}
		case "node":
			r.ofGorun = true
		case "stderr":
			r.hasStderr, r.inQuote = true, true
		default:
			r.inQuote = true
		}
	}
	if r.inQuote && r.worker.row != nil {
		if said := plainText([]byte(r.dedent(string(l.raw)))); r.inStderr && said != "" {
			s.recordLastLine(&r.worker, said)
		}
		l.rank, l.host, l.pid = r.worker.rank, r.worker.host, r.worker.pid
		if r.worker.when.isKnown() {
			l.when = r.worker.when
		}
	}
}

// dedent removes what a report puts before a worker's own lines: torchrun two
// blanks, gorun four. A frame of a traceback has two blanks of its own. This
// shows the report of an older gorun, which puts two as well.
func (r *report) dedent(line string) string {
	if !r.isOpen || !r.inQuote {
		return line
	}
	if at := reportTail().FindStringIndex(line); at != nil {
		return line[at[1]:]
	}
	rest, ok := strings.CutPrefix(line, "    ")
	field := strings.TrimSpace(line) == "" || reportField().MatchString(line)
	r.narrow = r.narrow || !ok && !field || strings.HasPrefix(rest, string(frameStart))
	if ok && r.ofGorun && !r.narrow {
		return rest
	}
	return strings.TrimPrefix(line, "  ")
}

// recordLastLine records the last words of a worker on standard error.
func (s *Scanner) recordLastLine(e *event, said string) {
	for i := range s.job.ends {
		if old := &s.job.ends[i]; e.pid > 0 && old.event.pid == e.pid && sameProcess(old.event, e) {
			old.lastLine = said
		}
	}
}

// recordNoStderr records that the worker of e wrote nothing to standard error.
func (s *Scanner) recordNoStderr(e *event) {
	for i := range s.job.ends {
		if old := &s.job.ends[i]; e.pid > 0 && old.event.pid == e.pid && sameProcess(old.event, e) {
			old.noStderr = true
		}
	}
}
