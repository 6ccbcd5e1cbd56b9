package check

import (
	"encoding/json"
	"runtime"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/gorun/gorun/envprop"
	"github.com/gorun/gorun/launch/spec"
	"github.com/gorun/gorun/rendezvous"
	"github.com/gorun/gorun/rendezvous/preflight"
	"github.com/gorun/gorun/rendezvous/preflight/probe"
	"github.com/gorun/gorun/rendezvous/preflight/rdma"
	"github.com/gorun/gorun/rendezvous/preflight/rules"
)

// Decision is the result of a comparison: the event for the state machine, and what the
// coordinator prints.
type Decision struct {
	rendezvous.Compared
	Warnings string              // table for a job that starts; "": there is none
	Notes    []string            // on the environment of a job that starts
	Findings []preflight.Finding // of a job that starts
}

// Decide decides whether a world may start, and with what environment. It is pure:
// the same facts and answers always lead to the same decision.
func Decide(p *Policy, c rendezvous.Compare) Decision {
	v := Decision{Compared: rendezvous.Compared{Serial: c.Serial}}
	all := unify(p, buildFleet(c), decodeReports(c))
	fleet := all.fleet
	plans := probe.Plans(fleet)
	if c.Answers != nil {
		addAnswers(fleet, plans, c)
	}
	found := runChecks(p, fleet)
	refused := isRefused(p, found)
	switch {
	case refused && c.Questions == 1 && isTransient(found):
		// A node that was busy for some seconds must not end the job.
		if v.Ask = probeQuestions(fleet, plans); v.Ask == nil {
			v.Outcome = refuseOutcome(p, found, fleet)
		}
	case refused && len(c.New) > 0 && len(c.New) < len(fleet.Nodes) && p.Check == nil:
		v.Outcome, v.Only = refuseNewNodes(p, c, all, found)
		if v.Outcome == nil {
			v.Outcome = refuseOutcome(p, found, fleet)
		}
	case c.WorldRuns:
	case c.Answers == nil && p.Preflight != spec.PreflightOff:
		// Run the probes even if the facts already refuse the job, so that one table
		// shows all errors.
		if v.Ask = probeQuestions(fleet, plans); v.Ask == nil && refused {
			v.Outcome = refuseOutcome(p, found, fleet)
		}
	case refused:
		v.Outcome = refuseOutcome(p, found, fleet)
	}
	if v.Outcome != nil || v.Ask != nil || c.WorldRuns {
		return v
	}
	if p.Check != nil {
		v.Outcome = passOutcome(p, found, fleet)
		return v
	}
	var err error
	if v.Env, err = all.encode(); err != nil {
		v.Outcome = refuseOutcome(p, []preflight.Finding{environmentTooLarge(err)}, fleet)
		return v
	}
	v.Findings, v.Notes = found, all.notes
	v.Warnings = preflight.Render(found, fleet.Names(), preflight.Style{})
	return v
}

// runChecks runs the checks. With --preflight off it runs only the check for one
// environment.
func runChecks(p *Policy, f *preflight.Fleet) []preflight.Finding {
	o := preflight.Options{Ignore: p.Ignore}
	if p.Preflight == spec.PreflightOff {
		o.Only = []string{"E01"}
	}
	return preflight.Compare(f, rules.All(), o)
}

// isRefused reports whether these findings refuse the job. With --preflight off they
// do so only with --env-conflict=error.
func isRefused(p *Policy, found []preflight.Finding) bool {
	strict := p.Preflight == spec.PreflightError || p.Check != nil || p.Preflight == spec.PreflightOff && p.Conflict == envprop.ConflictError
	return strict && preflight.Worst(found) == preflight.Error
}

// buildFleet returns the fleet of the facts that the members sent.
func buildFleet(c rendezvous.Compare) *preflight.Fleet {
	f := &preflight.Fleet{Nodes: make([]preflight.Facts, len(c.World.Members)), Master: c.World.Store}
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0))
	for i := range c.World.Members {
		group.Go(func() error {
			f.Nodes[i] = decodeFacts(&c.World.Members[i], c.Facts[i])
			return nil
		})
	}
	_ = group.Wait() // no function of the group fails
	return f
}

// decodeFacts returns the facts that a member sent. If they are not valid, it returns
// what the world knows about the member.
func decodeFacts(m *rendezvous.Member, body []byte) preflight.Facts {
	f, err := preflight.Decode(body)
	if err != nil || f.Node.ID != string(m.ID) {
		f = preflight.Facts{Node: preflight.Node{ID: string(m.ID), Name: m.Name(), Host: m.Host, Addr: m.Addr}}
	}
	f.Node.Workers, f.Node.Offset, f.Node.Within = m.Workers, 0, 0
	return f
}

// addAnswers adds the members' answers to the fleet.
func addAnswers(f *preflight.Fleet, plans []probe.Plan, c rendezvous.Compare) {
	f.Probes = []preflight.Probe{}
	for i, body := range c.Answers {
		var a answer
		if body == nil || json.Unmarshal(body, &a) != nil {
			continue
		}
		if got, err := probe.DecodeReport(a.Probes, plans[i]); err == nil {
			f.Probes = append(f.Probes, got...)
		}
		if a.Received > 0 && a.Sent >= a.Received {
			setClock(&f.Nodes[i].Node, a.offset(c.AskedAt, c.AnsweredAt[i]), a.roundTrip(c.AskedAt, c.AnsweredAt[i]))
		}
	}
	k := c.World.Index(c.World.Coordinator)
	for _, p := range f.Probes {
		round := time.Duration(p.RoundMS * float64(time.Millisecond))
		switch {
		case round <= 0:
		case p.To == k && p.From != k:
			setClock(&f.Nodes[p.From].Node, -time.Duration(p.Ahead), round)
		case p.From == k && p.To != k:
			setClock(&f.Nodes[p.To].Node, time.Duration(p.Ahead), round)
		}
	}
}

// setClock stores the offset of a node's clock to the coordinator's, unless a
// measurement with a shorter round trip already set it.
func setClock(n *preflight.Node, offset, round time.Duration) {
	if within := max(int64(round/2), 1); round >= 0 && (n.Within == 0 || within < n.Within) {
		n.Offset, n.Within = int64(offset), within
	}
}

// probeQuestions returns the plans of the probes, one for each node. It returns nil when
// there is nothing to ask, because all nodes share one machine.
func probeQuestions(f *preflight.Fleet, plans []probe.Plan) []json.RawMessage {
	machines, _ := f.Locate()
	apart := slices.ContainsFunc(machines, func(m int) bool { return m != machines[0] })
	if !apart && !slices.ContainsFunc(plans, func(p probe.Plan) bool { return len(p.Targets) > 0 }) {
		return nil
	}
	var out []json.RawMessage
	for _, p := range plans {
		out = append(out, marshal(p))
	}
	return out
}

// isTransient reports whether a probe found an error. A second probe may not find
// it again.
func isTransient(found []preflight.Finding) bool {
	return slices.ContainsFunc(found, func(x preflight.Finding) bool {
		return x.Severity == preflight.Error && slices.Contains([]string{"I02", "I03", "I04", "I05", "I06", "I15", "I16"}, x.ID)
	})
}

// transport returns what NCCL would use between nodes.
func transport(f *preflight.Facts) (kind, why, err string) {
	code := 0
	if n := f.Libraries.NCCL; n != nil {
		code = n.Code
	}
	return rdma.Transport(f.RDMA, lookup(f.Settings), code)
}
