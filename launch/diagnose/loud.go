package diagnose

import (
	"strings"

	"github.com/gorun/gorun/launch/diagnose/catalogue"
	"github.com/gorun/gorun/launch/diagnose/match"
	"github.com/gorun/gorun/launch/diagnose/wording"
)

// gpuMemory matches words about the memory of a GPU.
var gpuMemory = match.Lazy(`(?i)\b(?:[gnxth]pus?|mlu|dcu|cuda\w*|hip|vram|hbm|(?:on|of|for) (?:the )?device)\b`)

// recordLoud records a line that only a general row knows: an error in words of its own.
func (s *Scanner) recordLoud(row *compiledRow, f *match.Fields, l *line) {
	if s.unfinished.joined == l.number && row.Kind != catalogue.Fatal && row.Kind != catalogue.SystemError { // the event before it has its text
		return
	}
	e := s.newMatch(row, f, l)
	e.readFields(l.raw)
	words := s.matcher.wordings
	e.nameOrigin(words, l.raw)
	switch {
	case row.Key == catalogue.RowNoMemory && gpuMemory().Match(l.raw):
		e.row = s.matcher.byKey[catalogue.RowNoGPUMemory]
	case stopText().Match(l.raw):
		e.row = s.matcher.byKey[catalogue.RowStopSignal]
	case words.Has(wording.Cascade, l.raw):
		e.row = s.matcher.byKey[catalogue.RowCascade]
	case row.Kind != catalogue.SystemError && (words.Has(wording.Summary, l.raw) || strings.HasSuffix(e.text, ": {")): // its text follows
		e.row = s.matcher.byKey[catalogue.RowSummary]
	}
	if e.row.Kind.Tier() > catalogue.TierWarning {
		e.kind = e.row.Kind
	}
	if row.Kind == catalogue.SystemError && fileTool().MatchString(e.text) {
		e.kind = catalogue.Vague // what a script does before or after a failure
	}
	if e.row == row && strings.HasPrefix(e.text, "what(): ") { // of an exception that nobody caught
		e.kind = catalogue.Catchable
	}
	s.record(e, e.text[:min(len(e.text), 80)])
	if last := s.lastLoud; e.kind == catalogue.Fatal && last != nil && !last.isLabel(e.text) && last.stream == e.stream && e.number-last.number <= 3 && last.kind.Has(catalogue.General) {
		last.kind = catalogue.Fatal // the line before the fatal one has the reason
	}
	s.lastLoud = e
	if isHeadline(strings.TrimRight(e.text, " |*")) {
		s.unfinished = unfinished{event: e, from: l.number}
	}
}

// isLabel reports whether e has no words of its own, only the level of a logger, and next is
// the line that was joined to it.
func (e *event) isLabel(next string) bool {
	label, joined := strings.CutSuffix(e.text, " "+next)
	return joined && strings.HasSuffix(strings.ToLower(label), "error:")
}

// fileTool matches the front of a line of a tool with which scripts handle the output of
// other programs.
var fileTool = match.Lazy(`^(?:mv|cp|rm|ln|cat|tail|head|cut|ls|gzip|tar|sed|awk|grep|chmod|stat|du|wc|sort): `)

// glogFatal matches the front of a line with which glog ends the program.
var glogFatal = match.Lazy(`^F\d{3,4} \S+ +\d+ \S+:\d+\] `)

// readCheckFailure reads the line with which glog begins the stack of an error. The line
// before it has the error, in any words.
func (s *Scanner) readCheckFailure(l *line, _ *match.Fields) {
	for h, text := range s.linesBefore(1) {
		if last := s.lastLoud; glogFatal().Match(text) && (last == nil || last.number != l.number-1) {
			e := s.newEvent(s.matcher.byKey[catalogue.RowFatal], &line{Head: h, raw: text, number: l.number - 1, stream: l.stream})
			e.nameOrigin(s.matcher.wordings, text)
			e.excerpt = &excerpt{isOver: true} // the line before the present one is e
			s.record(e, e.text[:min(len(e.text), 80)])
		}
	}
}
