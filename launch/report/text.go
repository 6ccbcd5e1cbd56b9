package report

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/gorun/gorun/launch/diagnose"
	"github.com/gorun/gorun/rendezvous"
)

const (
	// barWidth is torchrun's: bars are as wide as the longest line, and no wider than this.
	barWidth = 60
	// maxOthers is how many failures beside the root cause are listed; --report has all.
	maxOthers = 32
	// maxSummary bounds the summary line, in characters.
	maxSummary = 400
)

// TextInput is what the text report tells.
type TextInput struct {
	// Entrypoint is what was started: the title, as torchrun has it.
	Entrypoint string
	// Cause is the job's first failure.
	Cause *rendezvous.Cause
	// Failures are the others. If the cause's worker is among them it is left out.
	Failures []rendezvous.Cause
	// ExitCode is gorun's.
	ExitCode int
	// Explanation is what all that the workers printed means together, the most
	// probable cause first.
	Explanation []diagnose.Finding
	// Location is the time zone to tell times in; nil means the local one.
	Location *time.Location
}

// Text returns the report of a failed job, "" if there is no cause. The layout
// is torchrun's (the text of ChildFailedError), so that what looks for a root
// cause in its logs finds it; fields that torchrun does not have stand between
// or after its own. One line that says it all comes last.
func Text(in TextInput) string {
	if in.Cause == nil {
		return ""
	}
	if in.Location == nil {
		in.Location = time.Local
	}
	others := slices.DeleteFunc(slices.Clone(in.Failures), func(c rendezvous.Cause) bool { return same(&c, in.Cause) })

	verb := "FAILED"
	if in.Cause.Kind == rendezvous.KindStopped {
		verb = "STOPPED"
	}
	title := strings.TrimSpace(oneLine(in.Entrypoint) + " " + verb)
	failures := []string{"Failures:"}
	for i := range others[:min(len(others), maxOthers)] {
		failures = append(failures, entry(i+1, &others[i], in.Location, false)...)
	}
	if len(others) == 0 {
		failures = append(failures, "  <NO_OTHER_FAILURES>")
	} else if more := len(others) - maxOthers; more > 0 {
		failures = append(failures, fmt.Sprintf("  ... and %d more (gorun --report FILE keeps all)", more))
	}
	root := append([]string{"Root Cause (first observed failure):"}, entry(0, in.Cause, in.Location, true)...)
	root = append(root, explained(in.Explanation)...)

	width := utf8.RuneCountInString(title)
	for _, line := range slices.Concat(failures, root) {
		width = max(width, utf8.RuneCountInString(line))
	}
	double := strings.Repeat("=", min(width, barWidth))
	single := strings.Repeat("-", min(width, barWidth))
	lines := slices.Concat([]string{"", double, title, single}, failures, []string{single}, root,
		[]string{double, summary(in, others), ""})
	return strings.Join(lines, "\n")
}

// explained is the likely cause and what to do, nothing if what was printed tells
// of none.
func explained(found []diagnose.Finding) []string {
	if len(found) == 0 || found[0].Severity != diagnose.SeverityCause {
		return nil
	}
	return []string{
		"  likely cause: " + shorten(oneLine(found[0].OneLine()), maxSummary),
		"  fix: " + shorten(oneLine(found[0].Fix), maxSummary),
	}
}

// summary is the report in one line.
func summary(in TextInput, others []rendezvous.Cause) string {
	consequences := 0
	for i := range others {
		if others[i].Consequence {
			consequences++
		}
	}
	line := "gorun: " + shorten(oneLine(in.Cause.Line()), maxSummary)
	switch {
	case len(others) == 0:
	case consequences == 0:
		line += fmt.Sprintf("; %d more failed", len(others))
	default:
		line += fmt.Sprintf("; %d more failed (%d as a consequence)", len(others), consequences)
	}
	return line + fmt.Sprintf("; exit code %d", in.ExitCode)
}

// same reports whether a and b tell of one worker, or of one node's one event.
func same(a, b *rendezvous.Cause) bool {
	if a.Rank >= 0 || b.Rank >= 0 {
		return a.Rank == b.Rank // ranks are the job's
	}
	return a.Kind == b.Kind && a.Node == b.Node && a.GroupRank == b.GroupRank && a.Host == b.Host
}

// Entrypoint returns the title that torchrun gives to a command: its program
// or, if that is Python, the first argument that is no option.
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
