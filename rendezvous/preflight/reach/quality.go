package reach

import (
	"fmt"

	"github.com/gorun/gorun/rendezvous/preflight"
)

// qualityRules returns I15 and I16: how well the paths between nodes transport
// data.
func qualityRules() []preflight.Rule {
	return []preflight.Rule{
		{
			ID: "I15", Name: "packet-loss", Severity: preflight.Warning,
			Meaning: "No packets get lost between the nodes; if 64 KiB do not arrive within 3 s, it is an error.",
			Symptom: "A job that is many times slower than it should be; time-outs at random.",
			Steps: []preflight.Step{
				preflight.ByHand.Step("ask the administrator of the network to look for errors and drops at the switches' ports between the nodes, and at cables and transceivers; or choose another interface with --iface"),
				preflight.ToShow.Step("what the nodes count", "ip -s -s link; nstat -az TcpRetransSegs"),
			},
			Check: checkLoss,
		},
		{
			ID: "I16", Name: "slow-path", Severity: preflight.Warning,
			Meaning: "The path between nodes carries 25 Mbit/s; if 64 KiB do not arrive within 3 s, it is an error.",
			Symptom: "A slow job: every collective waits for the slowest path.",
			Steps: []preflight.Step{
				preflight.ByHand.Step("ask the administrator of the network what limits the rate between the nodes, or choose another interface with --iface"),
				preflight.ToShow.Step("what limits it on the nodes themselves", "tc -s qdisc; ip -s link"),
			},
			Check: checkRate,
		},
	}
}

const (
	// enoughTries is how many connections of a path must have lost no packet
	// before the path counts as free of loss.
	enoughTries = 6
	// enoughLosses is how many connections must have lost packets. One
	// connection may have lost some because a machine was busy for a moment.
	enoughLosses = 2
	// enoughShare is the limit of loss: one of so many segments must have got
	// lost.
	enoughShare = 50
)

// quality is how well a path transports data.
type quality struct {
	tries, losses int              // connections, and the connections that sent something again
	sent, resent  int              // segments
	mbit          float64          // the slowest rate that was measured; 0: no path was too slow
	ended         preflight.Result // Slow or Lossy if that ended a connection, Slow before Lossy
}

// slow reports whether the path is too slow. Packets that overflow its queue
// are lost, too.
func (q *quality) slow() bool { return q.ended == preflight.Slow || q.mbit > 0 }

// lossy reports whether the path loses packets although it is not slow.
func (q *quality) lossy() bool {
	return !q.slow() && (q.ended == preflight.Lossy || q.losses >= enoughLosses && q.resent*enoughShare >= q.sent)
}

// measure sums up the connections of a path. Behind a firewall that closes
// ports, segments without an answer say nothing about loss.
func (p *path) measure(filtered bool) {
	for _, x := range p.probes {
		if !x.Result.Passed() || x.Result == preflight.Stalled { // what a path does not pass is sent again, too
			continue
		}
		lost := x.Resent
		if filtered {
			lost -= x.Silent
		}
		p.tries++
		if lost > 0 {
			p.losses++
		}
		p.sent, p.resent = p.sent+x.Sent, p.resent+lost
		if x.Mbit > 0 && (p.mbit == 0 || x.Mbit < p.mbit) {
			p.mbit = x.Mbit
		}
		if x.Result == preflight.Slow || x.Result == preflight.Lossy && p.ended == "" {
			p.ended = x.Result
		}
	}
}

// isDueToPath reports whether a probe failed because the path is slow or loses
// packets in one of the directions, while other probes passed. Then the port is
// not closed.
func (p *path) isDueToPath(x *preflight.Probe) bool {
	if p.tries == 0 || x.Result != preflight.Failed && x.Result != preflight.TimedOut {
		return false
	}
	slow := p.slow() || p.back != nil && p.back.slow()
	lossy := p.lossy() || p.back != nil && p.back.lossy()
	return slow || lossy && x.Result == preflight.Failed
}

// isPoor reports whether a probe saw loss or a slow path.
func isPoor(p *preflight.Probe) bool {
	return p.Resent > 0 || p.Mbit > 0 || p.Result == preflight.Lossy || p.Result == preflight.Slow
}

// withResult returns a copy of a path's first probe, with the result of the
// path as a whole.
func (p *path) withResult(r preflight.Result) *preflight.Probe {
	x := *p.probes[0]
	x.Result = r
	return &x
}

// checkLoss applies I15.
func checkLoss(f *preflight.Fleet) []preflight.Finding {
	m := matrixOf(f, isPoor)
	if m == nil {
		return nil
	}
	worst, severity := &quality{}, preflight.Warning
	e := m.classify(func(p *path) (*preflight.Probe, bool) {
		switch {
		case p.ambiguous: // I06 covers it
			return nil, false
		case p.lossy():
			if p.resent*max(worst.sent, 1) > worst.resent*p.sent {
				worst = &p.quality
			}
			if p.ended == preflight.Lossy {
				severity = preflight.Error
			}
			return p.withResult(preflight.Lossy), true
		case p.slow(), p.losses > 0, p.tries < enoughTries:
			return nil, false
		}
		return p.probes[0], false
	})
	what := "The cause may be a bad cable, a port with errors, an overloaded switch or a firewall that limits the rate. Training would be many times slower, or time out"
	if worst.resent > 0 {
		what = fmt.Sprintf("Of %d segments that one node sent to another, %d had to be sent again. ", worst.sent, worst.resent) + what
	}
	return withSeverity(e.finding(losing(), what), severity)
}

// checkRate applies I16.
func checkRate(f *preflight.Fleet) []preflight.Finding {
	m := matrixOf(f, isPoor)
	if m == nil {
		return nil
	}
	rate, severity := 0.0, preflight.Warning
	e := m.classify(func(p *path) (*preflight.Probe, bool) {
		switch {
		case p.ambiguous, p.lossy(): // I06 and I15 cover these
			return nil, false
		case p.slow():
			if p.mbit > 0 && (rate == 0 || p.mbit < rate) {
				rate = p.mbit
			}
			if p.ended == preflight.Slow {
				severity = preflight.Error
			}
			return p.withResult(preflight.Slow), true
		}
		return p.first(func(x *preflight.Probe) bool { return x.Large && x.Result == preflight.OK }), false
	})
	what := "Packets wait in a queue, and every collective would wait for them"
	if rate > 0 {
		what = fmt.Sprintf("%.2g Mbit/s were seen. ", rate) + what
	}
	return withSeverity(e.finding(crawling(), what), severity)
}

func withSeverity(found []preflight.Finding, s preflight.Severity) []preflight.Finding {
	for i := range found {
		found[i].Severity = s
	}
	return found
}
