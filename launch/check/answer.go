package check

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/gorun/gorun/rendezvous"
	"github.com/gorun/gorun/rendezvous/preflight/probe"
)

// answer holds the results of a question's probes. Received and Sent are times of the
// answering node's clock. With the coordinator's times they give the offset of the
// clock, as in NTP.
type answer struct {
	Probes   json.RawMessage `json:"probes"`
	Received int64           `json:"came_unix_ns"`
	Sent     int64           `json:"left_unix_ns"`
	Error    string          `json:"mistaken,omitempty"` // why the node ran no probes
}

// Answer runs the probes that the coordinator asks for.
func (x *Checker) Answer(ctx context.Context, q rendezvous.Ask) {
	received := time.Now()
	if x.stop != nil { // a new question cancels the previous answer
		x.stop()
	}
	ctx, x.stop = context.WithCancel(ctx)
	x.opts.Wait.Go(func() {
		a := answer{Received: received.UnixNano()}
		plan, err := probe.Decode(q.Body)
		if err != nil {
			a.Error = err.Error()
			x.opts.Console.Say("preflight: cannot run the probes that the coordinator asks for: %v", err)
		} else {
			done := x.reportSlowProbes(len(plan.Targets))
			a.Probes = marshal(probe.Run(ctx, x.probeOptions(), plan))
			done()
		}
		a.Sent = time.Now().UnixNano()
		x.opts.Post(rendezvous.Answered{Serial: q.Serial, Body: marshal(a)})
	})
}

// reportSlowProbes prints what the node waits for if the probes take longer than 2 s.
func (x *Checker) reportSlowProbes(targets int) (done func()) {
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

// roundTrip returns how long question and answer took on the network.
func (a answer) roundTrip(askedAt, answeredAt time.Time) time.Duration {
	return answeredAt.Sub(askedAt) - time.Duration(a.Sent-a.Received)
}

// offset returns the offset of the answering node's clock to the coordinator's.
func (a answer) offset(askedAt, answeredAt time.Time) time.Duration {
	there := a.Received - askedAt.UnixNano()
	back := a.Sent - answeredAt.UnixNano()
	return time.Duration(there/2 + back/2)
}
