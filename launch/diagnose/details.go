package diagnose

import (
	"github.com/gorun/gorun/launch/diagnose/match"
	"github.com/gorun/gorun/launch/diagnose/wording"
)

// detailLines bounds the lines between an event and its details.
const detailLines = 40

// detailLine matches the host and the program in a help text of mpirun, and the node
// of a process in an exception of Ray.
const detailLine = `^\s*(?i:target node:|node:  |local host: | host: |hostname:) *(?P<host>[\w.-]+)\s*$|^(?:\tip: |\s*    ip: )(?P<host2>[\w.:-]+)\s*$|^\s*(?:Executable|Application name):\s+(?P<program>\S+)`

// readDetail reads a line that says more about the event before it: the host and the
// program of a help text, the node of an actor.
func (s *Scanner) readDetail(l *line, f *match.Fields) {
	e := s.lastEvent
	if e == nil || e.stream != l.stream || l.number-e.number > detailLines {
		return
	}
	if e.host == "" && e.rank < 0 {
		e.host = f.Text("host")
	}
	if program := f.Text("program"); program != "" && len(e.text) < match.MaxText/2 {
		e.text += " " + program
	}
}

// inRecordOf reports whether l belongs to the message of several lines that a logger
// wrote from the line of e on. Only the first line of such a message has a time.
func (s *Scanner) inRecordOf(e *event, l *line) bool {
	return e != nil && e.stream == l.stream && l.stream == s.recordOf && !l.Timed && s.recordStart > 0 && e.number >= s.recordStart && l.number-e.number <= 2*besideSpan
}

// nameRecord gives the last event the host that a later line of its message names.
func (s *Scanner) nameRecord(l *line) {
	if e := s.lastEvent; s.inRecordOf(e, l) && e.number < l.number && e.host == "" && !e.hasOrigin() {
		if host := s.matcher.wordings.Named(wording.Host, l.raw); host != nil {
			e.host = match.PlainText(host)
		}
	}
}

// readMissingTask adds a task to the event before it, which announces a list of those that
// did not come: of JAX's barrier, or of the stalled ranks of Horovod.
func (s *Scanner) readMissingTask(l *line, f *match.Fields) {
	e, stream, rank := s.lastEvent, l.stream, f.Number("rank")
	if f.Has("label") && e != nil { // "0: [HorovodAllreduce]" looks like a line of srun's task 0
		stream, rank = streamKey{l.stream.log, e.stream.label}, l.Task
	}
	if e == nil || rank < 0 || !e.row.Kind.IsAbsence() || e.stream != stream || l.number-e.number > detailLines || len(e.named) >= maxRanks {
		return
	}
	e.named = append(e.named, rank)
}
