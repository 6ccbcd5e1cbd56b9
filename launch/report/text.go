package report

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/gorun/gorun/internal/term"
	"github.com/gorun/gorun/launch/diagnose"
	"github.com/gorun/gorun/rendezvous"
)

const (
	// barWidth is torchrun's limit: bars are as wide as the longest line, but at
	// most this wide.
	barWidth = 60
	// maxOthers is the number of failures that are listed besides the root cause;
	// --report has all.
	maxOthers = 32
	// maxSummary bounds the summary line, in characters.
	maxSummary = 400
)

// TextInput holds what the text report shows.
type TextInput struct {
	// Entrypoint is the started program. It is the title, as in torchrun.
	Entrypoint string
	// Cause is the job's first failure.
	Cause *rendezvous.Cause
	// Failures are the other failures. If the cause's worker is among them, it is
	// left out.
	Failures []rendezvous.Cause
	// ExitCode is gorun's exit code.
	ExitCode int
	// Explanation explains the output of the workers, the most probable cause first.
	Explanation []diagnose.Finding
	// Location is the time zone of the printed times; nil: the local one.
	Location *time.Location
}

// childFailed is the line above torchrun's report, by which scripts find it.
const childFailed = "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: "

// Text returns the report of a failed job, or "" if there is no cause. Its first part is
// torchrun's (the text of ChildFailedError), line by line; the failures are numbered by
// rank. What torchrun does not have follows below it. The last line is a summary.
func Text(in TextInput) string {
	if in.Cause == nil {
		return ""
	}
	if in.Location == nil {
		in.Location = time.Local
	}
	others := slices.DeleteFunc(slices.Clone(in.Failures), func(c rendezvous.Cause) bool { return isSameFailure(&c, in.Cause) })
	before := func(c *rendezvous.Cause) bool { return c.Rank >= 0 && c.Rank < in.Cause.Rank }
	slices.SortStableFunc(others, func(a, b rendezvous.Cause) int { return cmp.Compare(a.Rank, b.Rank) })

	verb, above := "FAILED", ""
	switch {
	case in.Cause.Kind == rendezvous.KindStopped:
		verb = "STOPPED"
	case in.Cause.Rank >= 0:
		above = childFailed
	}
	title := strings.TrimSpace(oneLine(in.Entrypoint) + " " + verb)
	failures := []string{"Failures:"}
	number := 0
	for i := range others[:min(len(others), maxOthers)] {
		n := i
		if !before(&others[i]) {
			n++
		} else {
			number = i + 1
		}
		failures = append(failures, failureLines(n, &others[i], in.Location, false)...)
	}
	if len(others) == 0 {
		failures = append(failures, "  <NO_OTHER_FAILURES>")
	} else if more := len(others) - maxOthers; more > 0 {
		failures = append(failures, fmt.Sprintf("  ... and %d more (gorun --report FILE keeps all)", more))
	}
	root := append([]string{"Root Cause (first observed failure):"}, failureLines(number, in.Cause, in.Location, true)...)

	width := utf8.RuneCountInString(title)
	for _, line := range slices.Concat(failures, root) {
		width = max(width, utf8.RuneCountInString(line))
	}
	double := strings.Repeat("=", min(width, barWidth))
	single := strings.Repeat("-", min(width, barWidth))
	more := moreLines(in.Cause, explanationLines(in.Explanation))
	for i := range others[:min(len(others), maxOthers)] {
		if line := otherLine(&others[i]); line != "" {
			more = append(more, line)
		}
	}
	lines := slices.Concat([]string{above, double, title, single}, failures, []string{single}, root,
		[]string{double}, more, []string{summary(in, others), ""})
	return strings.Join(lines, "\n")
}

// explanationLines returns the likely cause and the fix, nil if the findings have no
// cause.
func explanationLines(found []diagnose.Finding) []string {
	if len(found) == 0 || found[0].Severity != diagnose.SeverityCause {
		return nil
	}
	return []string{
		"  likely cause: " + term.Shorten(oneLine(found[0].OneLine()), maxSummary),
		"  fix: " + term.Shorten(oneLine(found[0].Fix), maxSummary),
	}
}

// summary returns the report in one line.
func summary(in TextInput, others []rendezvous.Cause) string {
	consequences := 0
	for i := range others {
		if others[i].Consequence {
			consequences++
		}
	}
	line := "gorun: " + term.Shorten(oneLine(in.Cause.Line()), maxSummary)
	switch {
	case len(others) == 0:
	case consequences == 0:
		line += fmt.Sprintf("; %d more failed", len(others))
	default:
		line += fmt.Sprintf("; %d more failed (%d as a consequence)", len(others), consequences)
	}
	return line + fmt.Sprintf("; exit code %d", in.ExitCode)
}

// isSameFailure reports whether a and b describe the same worker, or the same event of the
// same node.
func isSameFailure(a, b *rendezvous.Cause) bool {
	if a.Rank >= 0 || b.Rank >= 0 {
		return a.Rank == b.Rank // ranks are unique in the job
	}
	return a.Kind == b.Kind && a.Node == b.Node && a.GroupRank == b.GroupRank && a.Host == b.Host
}

// Entrypoint returns the title that torchrun gives to a command: its program or, if
// the program is Python, the first argument that is no option.
func Entrypoint(argv []string) string {
	if len(argv) == 0 {
		return ""
	}
	if !strings.HasPrefix(filepath.Base(argv[0]), "python") {
		return argv[0]
	}
	for _, arg := range argv[1:] {
		if !strings.HasPrefix(arg, "-") {
			return arg
		}
	}
	return ""
}
