package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"github.com/gorun/gorun/launch/diagnose"
	"github.com/gorun/gorun/rendezvous"
)

// Outcome says how a job ended.
type Outcome string

const (
	Succeeded  Outcome = "succeeded"
	Failed     Outcome = "failed"
	Stopped    Outcome = "stopped"    // a signal or gorun abort ended it
	Rendezvous Outcome = "rendezvous" // the nodes did not come together
	Refused    Outcome = "refused"    // the preflight found a reason why the job cannot work
)

// Report is the JSON of --report. Names are stable: fields may be added, no field
// is renamed or removed. Times are RFC 3339; unknown times are left out.
type Report struct {
	RunID    string    `json:"run_id"`
	Started  time.Time `json:"started,omitzero"`
	Ended    time.Time `json:"ended,omitzero"`
	ExitCode int       `json:"exit_code"` // gorun's exit code
	Outcome  Outcome   `json:"outcome"`

	// Cause is the job's first failure; null if the job succeeded. Failures are the
	// failures of the last round, including the cause: the earliest 1024. If there
	// are very many, only the first ones have a traceback and a stderr_tail. In the
	// file the exit_code of a cause is the code with which gorun ends because of
	// it.
	Cause    *rendezvous.Cause  `json:"cause"`
	Failures []rendezvous.Cause `json:"failures"`
	Rounds   []Round            `json:"rounds"`
	// Explanation explains the last lines of all failed workers together, the most
	// probable cause first, as in gorun explain --json.
	Explanation []diagnose.Finding `json:"explanation,omitempty"`

	// Findings are the findings of a preflight that ended the job, as gorun check
	// --json prints them.
	Findings json.RawMessage `json:"findings,omitempty"`
}

// Round is one round of a job. A job with very many rounds, nodes or ranks shortens
// the early rounds: they have no nodes.
type Round struct {
	Round   int               `json:"round"`   // its number, which grows
	Restart int               `json:"restart"` // restarts that came before it
	Started time.Time         `json:"started,omitzero"`
	Ended   time.Time         `json:"ended,omitzero"`
	Nodes   []Node            `json:"nodes"` // by group rank
	Cause   *rendezvous.Cause `json:"cause"` // why the round ended; null if it succeeded

	Shortened bool `json:"shortened,omitempty"` // nodes and ranks are left out
}

// Node is one node of a round.
type Node struct {
	GroupRank int    `json:"group_rank"`
	Host      string `json:"host"`
	Addr      string `json:"addr,omitempty"`
	// Ranks are ordered by local rank. A worker that was never started has no PID.
	// In the file the exit code is 128+n after signal n.
	Ranks []rendezvous.End `json:"ranks"`
}

// WriteJSON writes r to path, completely or not at all.
func WriteJSON(path string, r Report) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false) // tracebacks are full of <module>
	enc.SetIndent("", "  ")
	err := enc.Encode(r.forJSON())
	if err == nil {
		err = writeWhole(path, b.Bytes())
	}
	if err != nil {
		return fmt.Errorf("cannot write the report of --report: %w", err)
	}
	return nil
}

// forJSON returns a copy of the report with empty lists in the place of nil, because
// JSON would have null and a program could not loop over it. An exit code in the copy
// is 128+n after signal n.
func (r Report) forJSON() Report {
	r.Cause = withExitCode(r.Cause)
	r.Failures = append([]rendezvous.Cause{}, r.Failures...)
	for i := range r.Failures {
		r.Failures[i] = *withExitCode(&r.Failures[i])
	}
	r.Rounds = append([]Round{}, r.Rounds...)
	for i := range r.Rounds {
		round := &r.Rounds[i]
		round.Cause = withExitCode(round.Cause)
		round.Nodes = append([]Node{}, round.Nodes...)
		for j := range round.Nodes {
			ranks := append([]rendezvous.End{}, round.Nodes[j].Ranks...)
			for k := range ranks {
				if sig := ranks[k].Signal; sig != 0 {
					ranks[k].ExitCode = 128 + int(sig)
				}
			}
			round.Nodes[j].Ranks = ranks
		}
	}
	return r
}

// withExitCode returns a copy of the cause with the exit code with which gorun ends
// because of it. Nodes that join or leave, and witnesses, give no exit code.
func withExitCode(c *rendezvous.Cause) *rendezvous.Cause {
	if c == nil || c.Kind == rendezvous.KindJoined || c.Kind == rendezvous.KindLeft || c.Kind == rendezvous.KindWitness {
		return c
	}
	out := *c
	out.ExitCode = c.Code()
	return &out
}
