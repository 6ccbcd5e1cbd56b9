package status

import (
	"encoding/json"
	"slices"
	"time"
)

// Bounds of one node's report. Together they stay below the 256 KiB that a
// coordinator keeps of a node, even if JSON takes six bytes for each byte of text.
const (
	maxRanks       = 512
	maxFindings    = 32
	maxText        = 512      // bytes of a message or a finding
	maxTexts       = 16 << 10 // bytes of all messages
	maxFindingText = 8 << 10  // bytes of all findings
)

// NodeReport is an agent's report on its node, a report in a rendezvous.View. Durations
// are in milliseconds.
type NodeReport struct {
	Version  string    `json:"version"` // version of gorun
	PID      int       `json:"pid"`     // pid of the agent
	Keeper   int       `json:"keeper"`  // pid of the process that the user started
	Up       int64     `json:"up_ms"`   // since the start of the agent
	Round    int       `json:"round"`   // round of the ranks
	State    string    `json:"state"`
	Ranks    []Rank    `json:"ranks"`
	Omitted  int       `json:"ranks_omitted,omitempty"` // number of ranks that are left out, because there are too many
	Findings []Finding `json:"findings,omitempty"`      // findings of the preflight, if this node compared the job's nodes
}

// States of a node's workers, and of a single worker.
const (
	Idle     = "idle"    // of a node: no worker was started yet
	Running  = "running" // of a node: at least one of its workers runs
	Stopping = "stopping"
	Done     = "done" // with exit code 0
	Failed   = "failed"
	Stopped  = "stopped" // ended by gorun
)

// Rank is one worker.
type Rank struct {
	Rank      int       `json:"rank"`
	LocalRank int       `json:"local_rank"`
	PID       int       `json:"pid"`
	State     string    `json:"state"`
	Started   time.Time `json:"started"` // by the node's clock
	Up        int64     `json:"up_ms"`   // how long it has been running, or ran
	ExitCode  *int      `json:"exit_code,omitempty"`
	Signal    string    `json:"signal,omitempty"` // the signal that killed it
	// Output is the time since the worker last printed something that gorun saw;
	// null: never. Seen says which output gorun sees.
	Output  *int64 `json:"last_output_ms"`
	Seen    string `json:"output_seen"`
	Message string `json:"message,omitempty"` // message of its failure
	// Call is the call of package worker in which a Go worker is, and CallAge how long it
	// has been there. Other workers have none.
	Call    string `json:"call,omitempty"`
	CallAge int64  `json:"call_ms,omitempty"`
	Step    uint64 `json:"step,omitempty"` // what a worker says of its progress
	// Rate is in steps a second. A Follower sets it.
	Rate *float64 `json:"steps_per_second,omitempty"`
}

// The parts of a worker's output that gorun sees. It does not see a standard output
// that the worker inherits.
const (
	SeenAll     = "all"
	SeenStderr  = "stderr"
	SeenUnknown = "unknown"
)

// Finding is a finding of the preflight, shortened.
type Finding struct {
	ID       string `json:"id"`
	Title    string `json:"title"`
	Severity string `json:"severity"`
	Text     string `json:"text"`
}

// Encode encodes the report on a node, within the bounds.
func (n NodeReport) Encode() json.RawMessage {
	if more := len(n.Ranks) - maxRanks; more > 0 {
		n.Ranks, n.Omitted = n.Ranks[:maxRanks], more
	}
	n.Ranks, n.Findings = slices.Clone(n.Ranks), slices.Clone(n.Findings[:min(len(n.Findings), maxFindings)])
	n.clean()
	left := maxTexts
	for i := range n.Ranks {
		r := &n.Ranks[i]
		if left -= len(r.Message) + len(r.Call); left < 0 {
			r.Message, r.Call = "", ""
		}
	}
	left = maxFindingText
	n.Findings = slices.DeleteFunc(n.Findings, func(f Finding) bool {
		left -= len(f.Title) + len(f.Text)
		return left < 0
	})
	b, err := json.Marshal(n)
	if err != nil {
		panic("status: a report is always JSON: " + err.Error())
	}
	return b
}

// clean bounds texts and makes them printable. The sender and the reader of a report
// call it.
func (n *NodeReport) clean() {
	n.Version, n.State = shortText(n.Version), shortText(n.State)
	for i := range n.Ranks {
		r := &n.Ranks[i]
		r.State, r.Signal, r.Seen, r.Message = shortText(r.State), shortText(r.Signal), shortText(r.Seen), shortText(r.Message)
		r.Call = shortText(r.Call)
	}
	for i := range n.Findings {
		f := &n.Findings[i]
		f.ID, f.Title, f.Severity, f.Text = shortText(f.ID), shortText(f.Title), shortText(f.Severity), shortText(f.Text)
	}
}
