package envprop

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gorun/gorun/envprop/ncclenv"
	"github.com/gorun/gorun/internal/term"
)

// Bounds on what is shown of differences.
const (
	maxGroups = 24
	maxShown  = 300 // bytes of a value
)

// Difference is a variable in which the nodes of a job differ, for finding E01.
type Difference struct {
	Name  string        `json:"name"`
	Scope ncclenv.Scope `json:"scope,omitempty"` // "" for a variable that is not governed
	Text  string        `json:"text,omitempty"`  // what a difference leads to, as part of a sentence
	// Groups are the nodes by value: the group of the first node first, then by size.
	Groups []Group `json:"groups"`
	// Requested says that users asked for different values with -x or --env-file on
	// different nodes. Groups are then the requests.
	Requested bool `json:"asked,omitempty"`
	// Remains says that the workers still differ after the decision. Groups are then the
	// values that they get. Otherwise Groups are the nodes' values, and every node gets
	// the first node's value.
	Remains bool `json:"left,omitempty"`
	// Targeted says that Remains is true because the user asks for a value on some nodes
	// only.
	Targeted bool `json:"targeted,omitempty"`
	// Error says that the job must not start. The variable has to agree, and it still
	// differs after the decision, or --env-conflict=error forbids the difference.
	Error bool `json:"error,omitempty"`
}

// Group is the nodes that have one value.
type Group struct {
	Value string `json:"value"` // as it may be shown
	Set   bool   `json:"set"`
	Nodes []int  `json:"nodes"` // group ranks, ascending
}

// String returns one line for a person: the variable, its values, and how many nodes
// have each value.
func (x Difference) String() string {
	var parts []string
	for _, g := range x.Groups {
		what := "unset"
		if g.Set {
			what = g.Value
			if what == "" {
				what = "empty"
			}
		}
		nodes := fmt.Sprintf("nodes %d and %d more", g.Nodes[0], len(g.Nodes)-1)
		switch len(g.Nodes) {
		case 1:
			nodes = fmt.Sprintf("node %d", g.Nodes[0])
		case 2:
			nodes = fmt.Sprintf("nodes %d and %d", g.Nodes[0], g.Nodes[1])
		}
		parts = append(parts, what+" on "+nodes)
	}
	text := x.Name + ": " + strings.Join(parts, ", ")
	if x.Requested {
		text = x.Name + " is requested with different values: " + strings.Join(parts, ", ")
	}
	if !x.Remains && !x.Error {
		text += "; every node gets that of node " + fmt.Sprint(x.Groups[0].Nodes[0])
	}
	return text
}

// difference compares the nodes and returns nil when there is nothing to report.
// Requests is the number of nodes for which a user's request decided.
func (u *unifier) difference(v ncclenv.Variable, name string, requests int, before, after []state) *Difference {
	x := Difference{Name: name, Scope: v.Scope, Text: v.Text}
	matter := v.Scope == ncclenv.All || v.Scope == ncclenv.AllSoft || v.Scope == ncclenv.NodeKeepAll
	if matter {
		if x.Groups = groups(after); len(x.Groups) > 1 {
			x.Remains, x.Error, x.Targeted = true, !v.Soft(), requests > 0
			if !u.offers.trusted && ncclenv.RunsCode(name) {
				x.Text += "; without a secret no node takes it from another one"
			}
			return &x
		}
	}
	if matter && requests == 0 {
		if x.Groups = groups(before); len(x.Groups) > 1 {
			x.Error = u.policy.Conflict == ConflictError && !v.Soft()
			return &x
		}
	}
	if !u.offers.trusted && ncclenv.RunsCode(name) {
		return nil // each node got what its own user requested
	}
	switch v.Scope {
	case ncclenv.Node, ncclenv.NodeKeepAll, ncclenv.Rank, ncclenv.Never:
		return nil // each node got what its own user requested
	}
	wanted := make([]state, len(before))
	for _, o := range u.offers.competing[name] {
		wanted[o.node] = state{true, true, o.override.Value}
	}
	if x.Groups = groups(wanted); len(x.Groups) > 1 {
		x.Requested = true
		x.Error = u.policy.Conflict == ConflictError && matter && !v.Soft()
		return &x
	}
	return nil
}

// groups groups the known nodes by value.
func groups(states []state) []Group {
	type key struct {
		set  bool
		text string
	}
	at := map[key]int{}
	var list []Group
	for i, s := range states {
		if !s.known {
			continue
		}
		k := key{s.set, s.value.Reveal()}
		g, ok := at[k]
		if !ok {
			g = len(list)
			at[k] = g
			list = append(list, Group{Value: term.Cut(s.value.String(), maxShown), Set: s.set})
		}
		list[g].Nodes = append(list[g].Nodes, i)
	}
	if len(list) < 3 {
		return list
	}
	slices.SortStableFunc(list[1:], func(a, b Group) int { return len(b.Nodes) - len(a.Nodes) })
	if n := len(list); n > maxGroups {
		rest := Group{Value: fmt.Sprintf("other values (%d)", n-maxGroups+1), Set: true}
		for _, g := range list[maxGroups-1:] {
			rest.Nodes = append(rest.Nodes, g.Nodes...)
		}
		slices.Sort(rest.Nodes)
		list = append(list[:maxGroups-1], rest)
	}
	return list
}
