package preflight

// Severity says how bad a finding is.
type Severity string

const (
	Error   Severity = "error" // would fail, hang or give wrong results: the job is refused
	Warning Severity = "warning"
	Note    Severity = "note" // recorded only
)

// Finding is the result of one rule for a fleet.
type Finding struct {
	ID       string   `json:"id"` // "V01"
	Severity Severity `json:"severity"`
	Title    string   `json:"title"`            // of the rule: "nccl-version"
	Text     string   `json:"text"`             // one sentence: what is wrong, and what would happen
	Values   []Value  `json:"values,omitempty"` // the differing values, most frequent first
	Fix      string   `json:"fix"`              // Steps as text: prose, and lines that begin with two blanks can be pasted
	Steps    []Step   `json:"steps,omitempty"`  // what to do
	Matrix   *Matrix  `json:"matrix,omitempty"` // of the probes: which node cannot reach which
}

// Value is what the nodes of a group have in common.
type Value struct {
	Value string  `json:"value"`
	Nodes []int   `json:"nodes"` // group ranks, ascending
	Ranks []Range `json:"ranks,omitempty"`
	Odd   bool    `json:"odd,omitempty"` // differs from what most nodes have

	Names []string `json:"names,omitempty"` // names of Nodes; Named sets them
}

// Range is the global ranks from First to Last, both included.
type Range struct {
	First int `json:"first"`
	Last  int `json:"last"`
}

// Matrix is the result of the probes, for display: Cells[i][j] is what node
// Nodes[i] found when it connected to Nodes[j], "" if it did not try.
type Matrix struct {
	Nodes []int      `json:"nodes"`
	Cells [][]string `json:"cells"` // "ok", "refused", "no route", "timed out", "other source", ...

	Names []string `json:"names,omitempty"` // names of Nodes; Named sets them
}

// Named sets the names of the nodes in findings that are stored. Compare leaves
// them empty, because it is cheaper to send each node's name once.
func Named(found []Finding, names []string) {
	of := func(nodes []int) []string {
		list := make([]string, len(nodes))
		for k, i := range nodes {
			list[k] = NodeName(i, names)
		}
		return list
	}
	for _, x := range found {
		for k := range x.Values {
			x.Values[k].Names = of(x.Values[k].Nodes)
		}
		if x.Matrix != nil {
			x.Matrix.Names = of(x.Matrix.Nodes)
		}
	}
}
