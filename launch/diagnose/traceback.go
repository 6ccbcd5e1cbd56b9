package diagnose

import (
	"bytes"
	"cmp"
	"path"
	"slices"
	"strings"

	"github.com/gorun/gorun/launch/diagnose/catalogue"
	"github.com/gorun/gorun/launch/diagnose/match"
	"github.com/gorun/gorun/launch/diagnose/python"
	"github.com/gorun/gorun/launch/diagnose/wording"
)

// tracebackReader reads the tracebacks in one stream of a log.
type tracebackReader struct {
	python.Tracer
	firstLine int64    // the number of the first line
	last      line     // the line with the exception's class
	events    []*event // the events of lines within the traceback
	prefix    string   // a prefix of each line that readHead does not know
	isStrict  bool     // lines without it are of another writer
	isOther   bool     // the last line is
	isFirst   bool     // the next line is the first below that of prefix
	past
	rank     int  // of the line that began it; -1: unknown
	isNamed  bool // the line names a rank that is not its writer
	spawned  int  // the process that torch.multiprocessing says raised the next exception; -1: unknown
	repeated bool // all its lines are of a flood
	// isHandled means that the line before says that the program tries again.
	isHandled bool
}

// past is what the next exception of a stream needs of the one before it.
type past struct {
	previous *event // its event
	isBare   bool   // it has no message
	quotes   bool   // its message quotes the next exception
}

// isOpen reports whether a traceback has begun and not ended.
func (t *tracebackReader) isOpen() bool { return t.State != python.Outside }

// isSource reports whether a line is source code between two frames, which the program did
// not print as its own words.
func (t *tracebackReader) isSource(raw []byte) bool {
	return t.State == python.InFrames && sourceOfFrame().Match(raw)
}

// sourceOfFrame matches the source that Python shows below a frame.
var sourceOfFrame = match.Lazy(`^    +(?:raise |return |with |assert |if |[\w.]+ ?= ?\w|[\w.]+\()`)

var (
	traceStart = []byte("Traceback (most recent call last)")
	frameStart = []byte(`File "`)
	reportTail = match.Lazy(`^  ?(?:traceback|stderr) *: `)
)

// readTraceback reads a line of a traceback, or the first line of a new one.
func (s *Scanner) readTraceback(l *line) {
	t := s.tracebacks[l.stream]
	if t == nil {
		if t = s.openTraceback(l); t == nil {
			return
		}
		s.tracebacks[l.stream] = t
	}
	t.repeated = t.repeated && s.flood.isRepeated()
	isOver := false
	if text := t.trimPrefix(strings.TrimRight(s.report.dedent(string(l.raw)), " \t"), l.number); text != "" {
		isOver = s.readTracebackLine(t, text, l)
	}
	// The next traceback of a chain comes after an empty line and a line that
	// announces it.
	if isOver || t.State == python.Outside && !t.Chained && !t.Ignored && l.number-t.firstLine > 0 {
		delete(s.tracebacks, l.stream)
	}
}

// openTraceback returns the reader of the traceback that begins in l, nil if none does.
func (s *Scanner) openTraceback(l *line) *tracebackReader {
	at := bytes.Index(l.raw, traceStart)
	begins := at >= 0 || bytes.HasPrefix(bytes.TrimLeft(l.raw, " "), frameStart) || python.IsIgnored(string(l.raw[:min(len(l.raw), 40)]))
	if !begins || len(s.tracebacks) >= maxTracked || at > 0 && isQuoted(l.raw, at) {
		return nil
	}
	return &tracebackReader{firstLine: l.number, spawned: -1, rank: -1, repeated: true, isHandled: s.goesOnBefore(l)}
}

// readTracebackLine reads a line of t, without its prefix. isOver means that t ends here.
func (s *Scanner) readTracebackLine(t *tracebackReader, text string, l *line) (isOver bool) {
	if t.State == python.InMessage && (t.isOther || l.Timed && !t.last.Timed) { // of a logger
		if e, ok := t.End(); ok {
			s.recordException(t, e, l.number)
		}
	}
	before, wasMixed := t.State, t.IsMixed()
	if at := strings.Index(text, string(traceStart)); at > 0 && !strings.Contains(text[:at], "Original ") {
		if t.State == python.InFrames && s.pods.LearnPair(t.prefix, text[:at]) { // two writers, line by line
			return true
		}
		t.prefix, text = text[:at], text[at:] // a logger's prefix may stand here only
		t.isFirst, t.isStrict = true, false
		t.rank = max(l.Rank, number(rankInPrefix(), []byte(t.prefix)))
	}
	if strings.HasSuffix(text, ")") && python.IsTraceback(text) {
		if n := number(gatheredRank(), []byte(text)); n >= 0 {
			t.rank, t.isNamed = n, true
		}
	}
	spawned := number(spawnedLine(), []byte(text))
	if lines := strings.Split(text, `\n`); len(lines) > 2 && python.IsTraceback(text) { // in one line of JSON
		s.readEscaped(t, lines, l)
		return true
	}
	e, ok := t.ReadLine(text)
	t.spawned = max(t.spawned, spawned)
	if ok {
		last := t.previous
		s.recordException(t, e, l.number)
		t.quotes = t.previous != last && e.Announces() && python.IsTraceback(text)
	}
	if t.State == python.InMessage && (before == python.InFrames || ok) || t.IsMixed() && !wasMixed {
		t.last = *l
		t.last.raw = bytes.Clone(l.raw[:min(len(l.raw), 2*match.MaxText)])
	}
	return false
}

// saysItGoesOn matches a line of a message, or of the program after it, that says what the
// program does in spite of the exception.
var saysItGoesOn = match.Lazy(`(?i)^\W{0,3}(?:(?:we are |we will |i am |will )?(?:retry|retrying|retried|skip|skipping|skipped|ignoring|ignored|falling back|fell back|continuing|recovered)|using \S+ instead)\b`)

// triesAgain matches what a program logs before the traceback of an error after which it
// tries again.
var triesAgain = match.Lazy(`(?i)\bretry(?:ing)?\b|\btry(?:ing)? again\b`)

// goesOnBefore reports whether the line before l, of the same writer, says that the program
// tries again.
func (s *Scanner) goesOnBefore(l *line) bool {
	for h, text := range s.linesBefore(1) {
		return h.Label == l.Label && triesAgain().Match(text)
	}
	return false
}

// trimPrefix removes the prefix of line n of t. It returns "" for a line of another
// writer between the frames.
func (t *tracebackReader) trimPrefix(text string, n int64) string {
	rest, ok := strings.CutPrefix(text, t.prefix)
	if python.IsTraceback(text) { // which may be the prefix of another one, too
		rest, ok = text, false
	}
	if t.isFirst && text != "" {
		t.isFirst, t.isStrict = false, ok
	}
	t.isOther = t.isStrict && !ok && n-t.firstLine < 100
	if t.isOther && t.State == python.InFrames && !python.IsTraceback(text) {
		return ""
	}
	return rest
}

// readEscaped reads a whole traceback of which a field of JSON has the lines.
func (s *Scanner) readEscaped(t *tracebackReader, lines []string, l *line) {
	t.last = *l
	t.last.raw = bytes.Clone(l.raw)
	for _, text := range lines {
		text = strings.ReplaceAll(text, `\"`, `"`)
		if strings.HasPrefix(text, `"`) { // the end of the field
			break
		}
		if text == "" {
			continue
		}
		if e, ok := t.ReadLine(text); ok {
			s.recordException(t, e, 0)
		}
	}
	if e, ok := t.End(); ok {
		s.recordException(t, e, 0)
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
		if e, ok := t.End(); ok {
			s.recordException(t, e, 0)
		}
		delete(s.tracebacks, key)
	}
}

// recordException records an exception. end is the number of the line that ended
// it, 0 if none did. An event within the traceback explains the exception better
// than the exception's class.
func (s *Scanner) recordException(t *tracebackReader, e python.Exception, end int64) {
	events := t.events
	t.events = nil
	if t.quotes {
		t.previous.kind, t.quotes = catalogue.Consequence, false
	}
	if n := len(events); n > 0 && events[n-1].number == end {
		events, t.events = events[:n-1], events[n-1:]
	}
	switch best := strongest(events); {
	case best != nil:
		s.explainBy(best, t, &e)
	case t.previous != nil && (e.Chained || t.previous.row.Key == catalogue.RowDataset):
		t.extendPrevious(&e)
	case rayTaskHead().MatchString(e.Text()):
		s.job.failed = true // the traceback of the task follows
	case s.addSpawnEnd(e.Text(), &t.last):
	default:
		key, kind, reason := s.meaningInContext(&e)
		if key == "" {
			s.job.failed = true
			return
		}
		ev := s.exceptionEvent(t, &e, s.matcher.byKey[key])
		ev.kind, ev.text = kind, match.PlainText([]byte(e.Text()+reason))+placeOf(&e)
		t.isBare = e.SaysNothing()
		t.previous = s.record(ev, e.Text()[:min(len(e.Text()), 200)])
	}
}

// placeOf returns the file and line where e was raised, in brackets after a blank, "" if
// they are unknown.
func placeOf(e *python.Exception) string {
	place := e.Place()
	if place == "" {
		return ""
	}
	dir, file := path.Split(place)
	return " (" + match.PlainText([]byte(path.Join(path.Base(dir), file))) + ")"
}

// explainBy adds what e says to the event of a line of its message, which says more than the
// exception does.
func (s *Scanner) explainBy(best *event, t *tracebackReader, e *python.Exception) {
	if best.rank < 0 {
		best.rank = t.rank
	}
	s.fillTask(best)
	s.nameByMessage(best, e)
	best.inTraceback, best.later = true, e.LaterLines()
	if last := e.LastError(); last != "" && !strings.Contains(best.text, last) {
		best.text += ": " + match.PlainText([]byte(last))
	}
	if at := placeOf(e); !strings.HasSuffix(best.text, at) {
		best.text += at
	}
	t.previous = best
}

// extendPrevious adds e, which was raised while the previous exception was handled, to that
// one.
func (t *tracebackReader) extendPrevious(e *python.Exception) {
	t.previous.later = e.LaterLines() // the lines between belong to one traceback
	if t.isBare && !e.SaysNothing() {
		t.previous.text += ": " + match.PlainText([]byte(e.Text()))
		t.isBare = false
	}
	if !e.Chained && t.previous.number > t.last.number-100 { // the dataset's own exception
		t.previous.text += ": " + match.PlainText([]byte(e.Text())) + placeOf(e)
	}
}

// meaningInContext returns the row and the kind of e as meaningOf does, or those of a row
// that knows all lines of its message together. reason is the error that the message quotes
// from another process.
func (s *Scanner) meaningInContext(e *python.Exception) (key string, kind catalogue.Kind, reason string) {
	key, kind = s.matcher.meaningOf(e)
	if key == catalogue.RowException && kind == catalogue.Catchable {
		if row := s.matcher.rowOf([]byte(e.Text())); row != nil && row.Kind.Tier() == catalogue.TierCause {
			key, kind = row.Key, row.Kind
		}
	}
	if key == catalogue.RowException && (strings.HasPrefix(e.Class, "ray.exceptions.") || s.matcher.wordings.Has(wording.Summary, []byte(e.Text()))) {
		key, kind = catalogue.RowSummary, catalogue.Vague
		if reason = s.errorIn(e.Message); reason != "" {
			key, kind = catalogue.RowLogged, catalogue.CatchableClue
		}
	}
	return key, kind, reason
}

// exceptionEvent makes the event of an exception that ended at t's last line: its writer,
// and whether the program handled it.
func (s *Scanner) exceptionEvent(t *tracebackReader, e *python.Exception, row *compiledRow) *event {
	ev := s.newEvent(row, &t.last)
	if ev.rank < 0 || t.isNamed {
		ev.rank = t.rank
	}
	if ev.rank < 0 && ev.local < 0 && t.spawned >= 0 {
		ev.local = t.spawned
	}
	ev.repeated = t.repeated
	s.fillTask(ev)
	ev.later = e.LaterLines()
	ev.handled = t.isHandled || s.job.wentWell[ev.log] && e.Script == "" // finalizers fail at exit
	for _, line := range e.Message[min(1, len(e.Message)):] {
		if python.ErrorLine().MatchString(line) { // of another exception
			break
		}
		if n := number(trailingRank(), []byte(line)); n >= 0 && !ev.hasOrigin() {
			ev.rank = n
		}
		ev.handled = ev.handled || saysItGoesOn().MatchString(line)
	}
	if ev.host == "" && !ev.hasOrigin() {
		ev.nameOrigin(s.matcher.wordings, []byte(e.Text()))
	}
	s.nameByMessage(ev, e)
	ev.excerpt = s.messageOf(e)
	return ev
}

// errorIn returns the last line of a message that a program below the exception printed as
// its error, "" if there is none.
func (s *Scanner) errorIn(message []string) string {
	for _, line := range slices.Backward(message[min(1, len(message)):]) {
		text := []byte(strings.TrimSpace(line))
		if row := s.matcher.rowOf(text); row != nil && row.Kind.Tier() <= catalogue.TierLogged && !s.matcher.wordings.Has(wording.Summary, text) {
			return ": " + string(text)
		}
	}
	return ""
}

// nameByMessage gives an exception the host that a later line of its message names, where
// nothing else says where it is from.
func (s *Scanner) nameByMessage(ev *event, e *python.Exception) {
	if owner := ownerAddress(e); owner != "" {
		ev.host = owner
		return
	}
	for _, line := range e.Message[min(1, len(e.Message)):] {
		if host := s.matcher.wordings.Named(wording.Host, []byte(line)); host != nil && ev.host == "" && !ev.hasOrigin() {
			ev.host = match.PlainText(host)
		}
	}
}

// fillTask gives an exception the process of the task of Ray that raised it, if a line
// before it names one. An exception about an actor that died is not of that actor.
func (s *Scanner) fillTask(e *event) {
	if task := s.rayTask; task != nil && e.row.Key != catalogue.RowActorDied && task.stream == e.stream && e.number-task.number < 100 {
		e.pid, e.host = task.pid, task.host
		s.rayTask = nil
	}
}

// rayTaskHead matches what Ray puts between the traceback of a caller and that of the
// task that it called.
var rayTaskHead = match.Lazy(`^ray\.exceptions\.RayTaskError\([\w.]+\): ray::`)

// trailingRank matches the rank that tracing's loggers print below a text.
var trailingRank = match.Lazy(`^ rank=(\d{1,6})$`)

// rankInPrefix matches torch's rank behind the prefix of a logger.
var rankInPrefix = match.Lazy(`\[rank(\d{1,6})\]`)

// gatheredRank matches the rank whose traceback another rank prints, as torch's
// checkpoints do.
var gatheredRank = match.Lazy(`^Traceback \(most recent call last\): \(RANK (\d{1,6})\)`)

// strongest returns the first event of the strongest kind, nil if there is
// none.
func strongest(events []*event) *event {
	rank := func(e *event) int {
		switch e.kind.Tier() {
		case catalogue.TierCause:
			return 0
		case catalogue.TierConsequence: // an exception that names a lost peer
			return 1
		case catalogue.TierHarmless:
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
