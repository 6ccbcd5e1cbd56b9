package diagnose

import (
	"bytes"
	"strconv"
	"strings"
)

// report is the state of reading a report of torchrun or gorun.
type report struct {
	open, root bool
	began      int64
	stream     streamKey
	entry      event
	node, said bool // node: gorun wrote it; said: it has the worker's last words
	tail       bool // in a field that quotes the worker's own lines
	stderr     bool // in the field of its last lines on standard error
	narrow     bool // quoted lines are indented by two blanks, not four
}

// own reports whether l belongs to an explanation that gorun printed earlier.
func (r *report) own(l *line) bool {
	return r.open && l.stream == r.stream && (bytes.HasPrefix(l.raw, []byte("  likely cause: ")) || bytes.HasPrefix(l.raw, []byte("  fix: ")))
}

// line reads a line within the report. Its fields say which worker the quoted
// lines belong to.
func (r *report) line(s *Scanner, l *line) {
	if !r.open || l.stream != r.stream {
		return
	}
	if bytes.HasPrefix(l.raw, []byte("=====")) || l.number-r.began > 500 {
		r.open = false
		if r.root && r.node && !r.said {
			s.mute(&r.entry)
		}
		return
	}
	if m := reportField().FindSubmatch(l.raw); m != nil {
		r.tail, r.stderr = false, string(m[1]) == "stderr"
		switch value := m[2]; string(m[1]) {
		case "time":
			r.entry = *s.event(s.m.byKey[rowSilent], l)
			r.node, r.said = false, false
			if t, _ := readTime(value); t.known() {
				r.entry.when = t
			}
		case "host":
			r.entry.host = text(value)
		case "rank":
			if m := reportRank().FindSubmatch(value); m != nil {
				r.entry.rank, _ = strconv.Atoi(string(m[1]))
				r.entry.local, _ = strconv.Atoi(string(m[2]))
				l.rank = r.entry.rank
			}
		case "exitcode":
			if m := reportExit().FindSubmatch(value); m != nil && r.entry.row != nil {
				r.entry.pid, _ = strconv.Atoi(string(m[2]))
				r.entry.text = text(l.raw)
				code, _ := strconv.Atoi(string(m[1]))
				e := r.entry
				s.end(ended{at: &e, code: code, root: r.root})
			}
		case "node":
			r.node = true
		case "stderr":
			r.said, r.tail = true, true
		default:
			r.tail = true
		}
	}
	if r.tail && r.entry.row != nil {
		if said := text([]byte(r.dedent(string(l.raw)))); r.stderr && said != "" {
			s.say(&r.entry, said)
		}
		l.rank, l.host, l.pid = r.entry.rank, r.entry.host, r.entry.pid
		if r.entry.when.known() {
			l.when = r.entry.when
		}
	}
}

// dedent removes what a report puts before a worker's own lines: torchrun two
// blanks, gorun four. A frame of a traceback has two blanks of its own. This
// shows the report of an older gorun, which puts two as well.
func (r *report) dedent(line string) string {
	if !r.open || !r.tail {
		return line
	}
	if at := reportTail().FindStringIndex(line); at != nil {
		return line[at[1]:]
	}
	rest, ok := strings.CutPrefix(line, "    ")
	field := strings.TrimSpace(line) == "" || reportField().MatchString(line)
	r.narrow = r.narrow || !ok && !field || strings.HasPrefix(rest, string(frameStart))
	if ok && r.node && !r.narrow {
		return rest
	}
	return strings.TrimPrefix(line, "  ")
}

// say records the last words of a worker on standard error.
func (s *Scanner) say(e *event, said string) {
	for i := range s.job.ends {
		if old := &s.job.ends[i]; e.pid > 0 && old.at.pid == e.pid && sameTeller(old.at, e) {
			old.said = said
		}
	}
}

// mute records that the worker of e wrote nothing to standard error.
func (s *Scanner) mute(e *event) {
	for i := range s.job.ends {
		if old := &s.job.ends[i]; e.pid > 0 && old.at.pid == e.pid && sameTeller(old.at, e) {
			old.mute = true
		}
	}
}
