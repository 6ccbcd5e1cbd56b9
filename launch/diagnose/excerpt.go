package diagnose

import (
	"bytes"
	"slices"

	"github.com/gorun/gorun/launch/diagnose/match"
	"github.com/gorun/gorun/launch/diagnose/prefix"
	"github.com/gorun/gorun/launch/diagnose/python"
	"github.com/gorun/gorun/launch/diagnose/wording"
)

const (
	// maxBefore and maxAfter are how many lines an excerpt has before its event and after
	// it.
	maxBefore = 4
	maxAfter  = 3
	// besideSpan is how many lines before an event, and after it, may be in its excerpt.
	besideSpan = 8
)

// excerpt is what the writer of an event printed right before it and after it. The reason
// of an error is often in such a line.
type excerpt struct {
	stream        streamKey
	number        int64 // of the line of the event
	before, after []string
	isOver        bool // no later line belongs to it
}

// lines returns the lines in their order.
func (x *excerpt) lines() []string {
	if x == nil {
		return nil
	}
	return slices.Concat(x.before, x.after)
}

// openExcerpt gives the first event of a group its excerpt. The lines after the event
// follow while the scanner reads them.
func (s *Scanner) openExcerpt(e *event) {
	x := &excerpt{stream: e.stream, number: e.number}
	for h, text := range s.linesBefore(besideSpan) {
		if (streamKey{e.log, h.Label}) != e.stream || startNotice().Match(text) {
			continue
		}
		if len(x.before) == maxBefore || s.endsExcerpt(text) || bytes.HasPrefix(text, []byte("    ")) {
			break
		}
		x.before = append(x.before, match.PlainText(text))
	}
	slices.Reverse(x.before)
	e.excerpt = x
	s.excerpts = append(s.excerpts, x)
}

// extendExcerpts adds a line to the excerpts of its stream.
func (s *Scanner) extendExcerpts(l *line) {
	if len(s.excerpts) == 0 {
		return
	}
	for _, x := range s.excerpts {
		switch {
		case l.number == x.number:
		case l.number < x.number || l.number-x.number > besideSpan:
			x.isOver = true
		case l.stream != x.stream:
		case len(x.after) == maxAfter || s.endsExcerpt(l.raw):
			x.isOver = true
		case !isRule(l.raw) && !startNotice().Match(l.raw):
			x.after = append(x.after, match.PlainText(l.raw))
		}
	}
	s.excerpts = slices.DeleteFunc(s.excerpts, func(x *excerpt) bool { return x.isOver })
}

// isRule reports whether a line has no words.
func isRule(text []byte) bool { return len(bytes.Trim(text, "-=*#+|_ \t\r\n")) == 0 }

// startNotice matches what torchrun prints at each start.
var startNotice = match.Lazy(`torch[./]distributed[./]run\b.*(?:WARNING|OMP_NUM_THREADS|\]\s*\**\s*$)`)

// endsExcerpt reports whether a line belongs to something else than the error beside it:
// the program went on, or a stack begins or ends there.
func (s *Scanner) endsExcerpt(text []byte) bool {
	words := s.matcher.wordings
	return stackFrame().Match(text) || words.Has(wording.Progress, text) && !words.Has(wording.Hint, text)
}

// stackFrame matches a line of a traceback or of a stack.
var stackFrame = match.AnyOf(`Traceback \(most recent`, `^During handling of the `, `^The above exception `, `^\s*File "`, `^\s*(?:frame )?#\d+[: ]`, `^\s*(?:0x|@ +0x)`, `\[ *\d+\] \S+\(`, ` NCCL INFO `)

// mayBeOf reports whether the prefixes of a line name no other writer than e's.
func (e *event) mayBeOf(h prefix.Head) bool {
	other := func(a, b int) bool { return a >= 0 && b >= 0 && a != b }
	return !other(h.Rank, e.rank) && !other(h.Local, e.local) && !other(h.Task, e.task)
}

// framesOf returns the frames that say most about an exception: the innermost one outside torch,
// and the innermost one.
func framesOf(e *python.Exception) []string {
	var frames []string
	for _, frame := range []string{e.Caller(), e.Raised()} {
		if frame != "" {
			frames = append(frames, match.PlainText([]byte(frame)))
		}
	}
	return frames
}

// messageOf returns the excerpt of an exception: the lines of its message after the one
// that is its text. A line that is not indented may be what the program printed next.
func (s *Scanner) messageOf(e *python.Exception) *excerpt {
	x := &excerpt{isOver: true}
	x.before = framesOf(e)
	isFirst := true
	for _, line := range e.Message {
		text := match.PlainText([]byte(line))
		switch {
		case text == "":
		case isFirst:
			isFirst = false
		case len(x.after) == maxAfter || line[0] != ' ' && !s.matcher.wordings.Has(wording.Hint, []byte(line)):
			return x
		default:
			x.after = append(x.after, text)
		}
	}
	return x
}
