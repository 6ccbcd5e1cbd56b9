package diagnose

import (
	"bytes"
	"strconv"
)

const (
	maxGroups  = 512  // kinds of events
	keptEvents = 64   // of each kind, half of them the first and half the last
	maxWaiting = 64   // events after which a program may go on
	maxTracked = 4096 // streams with a traceback, ends, hosts with a version
	// survivedAfter is more than the other workers print after one has failed, in a
	// log that does not say which worker printed a line.
	survivedAfter = 2000
)

// event is one line, or one traceback, that means something.
type event struct {
	row    *compiledRow
	class  Class // the row's, unless the event changes it
	log    int
	number int64
	when   stamp
	stream streamKey

	origin
	text string

	later       int  // lines of its stream that followed
	ofOneWorker bool // the stream is one worker's
	inTraceback bool // a traceback contains it
}

// origin says which rank and process an event belongs to, as far as known.
// Unknown numbers are -1 (pid: 0), unknown names are empty.
type origin struct {
	rank, local, task, pid int
	host, peer             string
	named                  []int // ranks that the line itself names
}

// mayBeHandled reports whether more output followed e than the last words of a
// worker.
func (e *event) mayBeHandled() bool {
	return e.later > survivedAfter || e.row.Catchable && e.later > lastLines
}

// survived reports whether the worker survived e.
func (e *event) survived() bool { return e.later > survivedAfter || e.ofOneWorker && e.mayBeHandled() }

// fillOrigin fills in the rank and pid of e from a launcher's report of the end, if e
// has none and both are of one log and host.
func (e *event) fillOrigin(end *event) {
	if e.rank < 0 && e.local < 0 && e.pid <= 0 && e.log == end.log && e.host == end.host {
		e.rank, e.local, e.pid = end.rank, end.local, end.pid
	}
}

// group has the events of one meaning.
type group struct {
	row    *compiledRow
	count  int64
	events []*event
	ring   int // index of the next event in the second half
}

// record adds an event to the group of its row and detail.
func (s *Scanner) record(e *event, detail string) *event {
	key := e.row.Key + "\x00" + detail
	g := s.groups[key]
	if g == nil && len(s.groups) >= maxGroups {
		key = e.row.Key
		g = s.groups[key]
	}
	if g == nil {
		g = &group{row: e.row}
		s.groups[key] = g
	}
	g.count++
	if len(g.events) < keptEvents {
		g.events = append(g.events, e)
	} else {
		g.events[keptEvents/2+g.ring] = e
		g.ring = (g.ring + 1) % (keptEvents / 2)
	}
	if (e.class == Primary || e.class == Hint) && !e.row.Weak && len(s.followed) < maxWaiting {
		s.followed = append(s.followed, e)
	}
	return e
}

// newEvent returns the event of a line.
func (s *Scanner) newEvent(row *compiledRow, l *line) *event {
	return &event{
		row: row, class: row.Class, log: l.stream.log, number: l.number, when: l.when, stream: l.stream,
		ofOneWorker: l.rank >= 0 || l.local >= 0, text: plainText(l.raw),
		origin: origin{rank: l.rank, local: l.local, task: l.task, pid: l.pid, host: l.host},
	}
}

// recordMatch records a line that a row matches.
func (s *Scanner) recordMatch(row *compiledRow, at []int, l *line) {
	e := s.newEvent(row, l)
	if len(l.raw) > maxText && at[0] > maxText/2 { // the start of a long line says little
		e.text = "… " + plainText(l.raw[at[0]:])
	}
	for _, name := range []string{"rank", "rank2"} {
		if n, err := strconv.Atoi(row.group(name, l.raw, at)); err == nil {
			e.named = append(e.named, n)
		}
	}
	e.peer = plainText([]byte(row.group("peer", l.raw, at)))
	if host := row.group("host", l.raw, at); host != "" {
		e.host = plainText([]byte(host))
	}
	for _, name := range []string{"pid", "pid2"} {
		if pid, err := strconv.Atoi(row.group(name, l.raw, at)); err == nil {
			e.pid = pid
		}
	}
	s.record(e, "")
	if st := s.tracebacks[l.stream]; st != nil && st.isOpen() {
		st.events = append(st.events[:min(len(st.events), 16)], e)
	}
}

// countLaterLines counts the lines that a stream prints after an error which its program
// may have caught.
func (s *Scanner) countLaterLines(l *line) {
	if len(s.followed) == 0 || len(l.raw) == 0 || l.raw[0] == ' ' || isShutdownLine(l.raw) {
		return
	}
	kept := s.followed[:0]
	for _, e := range s.followed {
		if e.stream == l.stream {
			e.later++
		}
		if !e.survived() && l.number-e.number < maxFollowed {
			kept = append(kept, e)
		}
	}
	s.followed = kept
}

// isShutdownLine reports whether a worker prints such a line while it ends: torch's
// warnings, stack frames, NCCL's messages.
func isShutdownLine(line []byte) bool {
	return len(line) > 2 && line[0] == '[' && bytes.IndexByte([]byte("EWIF"), line[1]) >= 0 ||
		bytes.HasPrefix(line, []byte("frame #")) || bytes.HasPrefix(line, []byte("terminate called")) || bytes.Contains(line, []byte("NCCL "))
}

// endStaleTracebacks ends the tracebacks that have not ended within patience.
func (s *Scanner) endStaleTracebacks(l *line) {
	for key, st := range s.tracebacks {
		if l.number-st.firstLine > maxFollowed || l.number < st.firstLine {
			s.endTraceback(st, key)
		}
	}
}
