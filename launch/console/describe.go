package console

import (
	"fmt"
	"strings"
	"time"

	"github.com/gorun/gorun/rendezvous"
)

// workersWrite reports whether workers of this node may write to the terminal in a
// phase. Their lines would break a live line.
func workersWrite(phase string) bool { return phase == "stopping" || phase == "recovering" }

// stateOf returns the part of a status whose change is printed at once: everything
// except the time that is left and the numbers in errors (ports, times).
func stateOf(s rendezvous.Status) string {
	s.Left = 0
	s.Note = strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' {
			return -1
		}
		return r
	}, s.Note)
	return describe(&s)
}

// arrived returns how many nodes have come. With many nodes the status does not name
// all of them.
func arrived(s *rendezvous.Status) int { return max(s.Came, len(s.Here)) }

// allNodes begins a sentence about the nodes that have come.
func allNodes(s *rendezvous.Status) string {
	if n := arrived(s); n != 1 {
		return fmt.Sprintf("all %d nodes are", n)
	}
	return "this node is"
}

// NoHint is a number of signals for Stopping where no Ctrl-C reaches the agent.
const NoHint = 2

// Stopping adds to a status the time until SIGKILL, and how many times the user must
// still press Ctrl-C to kill the workers now. signals is the number that has come.
func Stopping(s rendezvous.Status, left time.Duration, signals int) *rendezvous.Status {
	s.Left = max(0, left)
	if s.Left > 0 && signals < NoHint {
		s.Note = [...]string{"Ctrl-C twice", "Ctrl-C again"}[signals] + " kills them now"
	}
	return &s
}

// describe puts a status into words.
func describe(s *rendezvous.Status) string {
	var b strings.Builder
	left := ""
	if s.Left > 0 {
		left = fmt.Sprintf(", %v left", s.Left.Round(time.Second))
	}
	switch s.Phase {
	case "seeking":
		what := "other nodes"
		if s.Max == 1 {
			what = "endpoint's node"
		}
		fmt.Fprintf(&b, "looking for the %s%s", what, left)
	case "recovering":
		fmt.Fprintf(&b, "the coordinator was lost, asking the survivors%s", left)
	case "forming":
		missing := max(0, s.Min-arrived(s))
		if s.Min == s.Max {
			fmt.Fprintf(&b, "have %d of %d nodes (%s)", arrived(s), s.Max, strings.Join(s.Here, ", "))
		} else {
			fmt.Fprintf(&b, "have %d of %d to %d nodes (%s)", arrived(s), s.Min, s.Max, strings.Join(s.Here, ", "))
		}
		if missing > 0 {
			fmt.Fprintf(&b, ", %d missing", missing)
		}
		b.WriteString(left)
	case "checking":
		if arrived(s) == 1 {
			b.WriteString("this node is checked")
		} else {
			fmt.Fprintf(&b, "all %d nodes are here and are compared", arrived(s))
		}
		if len(s.Waiting) > 0 {
			fmt.Fprintf(&b, ", waiting for %s", strings.Join(s.Waiting, ", "))
		}
		b.WriteString(left)
	case "accepting":
		fmt.Fprintf(&b, "%s here, not ready yet: %s%s", allNodes(s), strings.Join(s.Waiting, ", "), left)
	case "stopping":
		fmt.Fprintf(&b, "waiting until the workers have stopped on %s", strings.Join(s.Waiting, ", "))
		if s.Left > 0 {
			fmt.Fprintf(&b, ", SIGKILL in %v", s.Left.Round(time.Second))
		}
	case "sealing":
		fmt.Fprintf(&b, "%s ready%s", allNodes(s), left)
	case "running":
		as := "gets a place when the next round starts"
		if s.Members >= s.Max {
			as = "is a hot spare and takes the place of one that is lost"
		}
		fmt.Fprintf(&b, "the job runs on %s; this node %s", strings.Join(s.Here, ", "), as)
	default:
		b.WriteString(s.Phase)
	}
	if s.Note != "" {
		fmt.Fprintf(&b, " (%s)", s.Note)
	}
	return b.String()
}
