package check

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/gorun/gorun/rendezvous"
	"github.com/gorun/gorun/rendezvous/preflight/probe"
)

// An answer has the results of the question's probes and, by the answering
// node's clock, when the question came and when the answer left: with the times
// of the coordinator they give the offset of the clock, as NTP does.
type answer struct {
	Probes   json.RawMessage `json:"probes"`
	Came     int64           `json:"came_unix_ns"`
	Left     int64           `json:"left_unix_ns"`
	Mistaken string          `json:"mistaken,omitempty"` // why the question was not obeyed
}

// Answer carries out the probes that the coordinator asks for.
func (x *Checker) Answer(ctx context.Context, q rendezvous.Ask) {
	came := time.Now()
	if x.stop != nil { // a new question does not wait for the last answer
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

// announce says what takes time, if it does.
func (x *Checker) announce(targets int) (done func()) {
	t := time.AfterFunc(2*time.Second, func() {
		x.opts.Console.Say("preflight: waiting for %d connections to the other nodes, at most 9s", targets)
	})
	return func() { t.Stop() }
}

// marshal is for values that are always JSON.
func marshal(v any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("check: %T is always JSON: %v", v, err))
	}
	return b
}

// round is how long question and answer were under way.
func (a answer) round(asked, heard time.Time) time.Duration {
	return heard.Sub(asked) - time.Duration(a.Left-a.Came)
}

// offset of the clock of the node that answered, to the coordinator's.
func (a answer) offset(asked, heard time.Time) time.Duration {
	out := a.Came - asked.UnixNano()
	back := a.Left - heard.UnixNano()
	return time.Duration(out/2 + back/2)
}
