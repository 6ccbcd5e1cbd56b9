package status

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
)

const (
	// maxRanksShown is the number of ranks up to which the table shows all. Of more
	// ranks it shows only those that differ from the others.
	maxRanksShown = 64
	// silentMS and silentFactor say when a rank differs by its silence: it printed nothing
	// for silentMS milliseconds, and for silentFactor times the median of the ranks.
	silentMS     = 60_000
	silentFactor = 10
	// longCallMS is how long a rank has been in a call when the table shows the call.
	longCallMS = 1000
)

// Table writes the status for a user. With all it shows every rank.
func (s *Status) Table(w io.Writer, all bool) error {
	var b strings.Builder
	s.writeHead(&b)
	b.WriteByte('\n')
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	s.writeNodes(t)
	shown, hidden := s.chooseRanks(all)
	if len(shown) > 0 {
		t.Flush()
		b.WriteByte('\n')
		fmt.Fprintln(t, "RANK\tNODE\tLOCAL\tPID\tSTATE\tUP\tLAST OUTPUT")
	}
	for _, r := range shown {
		fmt.Fprintf(t, "%d\t%s\t%d\t%d\t%s\t%s\t%s\n", r.Rank.Rank, r.node.Name(), r.LocalRank, r.PID, r.state(), formatDuration(r.Up), r.lastOutput())
	}
	t.Flush()
	if hidden > 0 {
		fmt.Fprintf(&b, "\n%d similar ranks are not shown; --ranks shows them\n", hidden)
	}
	for _, r := range shown {
		if r.Message != "" {
			fmt.Fprintf(&b, "rank %d: %s\n", r.Rank.Rank, r.Message)
		}
		if r.Call != "" && r.CallAge >= longCallMS {
			fmt.Fprintf(&b, "rank %d: in %s for %s\n", r.Rank.Rank, r.Call, formatDuration(r.CallAge))
		}
	}
	if len(s.Findings) > 0 {
		b.WriteString("\nfindings:\n")
	}
	for _, f := range s.Findings {
		fmt.Fprintf(&b, "  %s %s %s: %s\n", f.Severity, f.ID, f.Title, f.Text)
	}
	_, err := io.WriteString(w, trimLines(b.String()))
	return err
}

// writeHead writes the lines that concern the whole job.
func (s *Status) writeHead(b *strings.Builder) {
	fmt.Fprintf(b, "run %s: %s", s.RunID, s.State)
	if s.WorldSize > 0 {
		fmt.Fprintf(b, ", round %d, restart %d of %d", s.Round, s.Restart, s.MaxRestarts)
	}
	if s.Up > 0 {
		fmt.Fprintf(b, ", up %s", formatDuration(s.Up))
	}
	if s.RoundUp > 0 {
		fmt.Fprintf(b, " (this round %s)", formatDuration(s.RoundUp))
	}
	nnodes := fmt.Sprint(s.MaxNodes)
	if s.MinNodes != s.MaxNodes {
		nnodes = fmt.Sprintf("%d:%d", s.MinNodes, s.MaxNodes)
	}
	fmt.Fprintf(b, "\n%s; --nnodes %s", s.Totals(), nnodes)
	if s.Coordinator != "" {
		fmt.Fprintf(b, "; coordinator %s", s.Coordinator)
	}
	b.WriteByte('\n')
	if len(s.Waiting) > 0 {
		fmt.Fprintf(b, "waiting for: %s\n", strings.Join(s.Waiting, ", "))
	}
	if s.Left > 0 {
		fmt.Fprintf(b, "time left: %s\n", formatDuration(s.Left))
	}
	if s.Failure != "" {
		fmt.Fprintf(b, "last failure: %s\n", s.Failure)
	}
	if s.Hang != "" {
		fmt.Fprintf(b, "hangs: %s\n", s.Hang)
	}
	if s.Note != "" {
		fmt.Fprintf(b, "note: %s\n", s.Note)
	}
}

func (s *Status) writeNodes(w io.Writer) {
	fmt.Fprintln(w, "GROUP\tNODE\tSTATE\tRANKS\tAGENT PID\tUP\tLAST OUTPUT")
	for i := range s.Nodes {
		n := &s.Nodes[i]
		group, pid, up, out := "-", "-", "-", "-"
		if n.GroupRank >= 0 {
			group = strconv.Itoa(n.GroupRank)
		}
		if n.Answered {
			pid, up = strconv.Itoa(n.PID), formatDuration(n.Up)
		}
		if len(n.Ranks) > 0 {
			latest := slices.MinFunc(n.Ranks, func(a, b Rank) int { return a.compareOutput(&b) })
			out = latest.lastOutput()
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", group, n.Name(), n.state(), formatRanks(n.FirstRank, n.Workers), pid, up, out)
	}
}

// state returns the state of a node in a few words.
func (n *NodeStatus) state() string {
	switch {
	case !n.Answered && n.Trouble != "":
		if n.Participation == "lost" {
			return "lost"
		}
		return n.Participation + ", " + n.Trouble
	case !n.Answered:
		return n.Participation
	case n.GroupRank < 0:
		return n.Participation // spare, waiting
	default:
		return n.State
	}
}

// state returns the state of a rank: "running", "failed (exit 3)", "stopped
// (SIGTERM)".
func (r *Rank) state() string {
	switch {
	case r.Signal != "":
		return r.State + " (" + r.Signal + ")"
	case r.ExitCode != nil && *r.ExitCode != 0:
		return fmt.Sprintf("%s (exit %d)", r.State, *r.ExitCode)
	default:
		return r.State
	}
}

// lastOutput returns the age of the last output that gorun saw.
func (r *Rank) lastOutput() string {
	switch {
	case r.Output != nil && r.Seen == SeenAll:
		return formatDuration(*r.Output)
	case r.Output != nil:
		return formatDuration(*r.Output) + " (" + r.Seen + ")"
	case r.Seen == SeenAll:
		return "none"
	default:
		return "unknown"
	}
}

// compareOutput orders ranks by their last output: the latest first, ranks without output
// last.
func (r *Rank) compareOutput(o *Rank) int {
	switch {
	case r.Output == nil && o.Output == nil:
		return 0
	case r.Output == nil:
		return 1
	case o.Output == nil:
		return -1
	}
	return int(max(-1, min(1, *r.Output-*o.Output)))
}

// row is a rank with its node.
type row struct {
	*Rank
	node *NodeStatus
}

// chooseRanks chooses the ranks to show: all if there are few, otherwise those that differ
// from most others.
func (s *Status) chooseRanks(all bool) (shown []row, hidden int) {
	if rows := s.rows(); all || len(rows) <= maxRanksShown {
		return rows, 0
	}
	n := s.norm()
	return n.choose(s.rows(), 0)
}

// trimLines removes the blanks that a table leaves behind its last column.
func trimLines(s string) string {
	lines := strings.Split(s, "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return strings.Join(lines, "\n")
}
