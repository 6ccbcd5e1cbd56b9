package diagnose

import (
	"bytes"
	"strconv"
	"strings"
)

// report is the report of torchrun or gorun that the lines are in.
type report struct {
	open, root bool
	began      int64
	stream     streamKey
	entry      event
	node, said bool // gorun tells it; with what the worker wrote
	tail       bool // within the fields that have a worker's own lines
	stderr     bool // within that of its last lines
	narrow     bool // which stand behind two blanks
}

// own reports whether the line is what an earlier explanation said.
func (r *report) own(l *line) bool {
	return r.open && l.stream == r.stream && (bytes.HasPrefix(l.raw, []byte("  likely cause: ")) || bytes.HasPrefix(l.raw, []byte("  fix: ")))
}

// line takes a line within the report: its fields say whose the others are.
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

// dedent takes what a report puts before a worker's own lines: torchrun two
// blanks, gorun four. A frame of a traceback has two of its own, which tells a
// report of an older gorun's.
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

// say notes the last words of a worker on standard error.
func (s *Scanner) say(e *event, said string) {
	for i := range s.job.ends {
		if old := &s.job.ends[i]; e.pid > 0 && old.at.pid == e.pid && sameTeller(old.at, e) {
			old.said = said
		}
	}
}

// mute notes that the worker whose end is told wrote nothing to standard error.
func (s *Scanner) mute(e *event) {
	for i := range s.job.ends {
		if old := &s.job.ends[i]; e.pid > 0 && old.at.pid == e.pid && sameTeller(old.at, e) {
			old.mute = true
		}
	}
}
