package status

import (
	"fmt"
	"strings"
)

// Totals counts the nodes and ranks of a status.
type Totals struct {
	Active, Spares, NoAnswer, Lost int // numbers of nodes; NoAnswer: connected, without an answer
	Ranks                          int // number of ranks of the world
	States                         map[string]int
}

// Totals counts the nodes and ranks. Ranks of nodes that did not answer have no
// state.
func (s *Status) Totals() Totals {
	t := Totals{Ranks: s.WorldSize, States: map[string]int{}}
	for i := range s.Nodes {
		n := &s.Nodes[i]
		switch {
		case n.Participation == "lost":
			t.Lost++
		case n.Participation == "unknown":
		case !n.Answered:
			t.NoAnswer++
		case n.GroupRank >= 0:
			t.Active++
		default:
			t.Spares++
		}
		for _, r := range n.Ranks {
			t.States[r.State]++
		}
	}
	return t
}

// String formats the totals on one line.
func (t Totals) String() string {
	count := func(n int, what string) string {
		if n == 0 {
			return ""
		}
		return fmt.Sprintf("%d %s", n, what)
	}
	var parts []string
	for _, p := range []string{
		count(t.Active, "active"), count(t.Spares, "waiting"), count(t.NoAnswer, "not answering"), count(t.Lost, "lost"),
	} {
		if p != "" {
			parts = append(parts, p)
		}
	}
	line := "nodes: " + strings.Join(parts, ", ")
	if len(parts) == 0 {
		line = "nodes: none"
	}
	if t.Ranks == 0 {
		return line
	}
	parts = nil
	counted := 0
	for _, state := range []string{Running, Stopping, Done, Failed, Stopped} {
		if p := count(t.States[state], state); p != "" {
			parts = append(parts, p)
			counted += t.States[state]
		}
	}
	if p := count(t.Ranks-counted, "unknown"); t.Ranks > counted {
		parts = append(parts, p)
	}
	return line + fmt.Sprintf("; ranks: %d (%s)", t.Ranks, strings.Join(parts, ", "))
}
