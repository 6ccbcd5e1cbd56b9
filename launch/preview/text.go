package preview

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/gorun/gorun/envprop"
	"github.com/gorun/gorun/internal/term"
	"github.com/gorun/gorun/rendezvous"
)

// Print writes the environments of ranks for gorun env.
func Print(w io.Writer, nodes []Node, diff, asJSON bool) error {
	if diff {
		nodes = Diff(nodes)
	}
	if asJSON {
		return WriteJSON(w, nodes)
	}
	return WriteText(w, nodes)
}

// WriteJSON writes one object for each node, each on one line.
func WriteJSON(w io.Writer, nodes []Node) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	for _, n := range nodes {
		if n.Ranks == nil {
			n.Ranks = []Rank{}
		}
		if err := enc.Encode(n); err != nil {
			return err
		}
	}
	return nil
}

// WriteText writes the environments as text: for each node first what its ranks
// have in common, then what differs for each rank.
func WriteText(w io.Writer, nodes []Node) error {
	var b strings.Builder
	for i := range nodes {
		n := &nodes[i]
		fmt.Fprintf(&b, "node %d, %s: %s\n", n.Node, n.Name(), ranks(n.Ranks))
		surroundings(&b, n)
		writeEnvironment(&b, n)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// surroundings writes the flags that the surroundings of a node's agent give.
func surroundings(b *strings.Builder, n *Node) {
	if len(n.Flags) > 0 {
		fmt.Fprintf(b, "  flags from %s:\n", term.Quoted(n.Surroundings))
	}
	for _, f := range n.Flags {
		fmt.Fprintf(b, "    %-42s  %s\n", term.Quoted("--"+f.Flag+"="+f.Text), term.Quoted(f.From))
	}
	if n.Secret != "" {
		fmt.Fprintf(b, "  secret from %s\n", term.Quoted(n.Secret))
	}
}

func writeEnvironment(b *strings.Builder, n *Node) {
	common := map[Variable]int{}
	for _, r := range n.Ranks {
		for _, v := range r.Env {
			common[v]++
		}
	}
	write := func(title string, env []Variable, shared bool) {
		head := false
		for _, v := range env {
			if (common[v] == len(n.Ranks)) != shared {
				continue
			}
			if !head {
				fmt.Fprintf(b, "  %s:\n", title)
				head = true
			}
			writeVariable(b, v.Name+"="+term.Quoted(v.Value), v)
		}
	}
	if len(n.Ranks) > 0 {
		write(title(n.Ranks), n.Ranks[0].Env, true)
	}
	for _, r := range n.Ranks {
		write(fmt.Sprintf("rank %d", r.Rank), r.Env, false)
	}
	if len(n.Removed) > 0 {
		fmt.Fprintf(b, "  removed:\n")
		for _, v := range n.Removed {
			writeVariable(b, v.Name, v)
		}
	}
	if n.Wrapper != "" {
		fmt.Fprintf(b, "  not checked: which of these variables reach the program behind %s (E03); gorun check starts %[1]s to check it\n", term.Quoted(n.Wrapper))
	}
}

func title(all []Rank) string {
	if len(all) == 1 {
		return ranks(all)
	}
	return fmt.Sprintf("all %d ranks", len(all))
}

// writeVariable writes a variable and its source.
func writeVariable(b *strings.Builder, what string, v Variable) {
	source := v.source()
	text := source.String()
	switch scope, _, found := strings.Cut(v.Rule, ":"); {
	case v.Rule == "":
	case v.Kind == envprop.FromGorun || !found:
		text += ": " + v.Rule
	default:
		text += " [" + scope + "]"
	}
	fmt.Fprintf(b, "    %-42s  %s\n", term.Quoted(what), term.Quoted(text))
}

// WriteWorld writes the nodes of a job.
func WriteWorld(w io.Writer, world *rendezvous.World) error {
	var b strings.Builder
	fmt.Fprintf(&b, "world of run %s: %d nodes, %d workers; nothing is started\n", term.Quoted(world.RunID), len(world.Members), world.Size)
	for i := range world.Members {
		m := &world.Members[i]
		last := m.FirstRank + m.Workers - 1
		where := fmt.Sprintf("ranks %d-%d", m.FirstRank, last)
		if m.Workers == 1 {
			where = fmt.Sprintf("rank %d", m.FirstRank)
		}
		fmt.Fprintf(&b, "  node %d, %s: %s, role %s\n", i, term.Quoted(m.Name()), where, term.Quoted(m.Role))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// WritePlan writes what a node would start: commands, devices, and what is added to
// the node's own environment or removed from it.
func WritePlan(w io.Writer, n Node) error {
	var b strings.Builder
	fmt.Fprintf(&b, "node %d, %s: %s\n", n.Node, n.Name(), ranks(n.Ranks))
	surroundings(&b, &n)
	same := true
	for _, r := range n.Ranks {
		same = same && command(r) == command(n.Ranks[0])
	}
	for i, r := range n.Ranks {
		if i == 0 && same {
			fmt.Fprintf(&b, "  command of %s: %s\n", ranks(n.Ranks), command(r))
		} else if !same {
			fmt.Fprintf(&b, "  command of rank %d: %s\n", r.Rank, command(r))
		}
	}
	for _, r := range n.Ranks {
		if len(r.Devices) > 0 {
			fmt.Fprintf(&b, "  devices of rank %d: %s\n", r.Rank, term.Quoted(strings.Join(r.Devices, ", ")))
		}
	}
	b.WriteString("  environment, besides this node's own (gorun env shows that, too):\n")
	changed := Diff([]Node{n})
	writeEnvironment(&b, &changed[0])
	_, err := io.WriteString(w, b.String())
	return err
}

// command returns the command in a form that can be pasted into a shell.
func command(r Rank) string { return term.Quoted(term.Command(r.Command...)) }
