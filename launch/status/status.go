package status

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/gorun/gorun/rendezvous"
)

// Status is the state of a job, as gorun status --json prints it. Names are stable;
// fields may be added. Durations are in milliseconds.
type Status struct {
	RunID       string `json:"run_id"`
	State       string `json:"state"` // forming, checking, accepting, sealing, running, stopping, recovering, seeking, ending
	Round       int    `json:"round"`
	Restart     int    `json:"restart"`
	MaxRestarts int    `json:"max_restarts"`
	Up          int64  `json:"up_ms"`    // since the start of the job's oldest agent that answered
	RoundUp     int64  `json:"round_ms"` // since the start of the workers; 0: none runs
	MinNodes    int    `json:"min_nodes"`
	MaxNodes    int    `json:"max_nodes"`
	WorldSize   int    `json:"world_size"` // 0: there is no world
	Coordinator string `json:"coordinator,omitempty"`

	Nodes    []NodeStatus `json:"nodes"`
	Findings []Finding    `json:"findings"`

	Failure string   `json:"last_failure,omitempty"` // why this round, or the one before it, was stopped
	Hang    string   `json:"hang,omitempty"`         // why the round hangs; "": it is not known to hang
	Waiting []string `json:"waiting_for,omitempty"`  // names of nodes
	Left    int64    `json:"left_ms,omitempty"`      // time that is left to wait for them
	Note    string   `json:"note,omitempty"`         // why this status is not complete
}

// NodeStatus is the state of one node. A node that did not answer has only the
// fields before Version.
type NodeStatus struct {
	Host          string `json:"host"`
	Addr          string `json:"addr"`
	GroupRank     int    `json:"group_rank"` // -1: none
	FirstRank     int    `json:"first_rank"` // -1: none
	Workers       int    `json:"workers"`
	Participation string `json:"standing"` // active, spare, waiting, lost, unknown
	Answered      bool   `json:"answered"`
	Trouble       string `json:"trouble,omitempty"`

	Version string `json:"version,omitempty"`
	PID     int    `json:"pid,omitempty"`
	Keeper  int    `json:"keeper,omitempty"`
	Up      int64  `json:"up_ms,omitempty"`
	State   string `json:"state,omitempty"` // state of its workers
	Ranks   []Rank `json:"ranks"`           // of the present round
	Omitted int    `json:"ranks_omitted,omitempty"`
}

// Name returns the name of the node in messages.
func (n *NodeStatus) Name() string { return nodeName(n.Host, n.Addr) }

// Decode makes a status of the view in a Reply. It does not trust the view: the status
// can be printed whatever the view contains.
func Decode(view []byte) (Status, error) {
	v, err := decodeView(view)
	if err != nil {
		return Status{}, err
	}
	s := Status{
		RunID: shortText(v.RunID), State: shortText(v.Phase), Round: v.Round, Restart: v.Restart, MaxRestarts: v.MaxRestarts,
		RoundUp: v.Age.Milliseconds(), MinNodes: v.Min, MaxNodes: v.Max, WorldSize: v.Size,
		Failure: shortText(v.Failure), Hang: shortText(v.Hang), Note: shortText(v.Note), Nodes: []NodeStatus{}, Findings: []Finding{},
	}
	if v.Status != nil {
		for _, name := range v.Status.Waiting {
			s.Waiting = append(s.Waiting, shortText(name))
		}
		s.Left = v.Status.Left.Milliseconds()
	}
	for i := range v.Nodes {
		n, r := decodeNode(&v.Nodes[i], &v)
		if v.Nodes[i].ID == v.Coordinator && v.Coordinator != "" {
			s.Coordinator = n.Name()
		}
		s.Up = max(s.Up, n.Up)
		s.Nodes = append(s.Nodes, n)
		if len(r.Findings) > len(s.Findings) { // the coordinator has the most; an earlier coordinator has older findings
			s.Findings = r.Findings
		}
	}
	return s, nil
}

// decodeView decodes the view in a Reply.
func decodeView(view []byte) (v rendezvous.View, err error) {
	if err := json.Unmarshal(view, &v); err != nil {
		return v, fmt.Errorf("cannot read the status that the agent sent: %w", err)
	}
	return v, nil
}

// newNodeStatus returns what the coordinator says of a node.
func newNodeStatus(seen *rendezvous.NodeView) NodeStatus {
	return NodeStatus{
		Host: shortText(seen.Host), Addr: shortText(seen.Addr), GroupRank: seen.GroupRank, FirstRank: seen.FirstRank, Workers: seen.Workers,
		Participation: shortText(string(seen.Participation)), Trouble: shortText(seen.Trouble), Ranks: []Rank{},
	}
}

// decodeNode returns the state of one node, and the node's report.
func decodeNode(seen *rendezvous.NodeView, v *rendezvous.View) (NodeStatus, NodeReport) {
	n := newNodeStatus(seen)
	var r NodeReport
	if seen.Report == nil {
		return n, r
	}
	if err := json.Unmarshal(seen.Report, &r); err != nil {
		n.Trouble = "its report is invalid"
		return n, NodeReport{}
	}
	r.clean()
	n.Answered, n.Version, n.PID, n.Keeper, n.Up, n.State = true, r.Version, r.PID, r.Keeper, r.Up, r.State
	if r.Round == v.Round && seen.GroupRank >= 0 && len(r.Ranks) > 0 { // otherwise the ranks are of an earlier round
		n.Ranks, n.Omitted = r.Ranks, r.Omitted
	} else if r.State != Stopping {
		n.State = Idle
	}
	return n, r
}

// ageMS returns the age of a time in milliseconds; nil for the zero time.
func ageMS(t, now time.Time) *int64 {
	if t.IsZero() {
		return nil
	}
	ms := max(0, now.Sub(t).Milliseconds())
	return &ms
}
