package diagnose

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// WriteText writes findings for a reader: the root cause with its place and its
// fix, then other possible causes, then the consequences and what is harmless.
func WriteText(w io.Writer, findings []Finding) error {
	var b strings.Builder
	by := map[Severity][]Finding{}
	for _, f := range findings {
		by[f.Severity] = append(by[f.Severity], f)
	}
	causes := by[SeverityCause]
	switch {
	case len(findings) == 0:
		b.WriteString("nothing found: no line tells of a failure\n")
	case len(causes) == 0:
		b.WriteString("Root cause: not in what was read; all that it has are consequences.\n")
		if peers := lostPeers(findings); peers != "" {
			fmt.Fprintf(&b, "  look at: %s, which the others lost\n", peers)
		}
	default:
		f := causes[0]
		title := "Root cause"
		if f.Doubtful {
			b.WriteString("No line tells that the job failed: more output followed this error, which the program may have handled.\n")
			title = "If it failed"
		}
		fmt.Fprintf(&b, "%s: %s [%s]\n", title, f.Meaning, f.ID)
		if who := f.blamed(); who != "" {
			fmt.Fprintf(&b, "  blame: %s\n", who)
		}
		fmt.Fprintf(&b, "  %s\n  fix: %s\n", f.quote(), f.Fix)
		if checks := f.checkIDs(); checks != "" {
			fmt.Fprintf(&b, "  gorun check looks for this beforehand: %s\n", checks)
		}
	}
	section := func(title string, list []Finding, fix bool) {
		if len(list) == 0 {
			return
		}
		fmt.Fprintf(&b, "\n%s\n", title)
		for _, f := range list {
			who := ""
			if s := f.blamed(); s != "" {
				who = s + ": "
			}
			fmt.Fprintf(&b, "- %s%s [%s]%s\n  %s\n", who, f.Meaning, f.ID, f.countText(), f.quote())
			if fix {
				fmt.Fprintf(&b, "  fix: %s\n", f.Fix)
			}
		}
	}
	if len(causes) > 1 {
		same := func(f Finding) bool { return f.ID == causes[0].ID }
		section("The same, told again:", slices.DeleteFunc(slices.Clone(causes[1:]), func(f Finding) bool { return !same(f) }), false)
		section("Less probable:", slices.DeleteFunc(slices.Clone(causes[1:]), same), true)
	}
	section("Only consequences:", by[SeverityConsequence], false)
	section("Harmless:", by[SeverityHarmless], false)
	_, err := io.WriteString(w, b.String())
	return err
}

// checkIDs returns the ids of the checks of `gorun check` that concern the
// finding.
func (f *Finding) checkIDs() string {
	other := func(id string) bool { return !hasCheck(id) }
	return strings.Join(slices.DeleteFunc(append([]string{f.ID}, f.Checks...), other), ", ")
}

// OneLine returns the rank, the meaning, the id and the line, without the fix.
func (f *Finding) OneLine() string {
	line := f.Meaning
	if who := f.blamed(); who != "" {
		line = who + ": " + line
	}
	return fmt.Sprintf("%s [%s]: %s", line, f.ID, f.Text)
}

// blamed returns the ranks, the host and the peer of the finding.
func (f *Finding) blamed() string {
	who := ""
	switch {
	case len(f.Ranks) > 1:
		who = rankList(f.Ranks)
	case f.Rank >= 0:
		who = fmt.Sprintf("rank %d", f.Rank)
	case f.Local >= 0:
		who = fmt.Sprintf("local rank %d", f.Local)
	}
	switch {
	case f.Host == "":
	case who == "":
		who = "host " + f.Host
	default:
		who += " on " + f.Host
	}
	if f.Peer != "" {
		if who != "" {
			who += " "
		}
		who += "(peer " + f.Peer + ")"
	}
	return who
}

// quote returns the place of the line and its text.
func (f *Finding) quote() string {
	if f.Line == 0 {
		return f.Text
	}
	return fmt.Sprintf("%s:%d: %s", f.File, f.Line, f.Text)
}

func (f *Finding) countText() string {
	if f.Count > 1 {
		return fmt.Sprintf(" (%d times)", f.Count)
	}
	return ""
}

// lostPeers returns the peers that findings name, at most 8.
func lostPeers(findings []Finding) string {
	var peers []string
	for _, f := range findings {
		if f.Peer != "" && !slices.Contains(peers, f.Peer) && len(peers) < 8 {
			peers = append(peers, f.Peer)
		}
	}
	return strings.Join(peers, ", ")
}
