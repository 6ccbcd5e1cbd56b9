package diagnose

import (
	"bytes"
	"path"
	"strings"
)

// stream reads a traceback from the lines of one process.
type stream struct {
	tracer
	began int64    // the number of its first line
	last  line     // the line with the exception's class
	said  []*event // the events of lines within the traceback
	front string   // a prefix of each line that readHead does not know
	prev  *event   // the event of the exception before this one
}

func (st *stream) reading() bool { return st.state != outside }

var (
	traceStart = []byte("Traceback (most recent call last)")
	frameStart = []byte(`File "`)
	reportTail = lazily(`^  ?(?:traceback|stderr) *: `)
)

// trace reads a line of a traceback, or the first line of a new one.
func (s *Scanner) trace(l *line) {
	st := s.streams[l.stream]
	if st == nil {
		if !bytes.Contains(l.raw, traceStart) && !bytes.HasPrefix(bytes.TrimLeft(l.raw, " "), frameStart) || len(s.streams) >= maxKnown {
			return
		}
		st = &stream{began: l.number}
		s.streams[l.stream] = st
	}
	if text := strings.TrimRight(s.inside.dedent(string(l.raw)), " \t"); text != "" {
		before := st.state
		text = strings.TrimPrefix(text, st.front)
		if at := strings.Index(text, string(traceStart)); at > 0 && !strings.Contains(text[:at], "Original ") {
			st.front, text = text[:at], text[at:] // or a logger's own words, once
		}
		e, ok := st.line(text)
		if ok {
			s.raised(st, e, l.number)
		}
		if st.state == inMessage && (before == inFrames || ok) {
			st.last = *l
			st.last.raw = bytes.Clone(l.raw)
		}
	}
	// The next traceback of a chain comes after an empty line and a line that
	// announces it.
	if st.state == outside && !st.chained && !st.ignored && l.number-st.began > 0 {
		delete(s.streams, l.stream)
	}
}

// finish ends a stream's traceback as it is.
func (s *Scanner) finish(st *stream, key streamKey) {
	if e, ok := st.end(); ok {
		s.raised(st, e, 0)
	}
	delete(s.streams, key)
}

// raised records an exception. end is the number of the line that ended it, 0
// if none did. Lines within the traceback that have a meaning explain the
// exception better than its class does.
func (s *Scanner) raised(st *stream, e exception, end int64) {
	said := st.said
	st.said = nil
	if n := len(said); n > 0 && said[n-1].number == end {
		said, st.said = said[:n-1], said[n-1:]
	}
	at := ""
	if place := e.at(); place != "" {
		dir, file := path.Split(place)
		at = " (" + text([]byte(path.Join(path.Base(dir), file))) + ")"
	}
	if best := mostTelling(said); best != nil {
		best.raised, best.later = true, e.after()
		if !strings.HasSuffix(best.text, at) {
			best.text += at
		}
		st.prev = best
		return
	}
	if st.prev != nil && (e.chained || st.prev.row.Key == "x27") {
		st.prev.later = e.after()                              // what lay between belongs to one traceback
		if !e.chained && st.prev.number > st.last.number-100 { // the dataset's own exception
			st.prev.text += ": " + text([]byte(e.text())) + at
		}
		return
	}
	key, class := rowRaised, Primary
	switch name := e.class[strings.LastIndexByte(e.class, '.')+1:]; {
	case name == "ChildFailedError", name == "ProcessRaisedException":
		s.job.failed = true
		return
	case name == "KeyboardInterrupt", name == "SystemExit", name == "SignalException":
		key, class = rowEnded, Consequence
	case e.launcher && e.script == "":
		key, class = rowLauncher, Hint
	case e.lostPeer():
		key, class = rowPeerExc, Consequence
	case name == "ModuleNotFoundError":
		key = rowModule
	case name == "CalledProcessError", name == "ProcessExitedException", e.distributed():
		class = Hint
	}
	ev := s.event(s.m.byKey[key], &st.last)
	ev.class = class
	ev.later = e.after()
	ev.text = text([]byte(e.text())) + at
	st.prev = s.record(ev, e.text()[:min(len(e.text()), 200)])
}

// mostTelling returns the first event of the highest class, nil if there is
// none.
func mostTelling(said []*event) *event {
	for _, c := range []Class{Primary, Consequence, Hint} {
		for _, e := range said {
			if e.class == c {
				return e
			}
		}
	}
	return nil
}
