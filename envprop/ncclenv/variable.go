package ncclenv

import (
	"iter"
	"slices"
	"strings"
	"sync"
)

// Scope says where values of a variable must be equal, and so to which ranks and nodes
// one value may be copied.
type Scope string

const (
	All         Scope = "all"            // equal on every rank of the job; unset is a value too
	AllSoft     Scope = "all, soft"      // should be equal; a difference costs speed or clarity, not the job
	Node        Scope = "node"           // equal on the ranks of a node; nodes may differ
	NodeKeepAll Scope = "node, all"      // equal on the ranks of a node; nodes that differ are suspicious
	Rank        Scope = "rank"           // belongs to one rank or one node's devices: never copied to others
	Never       Scope = "never"          // must not reach a worker of another node
	Free        Scope = "free"           // may differ as it likes
	Obsolete    Scope = "without effect" // current releases ignore it, or only warn about it
)

// Agree reports whether a difference between ranks breaks the job.
func (s Scope) Agree() bool { return s == All }

// Travels reports whether one value may be given to all nodes of a job.
func (s Scope) Travels() bool { return s == All || s == AllSoft || s == NodeKeepAll || s == Free }

// Variable is an entry of the catalogue.
type Variable struct {
	Name       string // a name, or the prefix of a family followed by "*"
	Since      int    // first NCCL that reads it, as ncclGetVersion gives it (21800: 2.18.0); 0: every one in use, or not NCCL's
	Scope      Scope
	SetByGorun bool   // gorun sets it for every worker, so an inherited value does not matter
	Text       string // what a difference or a wrong value leads to, as part of a sentence
}

// row describes variables of the catalogue that have all but the name in common.
type row struct {
	names string // separated by blanks
	since int
	scope Scope
	text  string
}

// Variables yields the catalogue, by topic.
func Variables() iter.Seq[Variable] { return rows(ncclRows[:], otherRows[:]) }

// rows yields the variables of a part of the table.
func rows(parts ...[]row) iter.Seq[Variable] {
	set := map[string]bool{}
	for name := range strings.FieldsSeq(contract) {
		set[name] = true
	}
	return func(yield func(Variable) bool) {
		for _, part := range parts {
			for _, r := range part {
				for name := range strings.FieldsSeq(r.names) {
					if !yield(Variable{Name: name, Since: r.since, Scope: r.scope, SetByGorun: set[name], Text: r.text}) {
						return
					}
				}
			}
		}
	}
}

// Lookup finds the entry of a variable, else the entry of the longest family that it
// belongs to.
func Lookup(name string) (Variable, bool) {
	x := index()
	if v, ok := x.entries[name]; ok {
		return v, true
	}
	return x.family(name)
}

// lookup indexes the catalogue, because rules look up every variable of every node.
type lookup struct {
	entries    map[string]Variable
	families   []Variable      // the longest first
	knownNames map[string]bool // known names without an entry
}

// family returns the longest family that a name belongs to.
func (x lookup) family(name string) (Variable, bool) {
	for _, v := range x.families {
		if strings.HasPrefix(name, v.Name[:len(v.Name)-1]) {
			return v, true
		}
	}
	return Variable{}, false
}

// The indices are made at first use, because most jobs never need them.
var (
	index     = sync.OnceValue(func() lookup { return newLookup(Variables(), ncclNames+torchNames) })
	restIndex = sync.OnceValue(func() lookup { return newLookup(rows(restRows[:]), "") })
)

func newLookup(all iter.Seq[Variable], others string) lookup {
	x := lookup{entries: map[string]Variable{}, knownNames: map[string]bool{}}
	for v := range all {
		if strings.HasSuffix(v.Name, "*") {
			x.families = append(x.families, v)
		} else {
			x.entries[v.Name] = v
		}
	}
	slices.SortStableFunc(x.families, func(a, b Variable) int { return len(b.Name) - len(a.Name) })
	for name := range strings.FieldsSeq(others) {
		x.knownNames[name] = true
	}
	return x
}
