package diagnose

import (
	"bytes"
	"cmp"
	"iter"
	"slices"
	"strings"

	"github.com/gorun/gorun/launch/diagnose/catalogue"
	"github.com/gorun/gorun/launch/diagnose/match"
	"github.com/gorun/gorun/launch/diagnose/wording"
)

const (
	// maxLastWords is how many lines before a worker's end lastWords reads.
	maxLastWords = 80
	// maxReread is how many lines lastWords reads in all, besides two for each line of
	// the log. Only a flood of ends needs more.
	maxReread = 1 << 17
)

// noWords matches lines that say nothing about why a program ended: of launchers, of
// the frames of a stack, of progress bars and empty boxes.
var noWords = match.AnyOf(
	`^\W*$`, `^terminate called `, `^Exception raised from `, `^goroutine \d+ \[`, `^exit status \d+$`, `^Traceback \(`, `^During handling of the `, `^Exception in thread `, `^LAUNCH (?:INFO|ERROR)\b`, `^launch proc_id:`, `^The above exception `, `^frame #\d+: `, ` NCCL INFO `, `^(?:usage|Usage): `, `^(?:\t|  )`, `^(?:srun|slurmstepd|salloc|sbatch)\b`, `\d+%\|`, `it/s\]`, `^=   ?[A-Z]`, `^[\d.eE+\s-]+$`, `^[+#] `, `^nodes?:`, `(?i)warning\b`, `^[EWIF]\d{4} `,
	`torch[./]distributed[./](?:elastic|run|launch)`, `OMP_NUM_THREADS`, `^\[[EWIF]\d*\b`, `HYDRA_FULL_ERROR`, `Killing subprocess`, `^(?:Thread|Current thread) 0x`, `^Extension modules: `, `(?i)^ ?(?:#\d+ |\[0x|0x[0-9a-f]+|@ +0x|\*\*\* |Fatal Python error: |Aborted|backtrace|Stack trace|\[\S+:\d+\] (?:\[ *\d+\]|\*\*\*|Signal|Failing at)|Signal(?: code)?: |Failing at address|Process received|==== backtrace|\d+:? +0x|=====|\d+ +\S+\.so)`,
	catalogue.LauncherBanner, `^ ?(?:MPICH ERROR |aborting job|application called MPI_Abort|MPI_ABORT was invoked)`,
)

// lastWords returns the last telling line before the present one of the worker that
// ended, or of any worker where the lines do not say whose they are. The excerpt has the
// telling lines before that one.
func (s *Scanner) lastWords(end *event) (words string, x *excerpt) {
	x = &excerpt{isOver: true}
	box, isOpen := "", false // the words of the box that ends with the last words
	for h, text := range s.linesBefore(maxLastWords) {
		if !end.mayBeOf(h) || len(bytes.TrimSpace(text)) == 0 || noWords().Match(text) || s.matcher.wordings.Has(wording.Progress, text) {
			continue
		}
		inner, isBoxed := inBox(text)
		isOpen = isBoxed && (isOpen || words == "") && len(box)+len(inner) < match.MaxText
		if isOpen {
			box = strings.TrimSpace(inner + " " + box)
		}
		if words == "" {
			words = match.PlainText(text)
		} else if isOpen {
			continue
		} else if x.before = append(x.before, match.PlainText(text)); len(x.before) == maxBefore {
			break
		}
	}
	isTelling := func(text string) bool { return s.matcher.wordings.Has(wording.Hint, []byte(text)) }
	if at := slices.IndexFunc(x.before, isTelling); box == "" && at >= 0 && !isTelling(words) {
		words, x.before = x.before[at], x.before[at+1:] // what follows says more about that line
	}
	slices.Reverse(x.before)
	return cmp.Or(box, words), x
}

// inBox returns the words of a line of a box that a program draws around an error with
// asterisks, and beside it perhaps a picture. ok reports whether the line is of such a box.
func inBox(line []byte) (words string, ok bool) {
	text := strings.TrimSpace(match.PlainText(line))
	isDrawn := func(word string) bool { return strings.Trim(word, `*|/\_`) == "" || word == "[ABORT]" || word == "O/|" }
	return strings.Join(slices.DeleteFunc(strings.Fields(text), isDrawn), " "), strings.HasPrefix(text, "*") || strings.HasSuffix(text, "*")
}

// readRayTask reads the process of a task of Ray whose traceback follows.
func (s *Scanner) readRayTask(l *line, f *match.Fields) {
	s.rayTask = s.newEvent(s.matcher.byKey[catalogue.RowNoReason], l)
	s.rayTask.pid, s.rayTask.host = f.Number("pid"), f.Text("host")
}

// readExit reads a warning that torch prints when a program ends normally and left its
// process group open.
func (s *Scanner) readExit(l *line, _ *match.Fields) {
	if l.Rank >= 0 && len(s.job.exited) < maxEntries && s.job.exited[l.Rank] == nil {
		s.job.exited[l.Rank] = s.newEvent(s.matcher.byKey[catalogue.RowPeerExited], l)
	}
}

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

// linesAtEnd returns up to n lines at the end of the present log, the last one first,
// without empty lines.
func (s *Scanner) linesAtEnd(n int) iter.Seq[*line] {
	return func(yield func(*line) bool) {
		text, number := s.previous, s.number
		for range n {
			end := bytes.TrimRight(text, "\r\n\t ")
			if len(end) == 0 {
				return
			}
			number -= int64(bytes.Count(text[len(end):], []byte{'\n'}))
			at := bytes.LastIndexAny(end, "\r\n") + 1
			h, rest := s.headOf(end[at:][:min(len(end)-at, maxMatched)])
			text = end[:at]
			if !yield(&line{Head: h, raw: rest, number: number, stream: streamKey{len(s.logs) - 1, h.Label}}) {
				return
			}
		}
	}
}
