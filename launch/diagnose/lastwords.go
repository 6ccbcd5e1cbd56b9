package diagnose

import (
	"bytes"
	"cmp"
	"slices"
	"strings"

	"github.com/gorun/gorun/launch/diagnose/catalogue"
	"github.com/gorun/gorun/launch/diagnose/match"
	"github.com/gorun/gorun/launch/diagnose/wording"
)

// maxLastWords is how many lines before a worker's end lastWords reads.
const maxLastWords = 80

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
