package diagnose

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gorun/gorun/launch/diagnose/catalogue"
)

// TestChecksAreThoseOfGorunCheck shows that `gorun check` has every check that
// findings name as one of its own.
func TestChecksAreThoseOfGorunCheck(t *testing.T) {
	checks := read(t, "../../docs/checks.md")
	for _, r := range catalogue.Rows() {
		for _, id := range r.Checks {
			if is := strings.Contains(checks, "\n## "+id+" "); is != catalogue.HasCheck(id) {
				t.Errorf("row %s: %s is a check: %v, explain says %v", r.Key, id, is, catalogue.HasCheck(id))
			}
		}
	}
}

// TestDocumentation shows that docs/explain.md is written from the map.
func TestDocumentation(t *testing.T) {
	var b strings.Builder
	b.WriteString(`# What gorun explain knows

<!-- Written by go test ./launch/diagnose -update from the map; do not edit. -->

` + "`gorun explain [LOG|DIR...|-]`" + ` looks for these lines. The first row that matches a line counts. The earliest cause is the root cause: in time where lines have a time, otherwise in the order of logs and lines. Lines that the root cause explains are consequences.

Dumps of PyTorch's flight recorder are read too (X-HANG): per process group the first call that did not end, the ranks that wait in it, and the ranks that did not call it or called another; a group whose missing rank waits in another group is a consequence.

Numbers are those of the NCCL catalogue; rows with an x are not in it. A check without X is one of ` + "`gorun check`" + ` ([checks.md](checks.md)), except ` + strings.Join(catalogue.IDsWithoutCheck(), ", ") + `, which no check can find before the job runs.

`)
	fmt.Fprintf(&b, "| kind of line | means |\n| --- | --- |\n")
	for _, k := range catalogue.Kinds() {
		fmt.Fprintf(&b, "| %s | %s |\n", k, k.Meaning())
	}
	fmt.Fprintf(&b, "\n| row | checks | kind | line (RE2, any case) | means | fix | printed by | source |\n| --- | --- | --- | --- | --- | --- | --- | --- |\n")
	cell := func(s string) string { return strings.ReplaceAll(s, "|", `\|`) }
	for _, r := range catalogue.Rows() {
		kind := r.Kind.String()
		if len(r.Explains) > 0 {
			kind += "; explains " + strings.Join(r.Explains, ", ")
		}
		if r.CauseIf != "" {
			kind += "; cause if " + string(r.CauseIf)
		}
		pattern := "`` " + cell(r.Pattern) + " ``"
		if r.Pattern == catalogue.NoLine {
			pattern = "(several lines together)"
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s | %s | %s |\n",
			r.Key, strings.Join(r.Checks, ", "), kind, pattern, cell(r.Cause), cell(r.Fix), cell(r.Seen), cell(r.Source))
	}
	b.WriteString("\nThe words of a program (rows " + strings.Join(topicalKeys(), ", ") + ") may be about one of these topics, which then name the check, the meaning and the fix. The first one counts.\n\n| checks | words (RE2, any case) | means | fix |\n| --- | --- | --- | --- |\n")
	for _, topic := range catalogue.Topics() {
		fmt.Fprintf(&b, "| %s | `` %s `` | %s | %s |\n", strings.Join(topic.Checks, ", "), cell(topic.Pattern), cell(topic.Cause), cell(topic.Fix))
	}
	golden(t, "../../docs/explain.md", b.String())
}

// topicalKeys returns the keys of the rows whose findings topics refine.
func topicalKeys() []string {
	var keys []string
	for _, r := range catalogue.Rows() {
		if r.Topical {
			keys = append(keys, r.Key)
		}
	}
	return keys
}
