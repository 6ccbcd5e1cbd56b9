package diagnose

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/gorun/gorun/launch/diagnose/catalogue"
)

// generalID is the id of errors in words that no row knows.
const generalID = "X-ERROR"

// perhaps is what the text says first of doubtful findings.
const perhaps = "Perhaps the job did not fail, or still waits: no line that gorun knows says that it failed.\n"

// writeRoot writes the finding as the root cause.
func (f *Finding) writeRoot(b *strings.Builder) {
	title := "Root cause"
	if f.Doubtful {
		b.WriteString(perhaps)
		title = "If it failed"
	}
	fmt.Fprintf(b, "%s: %s [%s]\n", title, f.Meaning, f.ID)
	if blamed := f.blamed(); blamed != "" {
		label := "blame"
		if f.Rank >= 0 && !f.blamesRanks() || f.Rank < 0 && f.Host != "" && !f.blamesHost() {
			label = "seen by"
		}
		if blamed == "(peer "+f.Peer+")" { // nobody is known to be at fault
			label, blamed = "peer", f.Peer
		}
		fmt.Fprintf(b, "  %s: %s\n", label, blamed)
	}
	fmt.Fprintf(b, "  %s\n", f.quote())
	if len(f.Context) > 0 {
		fmt.Fprintf(b, "  beside it:\n    %s\n", strings.Join(f.Context, "\n    "))
	}
	fmt.Fprintf(b, "  fix: %s\n", f.Fix)
	if checks := f.checkIDs(); checks != "" {
		fmt.Fprintf(b, "  gorun check finds this before the job starts: %s\n", checks)
	}
}

// WriteText writes findings as text: the root cause with its line, the lines beside it and its fix, then
// other possible causes, consequences and harmless lines.
func WriteText(w io.Writer, findings []Finding) error {
	var b strings.Builder
	by := map[Severity][]Finding{}
	for _, f := range findings {
		by[f.Severity] = append(by[f.Severity], f)
	}
	causes := by[SeverityCause]
	switch {
	case len(findings) == 0:
		b.WriteString("nothing found: no line shows a failure\n")
	case len(causes) > 0:
		causes[0].writeRoot(&b)
	default:
		if findings[0].Doubtful {
			b.WriteString(perhaps + "If it failed: the cause is not in these logs; they show only consequences.\n")
		} else {
			b.WriteString("Root cause: not in these logs; they show only consequences.\n")
		}
		if peers := lostPeers(findings); peers != "" {
			fmt.Fprintf(&b, "  read the logs of the peers that the others lost: %s\n", peers)
		}
	}
	section := func(title string, list []Finding, fix bool) {
		if len(list) == 0 {
			return
		}
		fmt.Fprintf(&b, "\n%s\n", title)
		for _, f := range list {
			blamed := f.blamed()
			if blamed != "" {
				blamed += ": "
			}
			fmt.Fprintf(&b, "- %s%s [%s]%s\n  %s\n", blamed, f.Meaning, f.ID, f.countText(), f.quote())
			if fix {
				fmt.Fprintf(&b, "  fix: %s\n", f.Fix)
			}
		}
	}
	if len(causes) > 1 {
		same := func(f Finding) bool { return f.ID == causes[0].ID }
		section("The same cause in other lines:", slices.DeleteFunc(slices.Clone(causes[1:]), func(f Finding) bool { return !same(f) }), false)
		isShown := func(f Finding) bool {
			return same(f) || f.ID == generalID && slices.Contains(causes[0].Context, f.Text)
		}
		section("Less probable causes:", slices.DeleteFunc(slices.Clone(causes[1:]), isShown), true)
	}
	section("Consequences:", by[SeverityConsequence], false)
	section("Harmless:", by[SeverityHarmless], false)
	_, err := io.WriteString(w, b.String())
	return err
}

// blamesRanks reports whether the ranks of the finding are at fault. Ranks that only report
// a fault of a node or of the job, and several ranks that fail alike, are not.
func (f *Finding) blamesRanks() bool {
	isCommon := len(f.Ranks) > 1 && f.ID[0] == 'X' && f.ID != "X-TIMEOUT-MISSING-RANK" && f.ID != "X-DESYNC" && f.ID != "X-HANG"
	return catalogue.IsOfRank(f.ID) && !isCommon && !f.ofJob
}

// blamesHost reports whether the host of the finding may be at fault, and not only the one
// on which the fault of the job or its program showed.
func (f *Finding) blamesHost() bool { return catalogue.IsOfHost(f.ID) && !f.ofJob }

// checkIDs returns the ids of the finding that `gorun check` has.
func (f *Finding) checkIDs() string {
	noCheck := func(id string) bool { return !catalogue.HasCheck(id) }
	return strings.Join(slices.DeleteFunc(append([]string{f.ID}, f.Checks...), noCheck), ", ")
}

// OneLine returns the rank, the meaning, the id and the line, without the fix.
func (f *Finding) OneLine() string {
	line := f.Meaning
	if blamed := f.blamed(); blamed != "" {
		line = blamed + ": " + line
	}
	return fmt.Sprintf("%s [%s]: %s", line, f.ID, f.Text)
}

// blamed returns the ranks, the host and the peer of the finding.
func (f *Finding) blamed() string {
	name := ""
	switch {
	case len(f.Ranks) > 1:
		name = rankList(f.Ranks)
	case f.Rank >= 0:
		name = fmt.Sprintf("rank %d", f.Rank)
	case f.Local >= 0:
		name = fmt.Sprintf("local rank %d", f.Local)
	}
	switch {
	case f.Host == "":
	case f.Node != "":
		name = strings.TrimPrefix(name+", ", ", ") + "pod " + f.Host + " on node " + f.Node
	case name == "" && f.isPod:
		name = "pod " + f.Host
	case name == "":
		name = "host " + f.Host
		if f.otherHosts > 0 {
			name += fmt.Sprintf(" and %d more", f.otherHosts)
		}
	default:
		name += " on " + f.Host
	}
	if f.Peer != "" {
		if name != "" {
			name += " "
		}
		name += "(peer " + f.Peer + ")"
	}
	return name
}

// quote returns the file and the number of the line, and its text.
func (f *Finding) quote() string {
	if f.Line == 0 {
		return f.Text
	}
	if f.Section != "" {
		return fmt.Sprintf("%s:%d (%s): %s", f.File, f.Line, f.Section, f.Text)
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
