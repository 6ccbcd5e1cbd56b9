package diagnose

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"

	"github.com/gorun/gorun/launch/diagnose/catalogue"
	"github.com/gorun/gorun/launch/diagnose/match"
	"github.com/gorun/gorun/launch/diagnose/wording"
)

// gpuMemory matches words about the memory of a GPU.
var gpuMemory = match.Lazy(`(?i)\b(?:[gnxth]pus?|mlu|dcu|cuda\w*|hip|vram|hbm|(?:on|of|for) (?:the )?device)\b`)

// nameOrigin gives e the host and the rank that a text names, where nothing else does.
func (e *event) nameOrigin(words *wording.Matcher, text []byte) {
	if host := words.Named(wording.Host, text); host != nil && e.host == "" {
		e.host = match.PlainText(host)
	}
	if rank := words.Named(wording.Rank, text); rank != nil && e.rank < 0 {
		e.rank, _ = strconv.Atoi(string(rank))
	}
}

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
	case row.Kind != catalogue.SystemError && words.Has(wording.Summary, l.raw):
		e.row = s.matcher.byKey[catalogue.RowSummary]
	}
	if e.row.Kind.Tier() > catalogue.TierWarning {
		e.kind = e.row.Kind
	}
	if last := s.lastLoud; row.Kind == catalogue.SystemError && last != nil && last.stream == e.stream && e.number-last.number < detailLines && last.kind.Tier() <= catalogue.TierLogged && fileTool().MatchString(e.text) {
		e.kind = catalogue.Vague // what a script does after a failure
	}
	if e.row == row && strings.HasPrefix(e.text, "what(): ") { // of an exception that nobody caught
		e.kind = catalogue.Catchable
	}
	s.record(e, e.text[:min(len(e.text), 80)])
	if last := s.lastLoud; e.kind == catalogue.Fatal && last != nil && last.stream == e.stream && e.number-last.number <= 3 && last.kind.Has(catalogue.General) {
		last.kind = catalogue.Fatal // the line before the fatal one has the reason
	}
	s.lastLoud = e
	if isHeadline(strings.TrimRight(e.text, " |*")) {
		s.unfinished = unfinished{event: e, from: l.number}
	}
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

// errorStack matches the line of an error of MPICH or HDF5 whose reason is in a stack below.
var errorStack = match.Lazy(`^.*(?:error stack:|HDF5-DIAG: Error detected in .*:)`)

// headlineEnd matches the end of the text of an error whose reason is in the next line.
var headlineEnd = match.Lazy(`:$|\b(?:due to|because of|an?|the|of|to|from|with|and|or|is|are|was|were|be|not|that)$|(?i)\b(?:fatal|error)\b[!: ]*(?:\([^)]*\))?$`)

// isHeadline reports whether the reason of an error is in the line after its text.
func isHeadline(text string) bool {
	end := text[max(0, len(text)-12):] // of all the expression reads a microsecond for each word
	if strings.HasSuffix(text, ")") {
		end = text[max(0, len(text)-80):]
	}
	last := end[strings.LastIndexByte(end, ' ')+1:]
	mayEnd := len(last) < 8 || strings.ContainsAny(last[len(last)-1:], ":!)")
	return strings.Contains(text[:min(len(text), 80)], "terminate called after") || strings.HasPrefix(text, "Reason: ") || strings.Contains(text[max(0, len(text)-40):], "Exception in ") && !strings.ContainsAny(last, ".:") || mayEnd && headlineEnd().MatchString(end) ||
		banner().MatchString(text) && strings.ContainsAny(text[len(text)-1:], "-=*#")
}

// reasonLabel matches a line that only announces the reason of the error above it.
var reasonLabel = match.Lazy(`^\s*(?i:caused by|reason|cause|root cause|error message):\s*$`)

// banner matches a headline with a rule on both sides: the box below it has the reason.
var banner = match.Lazy(`^[-=*#]{3,} `)

// stackLine matches a line of the stack of an error of MPICH or HDF5: the function and, in
// the last lines, the reason.
var stackLine = match.Lazy(`^\w+\(\d+\)[. ]*:|^\s*#\d+: .* in \w+\(\): |^\s+(?:major|minor): .*`)

// unfinished is an error whose text goes on in the next line.
type unfinished struct {
	event  *event
	from   int64 // the line after which it goes on
	joined int64 // the last line of the text of this or the one before
}

// continueText adds the next line that has words to the text of an error that ended like
// a headline. To an error with a stack it adds the last reason of the stack. It reports
// whether the line is of such a stack.
func (s *Scanner) continueText(l *line) (ofStack bool) {
	if last := s.lastLoud; last != nil && last.stream == l.stream && l.number-last.number < besideSpan && bytes.HasSuffix(l.raw, []byte(":")) && reasonLabel().Match(l.raw) {
		s.unfinished = unfinished{event: last, from: l.number}
		return false
	}
	e, distance := s.unfinished.event, l.number-s.unfinished.from
	if e == nil || e.stream != l.stream {
		return false
	}
	text := match.PlainText(l.raw)
	if text == "" && distance < 4 {
		return false
	}
	if head := errorStack().FindString(e.text); head != "" && distance < detailLines {
		at := stackLine().FindIndex(l.raw)
		if at == nil {
			s.unfinished = unfinished{}
		} else if reason := match.PlainText(bytes.TrimSpace(l.raw[at[1]:])); reason != "" && len(head)+len(reason) < match.MaxText {
			e.text = head + " " + reason
		}
		return at != nil
	}
	if strings.Trim(text, "-=*#|+ ") == "" && distance < 4 {
		return false
	}
	if distance > 2 || !banner().MatchString(e.text) {
		s.unfinished = unfinished{}
	}
	if strings.Contains(text, "what(): ") && s.hasOwnEvent(e, l.raw, text) {
		e.handled = true
	}
	if distance < 4 && len(e.text)+len(text) < match.MaxText {
		e.text += " " + text
		if e.kind == catalogue.Fatal { // the reason names who failed
			e.nameOrigin(s.matcher.wordings, l.raw)
		}
		if strings.HasSuffix(text, ":") {
			s.unfinished = unfinished{event: e, from: l.number - distance}
		}
		s.unfinished.joined = l.number
	}
	return false
}

// hasOwnEvent reports whether the what() of an exception of C++, which ended the program
// of e, is an event by itself: of a row, of a watchdog, or of a peer that was lost.
func (s *Scanner) hasOwnEvent(e *event, raw []byte, text string) bool {
	row := s.matcher.rowOf(raw)
	return row != nil && row != e.row || strings.Contains(text, "atchdog") || weakLostPeer().MatchString(text)
}

// readFields reads the fields of a line in JSON that loggers write.
func (e *event) readFields(raw []byte) {
	if len(raw) == 0 || raw[0] != '{' {
		return
	}
	var field struct {
		Msg, Message, Error, Err jsonText
		Rank                     *int
		Host, Hostname, Node     string
	}
	if json.Unmarshal(raw, &field) != nil {
		return
	}
	if field.Rank != nil && *field.Rank >= 0 {
		e.rank = *field.Rank
	}
	for _, host := range []string{field.Host, field.Hostname, field.Node} {
		if host != "" {
			e.host = match.PlainText([]byte(host))
		}
	}
	text := string(field.Msg + field.Message)
	switch cause := string(field.Error + field.Err); {
	case text == "":
		text = cause
	case cause != "":
		text += ": " + cause
	}
	if text != "" {
		e.text = match.PlainText([]byte(text))
	}
}

// jsonText is a field that holds a text, or an object with a text.
type jsonText string

// UnmarshalJSON reads the text. Values of other types have none.
func (t *jsonText) UnmarshalJSON(p []byte) error {
	var text string
	if json.Unmarshal(p, &text) == nil {
		*t = jsonText(text)
		return nil
	}
	var object struct{ Message, Msg, Detail, Error string }
	if json.Unmarshal(p, &object) == nil {
		*t = jsonText(object.Message + object.Msg + object.Detail + object.Error)
	}
	return nil
}
