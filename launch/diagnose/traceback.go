package diagnose

import (
	"bytes"
	"cmp"
	"slices"
	"strings"

	"github.com/gorun/gorun/launch/diagnose/match"
	"github.com/gorun/gorun/launch/diagnose/python"
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
	lineBefore
}

// lineBefore is what the line before a traceback says.
type lineBefore struct {
	isHandled bool   // the program tries again
	lead      *event // its event; nil: none
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
	t := &tracebackReader{firstLine: l.number, spawned: -1, rank: -1, repeated: true, lineBefore: lineBefore{isHandled: s.goesOnBefore(l)}}
	if last := s.lastEvent; last != nil && last.stream == l.stream && last.number == l.number-1 {
		t.lead = last
	}
	return t
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

// rankInPrefix matches torch's rank behind the prefix of a logger.
var rankInPrefix = match.Lazy(`\[rank ?(\d{1,6})\]`)

// gatheredRank matches the rank whose traceback another rank prints, as torch's
// checkpoints do.
var gatheredRank = match.Lazy(`^Traceback \(most recent call last\): \(RANK (\d{1,6})\)`)
