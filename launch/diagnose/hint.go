package diagnose

import (
	"github.com/gorun/gorun/launch/diagnose/catalogue"
	"github.com/gorun/gorun/launch/diagnose/match"
	"github.com/gorun/gorun/launch/diagnose/wording"
)

// hintTail is how many telling lines at the end of a log may have the hint.
const hintTail = 8

// errorMark matches the short marks of errors: levels of loggers, of the kernel.
var errorMark = match.Lazy(`^(?:[EF]\d{4} |[EF] \S+:\d+\] |[EF]/[a-z]\w*: |<[0-3]>\S|!!!\s*[A-Z]|\W*❌)|(?:^|\s)[\[(](?:[EF]|ERR|critical|fatal)[\]) ]|(?:^|\s)(?:ERR|CRIT|FTL|ABORT|STOP)[: ]|\blevel=err\b`)

// noError matches words of a failure in lines that speak of none.
var noError = match.Lazy(`(?i)\b(?:no|without|0|zero) (?:\w+ )?(?:errors?|failures?|exceptions?|problems?)\b|\w+: (?:\[\]|\{\}|none|0)(?:\W|$)|\b(?:test|validation|val|train\w*|mean|absolute|squared|relative|\w+ion|word|character) errors?\b|\berror (?:bars?|rates?|analysis|correct\w*)\b|\b(?:unexpected|missing) keys: \[\]`)

// counter matches a name and its number.
var counter = match.Lazy(`[\w-]+[ :=]{1,3}-?\d[\w.%/]*`)

// readHint looks for words of a failure in the last lines of a log. They count only if
// nothing else in the logs does.
func (s *Scanner) readHint() {
	log := len(s.logs) - 1
	if s.job.hint != nil || s.job.wentWell[log] || s.logs[log].isTail {
		return
	}
	words := s.matcher.wordings
	for l := range s.linesAtEnd(hintTail) {
		switch {
		case words.IsNoError(l.raw), noWords().Match(l.raw) && !errorMark().Match(l.raw):
		case errorMark().Match(l.raw) || words.Has(wording.Hint, counter().ReplaceAll(noError().ReplaceAll(l.raw, nil), nil)):
			isWeak := words.Has(wording.Summary, l.raw) || words.Has(wording.Cascade, l.raw)
			if s.job.hint == nil || !isWeak {
				s.job.hint = s.newEvent(s.matcher.byKey[catalogue.RowLogged], l)
				s.job.hint.nameOrigin(words, l.raw)
			}
			if !isWeak {
				return
			}
		case words.Progresses(l.raw):
			return
		}
	}
}
