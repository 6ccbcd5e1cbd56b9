package check

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/gorun/gorun/rendezvous"
	"github.com/gorun/gorun/rendezvous/preflight/probe"
)

// answer holds the results of a question's probes. It also holds, by the answering
// node's clock, when the question came and when the answer left. With the times of
// the coordinator they give the offset of the clock, as in NTP.
type answer struct {
	Probes   json.RawMessage `json:"probes"`
	Came     int64           `json:"came_unix_ns"`
	Left     int64           `json:"left_unix_ns"`
	Mistaken string          `json:"mistaken,omitempty"` // why the node did not carry out the question
}

// Answer runs the probes that the coordinator asks for.
func (x *Checker) Answer(ctx context.Context, q rendezvous.Ask) {
	came := time.Now()
	if x.stop != nil { // a new question cancels the previous answer
		x.stop()
	}
	ctx, x.stop = context.WithCancel(ctx)
	x.opts.Wait.Go(func() {
		a := answer{Came: came.UnixNano()}
		plan, err := probe.Decode(q.Body)
		if err != nil {
			a.Mistaken = err.Error()
			x.opts.Console.Say("preflight: the coordinator's question is not obeyed: %v", err)
		} else {
			done := x.announce(len(plan.Targets))
			a.Probes = marshal(probe.Run(ctx, x.probing(), plan))
			done()
		}
		a.Left = time.Now().UnixNano()
		x.opts.Post(rendezvous.Answered{Serial: q.Serial, Body: marshal(a)})
	})
}

// announce says what the node waits for, if the probes take longer than 2 s.
func (x *Checker) announce(targets int) (done func()) {
	t := time.AfterFunc(2*time.Second, func() {
		x.opts.Console.Say("preflight: waiting for %d connections to the other nodes, at most 9s", targets)
	})
	return func() { t.Stop() }
}

// marshal encodes values that are always valid JSON.
func marshal(v any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("check: %T is always JSON: %v", v, err))
	}
	return b
}

// round returns how long question and answer were on their way.
func (a answer) round(asked, heard time.Time) time.Duration {
	return heard.Sub(asked) - time.Duration(a.Left-a.Came)
}

// offset returns the offset of the answering node's clock to the coordinator's.
func (a answer) offset(asked, heard time.Time) time.Duration {
	out := a.Came - asked.UnixNano()
	back := a.Left - heard.UnixNano()
	return time.Duration(out/2 + back/2)
}
