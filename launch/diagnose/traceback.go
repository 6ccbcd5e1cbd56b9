package diagnose

import (
	"bytes"
	"path"
	"strings"
)

// tracebackReader reads a traceback from the lines of one process.
type tracebackReader struct {
	tracer
	firstLine int64    // the number of its first line
	last      line     // the line with the exception's class
	events    []*event // the events of lines within the traceback
	prefix    string   // a prefix of each line that readHead does not know
	previous  *event   // the event of the exception before this one
}

func (st *tracebackReader) isOpen() bool { return st.state != outside }

var (
	traceStart = []byte("Traceback (most recent call last)")
	frameStart = []byte(`File "`)
	reportTail = lazyRegexp(`^  ?(?:traceback|stderr) *: `)
)

// readTraceback reads a line of a traceback, or the first line of a new one.
func (s *Scanner) readTraceback(l *line) {
	st := s.tracebacks[l.stream]
	if st == nil {
		if !bytes.Contains(l.raw, traceStart) && !bytes.HasPrefix(bytes.TrimLeft(l.raw, " "), frameStart) || len(s.tracebacks) >= maxTracked {
			return
		}
		st = &tracebackReader{firstLine: l.number}
		s.tracebacks[l.stream] = st
	}
	if text := strings.TrimRight(s.report.dedent(string(l.raw)), " \t"); text != "" {
		before := st.state
		text = strings.TrimPrefix(text, st.prefix)
		if at := strings.Index(text, string(traceStart)); at > 0 && !strings.Contains(text[:at], "Original ") {
			st.prefix, text = text[:at], text[at:] // or a logger's own words, once
		}
		e, ok := st.readLine(text)
		if ok {
			s.recordException(st, e, l.number)
		}
		if st.state == inMessage && (before == inFrames || ok) {
			st.last = *l
			st.last.raw = bytes.Clone(l.raw)
		}
	}
	// The next traceback of a chain comes after an empty line and a line that
	// announces it.
	if st.state == outside && !st.chained && !st.ignored && l.number-st.firstLine > 0 {
		delete(s.tracebacks, l.stream)
	}
}

// endTraceback ends a stream's traceback as it is.
func (s *Scanner) endTraceback(st *tracebackReader, key streamKey) {
	if e, ok := st.end(); ok {
		s.recordException(st, e, 0)
	}
	delete(s.tracebacks, key)
}

// recordException records an exception. end is the number of the line that ended it, 0
// if none did. Lines within the traceback that have a meaning explain the
// exception better than its class does.
func (s *Scanner) recordException(st *tracebackReader, e exception, end int64) {
	events := st.events
	st.events = nil
	if n := len(events); n > 0 && events[n-1].number == end {
		events, st.events = events[:n-1], events[n-1:]
	}
	at := ""
	if place := e.place(); place != "" {
		dir, file := path.Split(place)
		at = " (" + plainText([]byte(path.Join(path.Base(dir), file))) + ")"
	}
	if best := strongest(events); best != nil {
		best.inTraceback, best.later = true, e.laterLines()
		if !strings.HasSuffix(best.text, at) {
			best.text += at
		}
		st.previous = best
		return
	}
	if st.previous != nil && (e.chained || st.previous.row.Key == "x27") {
		st.previous.later = e.laterLines()                         // what lay between belongs to one traceback
		if !e.chained && st.previous.number > st.last.number-100 { // the dataset's own exception
			st.previous.text += ": " + plainText([]byte(e.text())) + at
		}
		return
	}
	key, class := rowException, Primary
	switch name := e.class[strings.LastIndexByte(e.class, '.')+1:]; {
	case name == "ChildFailedError", name == "ProcessRaisedException":
		s.job.failed = true
		return
	case name == "KeyboardInterrupt", name == "SystemExit", name == "SignalException":
		key, class = rowStopException, Consequence
	case e.launcher && e.script == "":
		key, class = rowLauncherException, Hint
	case e.lostPeer():
		key, class = rowPeerException, Consequence
	case name == "ModuleNotFoundError":
		key = rowNoModule
	case name == "CalledProcessError", name == "ProcessExitedException", e.distributed():
		class = Hint
	}
	ev := s.newEvent(s.m.byKey[key], &st.last)
	ev.class = class
	ev.later = e.laterLines()
	ev.text = plainText([]byte(e.text())) + at
	st.previous = s.record(ev, e.text()[:min(len(e.text()), 200)])
}

// strongest returns the first event of the highest class, nil if there is
// none.
func strongest(events []*event) *event {
	for _, c := range []Class{Primary, Consequence, Hint} {
		for _, e := range events {
			if e.class == c {
				return e
			}
		}
	}
	return nil
}
