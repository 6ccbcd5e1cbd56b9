package reach

import (
	"fmt"
	"slices"

	"github.com/gorun/gorun/rendezvous/preflight"
)

// qualityRules are I15 and I16: how well the ways between nodes carry what is sent.
func qualityRules() []preflight.Rule {
	return []preflight.Rule{
		{
			ID: "I15", Name: "packet-loss", Severity: preflight.Warning,
			Meaning: "No packets get lost between the nodes; an error where 64 KiB did not arrive within 3 s.",
			Users:   "A job that is many times slower than it should be; time-outs at random.",
			Steps: []preflight.Step{
				preflight.ByHand.Step("ask the administrator of the network to look for errors and drops at the switches' ports between the nodes, and at cables and transceivers; or choose another interface with --iface"),
				preflight.ToLook.Step("what the nodes themselves count", "ip -s -s link; nstat -az TcpRetransSegs"),
			},
			Check: checkLoss,
		},
		{
			ID: "I16", Name: "slow-path", Severity: preflight.Warning,
			Meaning: "The way between the nodes carries 25 Mbit/s; an error where 64 KiB did not arrive within 3 s.",
			Users:   "A slow job: every collective waits for the slowest path.",
			Steps: []preflight.Step{
				preflight.ByHand.Step("ask the administrator of the network what limits the rate between the nodes, or choose another interface with --iface"),
				preflight.ToLook.Step("what limits it on the nodes themselves", "tc -s qdisc; ip -s link"),
			},
			Check: checkRate,
		},
	}
}

const (
	// enoughTries is how many connections of a path it takes to say that no packet
	// of them got lost.
	enoughTries = 6
	// enoughHits is how many of them must have lost packets: one may have met a
	// machine that was busy for a moment.
	enoughHits = 2
	// enoughShare is one of how many segments must have got lost.
	enoughShare = 50
)

// quality is how well a path carries what is sent.
type quality struct {
	tries, hits  int // connections, and those that sent something again
	sent, resent int // segments
	mbit         float64
	slow, lossy  bool // a connection ended because of it
}

// isSlow tells of a path that is too slow; what overflows its queue is lost, too.
func (q *quality) isSlow() bool { return q.slow || q.mbit > 0 }

func (q *quality) isLossy() bool {
	return !q.isSlow() && (q.lossy || q.hits >= enoughHits && q.resent*enoughShare >= q.sent)
}

// qualities are those of the paths between the nodes; nil when nothing is wrong
// with any: a healthy fleet costs one look at each probe.
func qualities(f *preflight.Fleet) map[way]*quality {
	poor := func(p preflight.Probe) bool {
		return p.Resent > 0 || p.Mbit > 0 || p.Result == preflight.Lossy || p.Result == preflight.Slow
	}
	if !slices.ContainsFunc(f.Probes, poor) {
		return nil
	}
	out, filtered := map[way]*quality{}, filtered(f)
	for p := range f.ValidProbes {
		q := out[wayOf(p)]
		if q == nil {
			q = &quality{}
			out[wayOf(p)] = q
		}
		if !p.Result.Passed() || p.Result == preflight.Stalled { // what no path carries is sent again, too
			continue
		}
		lost := p.Resent
		if filtered[hostOf(p.Source)] || filtered[hostOf(p.Target)] {
			lost -= p.Silent // a firewall may drop the answers to some ports
		}
		q.tries++
		if lost > 0 {
			q.hits++
		}
		q.sent, q.resent = q.sent+p.Sent, q.resent+lost
		if p.Mbit > 0 && (q.mbit == 0 || p.Mbit < q.mbit) {
			q.mbit = p.Mbit
		}
		q.slow, q.lossy = q.slow || p.Result == preflight.Slow, q.lossy || p.Result == preflight.Lossy
	}
	return out
}

// filtered are the addresses of which some ports can be connected to, and others
// cannot.
func filtered(f *preflight.Fleet) map[string]bool {
	out, open := map[string]bool{}, map[string]bool{}
	for p := range f.ValidProbes {
		if p.Result.Passed() {
			open[hostOf(p.Target)] = true
		}
	}
	for p := range f.ValidProbes {
		if p.Result.Failed() && p.Result != preflight.Failed && open[hostOf(p.Target)] {
			out[hostOf(p.Target)], out[hostOf(p.Source)] = true, true
		}
	}
	return out
}

// excused tells of probes that failed on a path which carried others, but is
// slow or loses packets, in this or the other direction: that is no closed port.
func excused(f *preflight.Fleet) func(*preflight.Probe) bool {
	ways := qualities(f)
	return func(p *preflight.Probe) bool {
		w := wayOf(p)
		q, back := ways[w], ways[way{w.to, w.from, w.target, w.source}]
		if q == nil || q.tries == 0 || p.Result != preflight.Failed && p.Result != preflight.TimedOut {
			return false
		}
		slow := q.isSlow() || back != nil && back.isSlow()
		lossy := q.isLossy() || back != nil && back.isLossy()
		return slow || lossy && p.Result == preflight.Failed
	}
}

// poor is the fleet in which every connection of a path ended as the path is.
func poor(f *preflight.Fleet, ways map[way]*quality) *preflight.Fleet {
	g := *f
	g.Probes = slices.Clone(f.Probes)
	for p := range g.ValidProbes {
		switch q := ways[wayOf(p)]; {
		case q.isSlow():
			p.Result = preflight.Slow
		case q.isLossy():
			p.Result = preflight.Lossy
		}
	}
	return &g
}

// poorly completes findings about such a fleet.
func poorly(found []preflight.Finding, s preflight.Severity) []preflight.Finding {
	for i := range found {
		found[i].Severity, found[i].Fix = s, ""
	}
	return found
}

// checkLoss is I15.
func checkLoss(f *preflight.Fleet) []preflight.Finding {
	ways := qualities(f)
	if ways == nil {
		return nil
	}
	g, doubtful := poor(f, ways), doubtful(f)
	worst, severity := &quality{}, preflight.Warning
	evidence := weigh(g, func(p *preflight.Probe) verdict {
		q := ways[wayOf(p)]
		switch {
		case doubtful(p): // I06
			return ignored
		case q.isLossy():
			if q.resent*max(worst.sent, 1) > worst.resent*q.sent {
				worst = q
			}
			if q.lossy {
				severity = preflight.Error
			}
			return bad
		case q.isSlow(), q.hits > 0, q.tries < enoughTries:
			return ignored
		}
		return good
	})
	what := "A bad cable, a port with errors, an overloaded switch or a firewall that limits does that. Training would be many times slower, or time out"
	if worst.resent > 0 {
		what = fmt.Sprintf("Of %d segments that one node sent to another, %d had to be sent again. ", worst.sent, worst.resent) + what
	}
	return poorly(accuse(g, evidence, losing(), what), severity)
}

// checkRate is I16.
func checkRate(f *preflight.Fleet) []preflight.Finding {
	ways := qualities(f)
	if ways == nil {
		return nil
	}
	g, doubtful := poor(f, ways), doubtful(f)
	rate, severity := 0.0, preflight.Warning
	evidence := weigh(g, func(p *preflight.Probe) verdict {
		q := ways[wayOf(p)]
		switch {
		case doubtful(p): // I06
			return ignored
		case q.isSlow():
			if q.mbit > 0 && (rate == 0 || q.mbit < rate) {
				rate = q.mbit
			}
			if q.slow {
				severity = preflight.Error
			}
			return bad
		case p.Large && p.Result == preflight.OK:
			return good
		}
		return ignored
	})
	what := "What is sent waits in a queue, and every collective would wait for it"
	if rate > 0 {
		what = fmt.Sprintf("%.2g Mbit/s were seen. ", rate) + what
	}
	return poorly(accuse(g, evidence, crawling(), what), severity)
}
