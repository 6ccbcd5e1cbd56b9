package envprop

import (
	"slices"
	"strings"

	"github.com/gorun/gorun/envprop/ncclenv"
)

// format is the version of reports and assignments on the wire.
const format = 1

// Node has the names of a node.
type Node struct {
	Host string // its host name
	Addr string // its address, with or without a port
	Role string // of its workers
}

// Report is what a node reports of its environment, for the decision. It is not part
// of the facts that the preflight keeps, because it may hold a credential that the
// user asked for with -x, and Encode writes that in clear.
type Report struct {
	Format    int // 0: the node sent no report
	Node      Node
	Values    []NodeValue // of governed variables, by name
	Overrides []Override
}

// NodeValue is the effective value of a governed variable on a node.
type NodeValue struct {
	Name       string
	Value      Value
	Conf       string // the nccl.conf that sets it; "" when it is exported
	Overridden string // the nccl.conf that would set it were it not exported
}

// NewReport returns the report of a node whose workers would have this environment
// and whose NCCL would read these files. It leaves out every variable that is named
// like a credential or contains one, and every variable that belongs to one machine,
// one rank or the contract with workers.
func NewReport(n Node, env []string, files []ncclenv.File, r Request) Report {
	report := Report{Format: format, Node: n, Overrides: r.Overrides}
	all := map[string]*NodeValue{}
	add := func(name, text, conf string) {
		if have := all[name]; have != nil {
			if have.Conf == "" && have.Overridden == "" {
				have.Overridden = conf
			}
			return
		}
		if isReported(name) && !ncclenv.HasCredential(name, text) && checkValue(name, text) == nil {
			all[name] = &NodeValue{Name: name, Value: NewValue(name, text), Conf: conf}
		}
	}
	exported := environment(env)
	for name, text := range exported {
		add(name, text, "")
	}
	for _, f := range files {
		for _, e := range f.Entries {
			if _, hidden := exported[e.Name]; hidden && all[e.Name] == nil {
				continue
			}
			add(e.Name, e.Value, shownPath(f.Facts.Path))
		}
	}
	for _, name := range names(all) {
		report.Values = append(report.Values, *all[name])
	}
	return report
}

// isReported reports whether a node reports its own value of a variable.
func isReported(name string) bool {
	v, ok := ncclenv.Governed(name)
	if !ok || v.SetByGorun || checkName(name) != nil || ncclenv.Credential(name) {
		return false
	}
	switch v.Scope {
	case ncclenv.All, ncclenv.AllSoft, ncclenv.Node, ncclenv.NodeKeepAll, ncclenv.Free:
		return true
	default:
		return false
	}
}

// find returns the node's own value of a variable, or nil.
func (r *Report) find(name string) *NodeValue {
	i, ok := slices.BinarySearchFunc(r.Values, name, func(o NodeValue, name string) int { return strings.Compare(o.Name, name) })
	if !ok || r.Format == 0 {
		return nil
	}
	return &r.Values[i]
}
