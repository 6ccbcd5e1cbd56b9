package diagnose

import (
	"bytes"
	"cmp"
	"path"
	"slices"
	"strings"
)

// tracebackReader reads the tracebacks in one stream of a log.
type tracebackReader struct {
	tracer
	firstLine int64    // the number of the first line
	last      line     // the line with the exception's class
	events    []*event // the events of lines within the traceback
	prefix    string   // a prefix of each line that readHead does not know
	previous  *event   // the event of the previous exception
	rank      int      // of the line that began it; -1: unknown
	spawned   int      // the process that torch.multiprocessing says raised the next exception; -1: unknown
}

// isOpen reports whether a traceback has begun and not ended.
func (t *tracebackReader) isOpen() bool { return t.state != outside }

var (
	traceStart = []byte("Traceback (most recent call last)")
	frameStart = []byte(`File "`)
	reportTail = lazyRegexp(`^  ?(?:traceback|stderr) *: `)
)

// readTraceback reads a line of a traceback, or the first line of a new one.
func (s *Scanner) readTraceback(l *line) {
	t := s.tracebacks[l.stream]
	if t == nil {
		if !bytes.Contains(l.raw, traceStart) && !bytes.HasPrefix(bytes.TrimLeft(l.raw, " "), frameStart) && !isIgnored(string(l.raw[:min(len(l.raw), 40)])) || len(s.tracebacks) >= maxTracked {
			return
		}
		if at := bytes.Index(l.raw, traceStart); at > 0 && isQuoted(l.raw, at) {
			return
		}
		t = &tracebackReader{firstLine: l.number, spawned: -1, rank: -1}
		s.tracebacks[l.stream] = t
	}
	if text := strings.TrimPrefix(strings.TrimRight(s.report.dedent(string(l.raw)), " \t"), t.prefix); text != "" {
		before := t.state
		if at := strings.Index(text, string(traceStart)); at > 0 && !strings.Contains(text[:at], "Original ") {
			t.prefix, text = text[:at], text[at:] // a logger's prefix may stand here only
			t.rank = l.rank
		}
		spawned := number(spawnedLine(), []byte(text))
		e, ok := t.readLine(text)
		t.spawned = max(t.spawned, spawned)
		if ok {
			s.recordException(t, e, l.number)
		}
		if t.state == inMessage && (before == inFrames || ok) {
			t.last = *l
			t.last.raw = bytes.Clone(l.raw)
		}
	}
	// The next traceback of a chain comes after an empty line and a line that
	// announces it.
	if t.state == outside && !t.chained && !t.ignored && l.number-t.firstLine > 0 {
		delete(s.tracebacks, l.stream)
	}
}

// endTracebacks ends the tracebacks that isOver selects, in the order of their first
// lines.
func (s *Scanner) endTracebacks(isOver func(*tracebackReader) bool) {
	var over []streamKey
	for key, t := range s.tracebacks {
		if isOver(t) {
			over = append(over, key)
		}
	}
	slices.SortFunc(over, func(a, b streamKey) int {
		return cmp.Or(cmp.Compare(s.tracebacks[a].firstLine, s.tracebacks[b].firstLine), cmp.Compare(a.label, b.label))
	})
	for _, key := range over {
		t := s.tracebacks[key]
		if e, ok := t.end(); ok {
			s.recordException(t, e, 0)
		}
		delete(s.tracebacks, key)
	}
}

// recordException records an exception. end is the number of the line that ended
// it, 0 if none did. An event within the traceback explains the exception better
// than the exception's class.
func (s *Scanner) recordException(t *tracebackReader, e exception, end int64) {
	events := t.events
	t.events = nil
	if n := len(events); n > 0 && events[n-1].number == end {
		events, t.events = events[:n-1], events[n-1:]
	}
	at := ""
	if place := e.place(); place != "" {
		dir, file := path.Split(place)
		at = " (" + plainText([]byte(path.Join(path.Base(dir), file))) + ")"
	}
	if best := strongest(events); best != nil {
		if best.rank < 0 {
			best.rank = t.rank
		}
		best.inTraceback, best.later = true, e.laterLines()
		if !strings.HasSuffix(best.text, at) {
			best.text += at
		}
		t.previous = best
		return
	}
	if t.previous != nil && (e.chained || t.previous.row.Key == rowDataset) {
		t.previous.later = e.laterLines()                        // the lines between belong to one traceback
		if !e.chained && t.previous.number > t.last.number-100 { // the dataset's own exception
			t.previous.text += ": " + plainText([]byte(e.text())) + at
		}
		return
	}
	if s.addSpawnEnd(e.text(), &t.last) {
		return
	}
	key, kind := e.meaning()
	if text := []byte(e.text()); key == rowException && (strings.HasPrefix(e.class, "ray.exceptions.") || s.matcher.wordings.has(summaryWords, text)) {
		key, kind = rowSummary, Vague
	}
	if key == "" {
		s.job.failed = true
		return
	}
	ev := s.newEvent(s.matcher.byKey[key], &t.last)
	if ev.rank < 0 {
		ev.rank = t.rank
	}
	if ev.rank < 0 && ev.local < 0 && t.spawned >= 0 {
		ev.local = t.spawned
	}
	ev.kind = kind
	if task := s.rayTask; task != nil && task.stream == ev.stream && ev.number-task.number < 100 {
		ev.pid, ev.host = task.pid, task.host
		s.rayTask = nil
	}
	ev.later = e.laterLines()
	ev.text = plainText([]byte(e.text())) + at
	ev.handled = s.job.wentWell[ev.log] && e.script == "" // finalizers fail at exit
	for _, line := range e.message[min(1, len(e.message)):] {
		ev.handled = ev.handled || s.matcher.wordings.has(goesOnWords, []byte(line))
	}
	t.previous = s.record(ev, e.text()[:min(len(e.text()), 200)])
}

// rayLoss matches Ray's exceptions about another process that ended.
var rayLoss = lazyRegexp(`^ray\.exceptions\.(?:Ray)?(?:Actor|Worker|Node|Owner|Object|Reference)\w*Error$`)

// meaning returns the row and the class of an exception. The row is "" if a launcher
// raised e because a worker failed.
func (e *exception) meaning() (key string, kind Kind) {
	switch name := e.class[strings.LastIndexByte(e.class, '.')+1:]; {
	case name == "ChildFailedError", name == "ProcessRaisedException", spawnedLine().MatchString(strings.TrimPrefix(e.text(), "Exception: ")):
		return "", noKind
	case name == "KeyboardInterrupt":
		return rowInterrupted, Vague
	case name == "SystemExit", name == "SignalException":
		return rowStopException, Consequence
	case e.fromLauncher && e.script == "":
		return rowLauncherException, Vague
	case e.lostPeer():
		return rowPeerException, PeerLost
	case name == "ModuleNotFoundError":
		return rowNoModule, Catchable
	case name == "FileNotFoundError", name == "PermissionError", name == "NotADirectoryError", name == "IsADirectoryError":
		return rowNoFile, Catchable
	case rayLoss().MatchString(e.class):
		return rowActorDied, Vague
	case name == "CalledProcessError", name == "ProcessExitedException", e.distributed():
		return rowException, CatchableClue
	}
	return rowException, Catchable
}

// strongest returns the first event of the strongest kind, nil if there is
// none.
func strongest(events []*event) *event {
	rank := func(e *event) int {
		switch e.kind.tier() {
		case tierCause:
			return 0
		case tierConsequence: // an exception that names a lost peer
			return 1
		case tierHarmless:
			return 3
		}
		return 2
	}
	var best *event
	for _, e := range events {
		if rank(e) < 3 && (best == nil || rank(e) < rank(best)) {
			best = e
		}
	}
	return best
}
