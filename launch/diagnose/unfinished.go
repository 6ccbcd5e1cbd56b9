package diagnose

import (
	"bytes"
	"strings"

	"github.com/gorun/gorun/launch/diagnose/catalogue"
	"github.com/gorun/gorun/launch/diagnose/match"
)

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

// errorStack matches the line of an error of MPICH or HDF5 whose reason is in a stack below.
var errorStack = match.Lazy(`^.*(?:error stack:|HDF5-DIAG: Error detected in .*:)`)

// stackLine matches a line of the stack of an error of MPICH or HDF5: the function and, in
// the last lines, the reason.
var stackLine = match.Lazy(`^\w+\(\d+\)[. ]*:|^\s*#\d+: .* in \w+\(\): |^\s+(?:major|minor): .*`)

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
