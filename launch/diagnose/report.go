package diagnose

import (
	"bytes"
	"strconv"
	"strings"

	"github.com/gorun/gorun/launch/diagnose/catalogue"
	"github.com/gorun/gorun/launch/diagnose/match"
	"github.com/gorun/gorun/launch/diagnose/prefix"
)

// report reads a report of torchrun or gorun on a job's end.
type report struct {
	isOpen    bool
	isRoot    bool // in the part about the root cause
	firstLine int64
	stream    streamKey

	worker    event // the worker of the present entry
	ofGorun   bool  // gorun wrote the entry
	hasStderr bool  // the entry has the worker's last lines on standard error
	inQuote   bool  // in a field that quotes the worker's own lines
	inStderr  bool  // in the field of the worker's last lines on standard error
	isBelow   bool  // below torchrun's part, where gorun adds fields about the root cause
}

// readElastic reads the start of a report of torchrun's agent.
func (s *Scanner) readElastic(l *line, f *match.Fields) {
	s.report = report{isOpen: true, isRoot: f.Has("root"), firstLine: l.number, stream: l.stream}
}

var (
	reportField = match.Lazy(`^ *(time|host|node|rank|exitcode|traceback|stderr) *: (.*)$`)
	reportRank  = match.Lazy(`^(\d+) \(local_rank: (\d+)\)`)
	reportExit  = match.Lazy(`^(-?\d+) *\(pid: (\d+)\)`)
)

// isExplanation reports whether l is a line in which gorun explained the failure.
func (r *report) isExplanation(l *line) bool {
	return r.isOpen && l.stream == r.stream && (bytes.HasPrefix(l.raw, []byte("  likely cause: ")) || bytes.HasPrefix(l.raw, []byte("  fix: ")))
}

// readLine reads a line of the report. It gives quoted lines the rank, the host and
// the pid of their worker.
func (r *report) readLine(s *Scanner, l *line) {
	if !r.isOpen || l.stream != r.stream {
		return
	}
	isBar := bytes.HasPrefix(l.raw, []byte("====="))
	if isBar && r.isRoot && !r.isBelow {
		r.isBelow, r.inQuote, r.inStderr = true, false, false
		return
	}
	if isBar || l.number-r.firstLine > 500 || r.isBelow && !bytes.HasPrefix(l.raw, []byte("  ")) && len(bytes.TrimSpace(l.raw)) > 0 {
		r.isOpen = false
		if r.isRoot && r.ofGorun && !r.hasStderr {
			for end := range s.endsOf(&r.worker) {
				end.noStderr = true
			}
		}
		return
	}
	if m := reportField().FindSubmatch(l.raw); m != nil {
		r.readField(s, l, string(m[1]), m[2])
	}
	if r.inQuote && r.worker.row != nil {
		if last := match.PlainText([]byte(r.dedent(string(l.raw)))); r.inStderr && last != "" {
			for end := range s.endsOf(&r.worker) {
				end.lastLine = last
			}
		}
		l.Rank, l.Host, l.PID = r.worker.rank, r.worker.host, r.worker.pid
		if r.worker.when.IsKnown() {
			l.When = r.worker.when
		}
	}
}

// readField reads a line of the report that has a field of a worker.
func (r *report) readField(s *Scanner, l *line, name string, value []byte) {
	r.inQuote, r.inStderr = false, name == "stderr"
	switch name {
	case "time":
		r.worker = *s.newEvent(s.matcher.byKey[catalogue.RowNoReason], l)
		r.ofGorun, r.hasStderr = false, false
		if t, _ := prefix.ReadTime(value); t.IsKnown() {
			r.worker.when = t
		}
	case "host":
		if r.worker.row == nil { // the line with the time is cut off
			r.worker = *s.newEvent(s.matcher.byKey[catalogue.RowNoReason], l)
		}
		r.worker.host = match.PlainText(value)
	case "rank":
		if m := reportRank().FindSubmatch(value); m != nil {
			r.worker.rank, _ = strconv.Atoi(string(m[1]))
			r.worker.local, _ = strconv.Atoi(string(m[2]))
			l.Rank = r.worker.rank
		}
	case "exitcode":
		if m := reportExit().FindSubmatch(value); m != nil && r.worker.row != nil {
			r.worker.pid, _ = strconv.Atoi(string(m[2]))
			r.worker.text = match.PlainText(l.raw)
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

// dedent removes what a report puts before a worker's own lines: torchrun puts two
// blanks, gorun four.
func (r *report) dedent(line string) string {
	if !r.isOpen || !r.inQuote {
		return line
	}
	if at := reportTail().FindStringIndex(line); at != nil {
		return line[at[1]:]
	}
	if r.ofGorun {
		line = strings.TrimPrefix(line, "  ")
	}
	return strings.TrimPrefix(line, "  ")
}
