// Package preview tells what each rank of a job gets: for gorun env and for
// gorun run --dry-run.
//
// Invariants: a Node has what may be shown, no credential is in it; what comes
// from another process is made fit for a terminal; the same nodes give the same
// text.
package preview

import (
	"fmt"

	"github.com/gorun/gorun/envprop"
)

// Node is the ranks of one node. In JSON its names are stable; fields may be added.
type Node struct {
	Node  int    `json:"node"` // group rank
	Host  string `json:"host"`
	Addr  string `json:"addr"`
	Ranks []Rank `json:"ranks"`
	// Removed are variables that the node has and its workers do not get.
	Removed []Variable `json:"removed,omitempty"`
	// Wrapper stands in front of the program, and nobody looked behind it.
	Wrapper string `json:"wrapper,omitempty"`
}

// Rank is one worker.
type Rank struct {
	Rank      int        `json:"rank"`
	LocalRank int        `json:"local_rank"`
	Command   []string   `json:"command,omitempty"`
	Devices   []string   `json:"devices,omitempty"` // its own, as they are told to a person
	Env       []Variable `json:"env"`               // by name
}

// Variable is one that a rank gets, with its source.
type Variable struct {
	Name  string       `json:"name"`
	Value string       `json:"value"` // without credentials
	Kind  envprop.Kind `json:"kind"`
	Node  string       `json:"from_node,omitempty"` // whose request or environment; "" for the node itself
	At    string       `json:"at,omitempty"`        // the argument without its value, file and line, or the conf file
	Rule  string       `json:"rule,omitempty"`
}

// Variables turns what an environment is explained by into what is told.
func Variables(settings []envprop.Setting) []Variable {
	list := make([]Variable, 0, len(settings))
	for _, s := range settings {
		text, _ := s.Value.MarshalText() // never fails
		list = append(list, variable(s.Name, string(text), s.Source))
	}
	return list
}

// Removals are likewise of what was taken away.
func Removals(gone []envprop.Removal) []Variable {
	var list []Variable
	for _, r := range gone {
		list = append(list, variable(r.Name, "", r.Source))
	}
	return list
}

func variable(name, value string, s envprop.Source) Variable {
	return Variable{Name: name, Value: value, Kind: s.Kind, Node: s.Node, At: s.At, Rule: s.Rule}
}

// source tells where the variable is from.
func (v Variable) source() envprop.Source {
	return envprop.Source{Kind: v.Kind, Node: v.Node, At: v.At, Rule: v.Rule}
}

// Name is how the node is called.
func (n *Node) Name() string {
	name := n.Host
	switch {
	case n.Host == "":
		name = n.Addr
	case n.Addr != "" && n.Addr != n.Host:
		name = n.Host + " (" + n.Addr + ")"
	}
	return printable(name)
}

// Select leaves the ranks that are wanted, and drops nodes without any.
func Select(nodes []Node, wants func(node, rank int) bool) []Node {
	var list []Node
	for _, n := range nodes {
		var ranks []Rank
		for _, r := range n.Ranks {
			if wants(n.Node, r.Rank) {
				ranks = append(ranks, r)
			}
		}
		if n.Ranks = ranks; len(ranks) > 0 {
			list = append(list, n)
		}
	}
	return list
}

// Diff leaves what differs: between the ranks of these nodes, or from what the
// rank's own node has in its environment.
func Diff(nodes []Node) []Node {
	count, ranks := map[[2]string]int{}, 0
	for _, n := range nodes {
		for _, r := range n.Ranks {
			ranks++
			for _, v := range r.Env {
				count[[2]string{v.Name, v.Value}]++
			}
		}
	}
	list := make([]Node, len(nodes))
	for i, n := range nodes {
		list[i] = n
		list[i].Ranks = nil
		for _, r := range n.Ranks {
			var env []Variable
			for _, v := range r.Env {
				if v.Kind != envprop.FromOwn || count[[2]string{v.Name, v.Value}] < ranks {
					env = append(env, v)
				}
			}
			r.Env = env
			list[i].Ranks = append(list[i].Ranks, r)
		}
	}
	return list
}

// ranks is a list of the ranks for a person.
func ranks(all []Rank) string {
	switch len(all) {
	case 0:
		return "no rank"
	case 1:
		return fmt.Sprintf("rank %d", all[0].Rank)
	}
	return fmt.Sprintf("ranks %d-%d", all[0].Rank, all[len(all)-1].Rank)
}
