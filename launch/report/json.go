package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"github.com/gorun/gorun/launch/diagnose"
	"github.com/gorun/gorun/rendezvous"
)

// Outcome is how a job ended.
type Outcome string

const (
	Succeeded  Outcome = "succeeded"
	Failed     Outcome = "failed"
	Stopped    Outcome = "stopped"    // a signal or an order ended it
	Rendezvous Outcome = "rendezvous" // the nodes did not come together
	Refused    Outcome = "refused"    // the preflight found why the job cannot work
)

// Report is the JSON of --report. Names are stable: fields may be added, none
// is renamed or removed. Times are RFC 3339 and left out where not known.
type Report struct {
	RunID    string    `json:"run_id"`
	Started  time.Time `json:"started,omitzero"`
	Ended    time.Time `json:"ended,omitzero"`
	ExitCode int       `json:"exit_code"` // gorun's
	Outcome  Outcome   `json:"outcome"`

	// Cause is the job's first failure, null if it succeeded. Failures are those
	// that were seen in the last round, the cause among them: the earliest 1024;
	// of very many only the first ones come with traceback and stderr_tail. The
	// exit_code of a cause is in the file the one that it gives to gorun.
	Cause    *rendezvous.Cause  `json:"cause"`
	Failures []rendezvous.Cause `json:"failures"`
	Rounds   []Round            `json:"rounds"`
	// Explanation is what the last words of all workers that failed mean
	// together, the most probable cause first, as gorun explain --json has it.
	Explanation []diagnose.Finding `json:"explanation,omitempty"`

	// Findings are those of a preflight that ended the job, as gorun check --json
	// prints them.
	Findings json.RawMessage `json:"findings,omitempty"`
}

// Round is one attempt. A job with very many rounds, nodes or ranks tells the
// early ones shortened: without nodes.
type Round struct {
	Round   int               `json:"round"`   // its number, grows
	Restart int               `json:"restart"` // restarts that came before it
	Started time.Time         `json:"started,omitzero"`
	Ended   time.Time         `json:"ended,omitzero"`
	Nodes   []Node            `json:"nodes"` // by group rank
	Cause   *rendezvous.Cause `json:"cause"` // why it ended, null if it succeeded

	Shortened bool `json:"shortened,omitempty"` // nodes and ranks are left out
}

// Node is one node of a round.
type Node struct {
	GroupRank int    `json:"group_rank"`
	Host      string `json:"host"`
	Addr      string `json:"addr,omitempty"`
	// Ranks are by local rank. A worker that was never started has no PID. In the
	// file the exit code is 128+n after signal n.
	Ranks []rendezvous.End `json:"ranks"`
}

// WriteJSON writes r to path, as a whole or not at all.
func WriteJSON(path string, r Report) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false) // tracebacks are full of <module>
	enc.SetIndent("", "  ")
	err := enc.Encode(r.readable())
	if err == nil {
		err = writeWhole(path, b.Bytes())
	}
	if err != nil {
		return fmt.Errorf("cannot write the report of --report: %w", err)
	}
	return nil
}

// readable has empty lists where there were none, so that a reader may loop over
// them without asking: JSON would say null. Its exit codes tell how something
// ended without a look at anything else.
func (r Report) readable() Report {
	r.Cause = coded(r.Cause)
	r.Failures = append([]rendezvous.Cause{}, r.Failures...)
	for i := range r.Failures {
		r.Failures[i] = *coded(&r.Failures[i])
	}
	r.Rounds = append([]Round{}, r.Rounds...)
	for i := range r.Rounds {
		round := &r.Rounds[i]
		round.Cause = coded(round.Cause)
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

// coded is a copy of the cause with the exit code that it gives to gorun. Nodes
// that come or go, and who only knew something, give none.
func coded(c *rendezvous.Cause) *rendezvous.Cause {
	if c == nil || c.Kind == rendezvous.KindJoined || c.Kind == rendezvous.KindLeft || c.Kind == rendezvous.KindWitness {
		return c
	}
	out := *c
	out.ExitCode = c.Code()
	return &out
}
