// Package preview shows what each rank of a job gets: for gorun env and for gorun
// run --dry-run.
//
// Invariants: a Node contains no credential. Text of other processes is made safe
// for a terminal. The same nodes give the same text.
package preview

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/gorun/gorun/envprop"
	"github.com/gorun/gorun/envprop/ncclenv"
	"github.com/gorun/gorun/internal/term"
	"github.com/gorun/gorun/launch/spec"
	"github.com/gorun/gorun/launch/workers"
	"github.com/gorun/gorun/rendezvous"
)

// Node holds the ranks of one node. In JSON its names are stable; fields may be
// added.
type Node struct {
	Node  int    `json:"node"` // group rank
	Host  string `json:"host"`
	Addr  string `json:"addr"`
	Ranks []Rank `json:"ranks"`
	// Surroundings names what started the node's agent among others, such as "Slurm
	// step 12.0"; Flags lists what follows from it.
	Surroundings string      `json:"surroundings,omitempty"`
	Flags        []spec.Used `json:"flags,omitempty"`
	// Secret says where the nodes have the job's secret from: "a munge credential".
	Secret string `json:"secret,omitempty"`
	// Removed lists the variables that the node has and its workers do not get.
	Removed []Variable `json:"removed,omitempty"`
	// Wrapper stands in front of the program. It was not tried which variables
	// arrive behind it.
	Wrapper string `json:"wrapper,omitempty"`
}

// Rank is one worker.
type Rank struct {
	Rank      int        `json:"rank"`
	LocalRank int        `json:"local_rank"`
	Command   []string   `json:"command,omitempty"` // without credentials
	Devices   []string   `json:"devices,omitempty"` // its own devices, in readable form
	Env       []Variable `json:"env"`               // by name
}

// Variable is a variable that a rank gets, with its source.
type Variable struct {
	Name  string `json:"name"`
	Value string `json:"value"` // without credentials
	// Mark stands for a hidden value. Two ranks of one job have the same mark if
	// they have the same value. The value cannot be found from the mark without the
	// secrets of the job's workers.
	Mark string       `json:"mark,omitempty"`
	Kind envprop.Kind `json:"kind"`
	Node string       `json:"from_node,omitempty"` // node whose request or environment it is; "": the node itself
	At   string       `json:"at,omitempty"`        // the argument without its value, the file and line, or the conf file
	Rule string       `json:"rule,omitempty"`
}

// New returns what a node's workers get. files are the nccl.conf files that they
// read.
func New(p *workers.Plan, files []ncclenv.File, errorFile func(local int) string) Node {
	m := p.Member()
	n := Node{Node: p.Group, Host: m.Host, Addr: m.Addr, Removed: Removals(p.Base.Removed())}
	for local := range m.Workers {
		n.Ranks = append(n.Ranks, Rank{
			Rank: m.FirstRank + local, LocalRank: local, Command: ncclenv.ShownWords(p.Command(local)), Devices: p.Places.Slot(local).GPUs,
			Env: Variables(p.Base.Explain(p.Vars(local, errorFile(local)), files...), p.World.Token),
		})
	}
	return n
}

// Variables converts the settings of an environment to the form that is shown. The
// key is for marks: only the job's agents and workers know it, and each world has
// another.
func Variables(settings []envprop.Setting, key string) []Variable {
	list := make([]Variable, 0, len(settings))
	for _, s := range settings {
		text, _ := s.Value.MarshalText() // never fails
		v := variable(s.Name, string(text), s.Source)
		if s.Value.HasCredential() {
			v.Mark = markOf(key, s)
		}
		list = append(list, v)
	}
	return list
}

func markOf(key string, s envprop.Setting) string {
	h := hmac.New(sha256.New, []byte(key))
	_, _ = fmt.Fprintf(h, "%s=%s", s.Name, s.Value.Reveal()) // never fails
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// Removals converts removed variables to the form that is shown.
func Removals(removed []envprop.Removal) []Variable {
	var list []Variable
	for _, r := range removed {
		list = append(list, variable(r.Name, "", r.Source))
	}
	return list
}

func variable(name, value string, s envprop.Source) Variable {
	return Variable{Name: name, Value: value, Kind: s.Kind, Node: s.Node, At: s.At, Rule: s.Rule}
}

// source returns where the variable comes from.
func (v Variable) source() envprop.Source {
	return envprop.Source{Kind: v.Kind, Node: v.Node, At: v.At, Rule: v.Rule}
}

// Name returns what messages call the node.
func (n *Node) Name() string {
	return term.Quoted((&rendezvous.Node{Host: n.Host, Addr: n.Addr}).Name())
}

// Select keeps the wanted ranks, and drops nodes without any.
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

// Diff keeps the variables that differ: between the ranks of these nodes, or from
// the environment of the rank's own node.
func Diff(nodes []Node) []Node {
	type value struct{ name, text, mark string }
	count, ranks := map[value]int{}, 0
	for _, n := range nodes {
		for _, r := range n.Ranks {
			ranks++
			for _, v := range r.Env {
				count[value{v.Name, v.Value, v.Mark}]++
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
				if v.Kind != envprop.FromEnvironment || count[value{v.Name, v.Value, v.Mark}] < ranks {
					env = append(env, v)
				}
			}
			r.Env = env
			list[i].Ranks = append(list[i].Ranks, r)
		}
	}
	return list
}

// ranks describes a list of ranks.
func ranks(all []Rank) string {
	switch len(all) {
	case 0:
		return "no rank"
	case 1:
		return fmt.Sprintf("rank %d", all[0].Rank)
	}
	return fmt.Sprintf("ranks %d-%d", all[0].Rank, all[len(all)-1].Rank)
}
