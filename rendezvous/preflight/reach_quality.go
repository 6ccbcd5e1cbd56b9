package preflight

import (
	"fmt"
	"slices"
)

// qualityRules are I15 and I16: how well the ways between nodes carry what is sent.
func qualityRules() []Rule {
	return []Rule{
		{
			ID: "I15", Name: "packet-loss", Severity: Warning,
			Meaning: "No packets get lost between the nodes; an error where 64 KiB did not arrive within 3 s.",
			Users:   "A job that is many times slower than it should be; time-outs at random.",
			Steps: []Step{
				byHand("ask the administrator of the network to look for errors and drops at the switches' ports between the nodes, and at cables and transceivers; or choose another interface with --iface"),
				toLook("what the nodes themselves count", "ip -s -s link; nstat -az TcpRetransSegs"),
			},
			Check: checkLoss,
		},
		{
			ID: "I16", Name: "slow-path", Severity: Warning,
			Meaning: "The way between the nodes carries 25 Mbit/s; an error where 64 KiB did not arrive within 3 s.",
			Users:   "A slow job: every collective waits for the slowest path.",
			Steps: []Step{
				byHand("ask the administrator of the network what limits the rate between the nodes, or choose another interface with --iface"),
				toLook("what limits it on the nodes themselves", "tc -s qdisc; ip -s link"),
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
func (f *Fleet) qualities() map[way]*quality {
	poor := func(p Probe) bool { return p.Resent > 0 || p.Mbit > 0 || p.Result == Lossy || p.Result == Slow }
	if !slices.ContainsFunc(f.Probes, poor) {
		return nil
	}
	out, filtered := map[way]*quality{}, f.filtered()
	for p := range f.tries {
		q := out[wayOf(p)]
		if q == nil {
			q = &quality{}
			out[wayOf(p)] = q
		}
		if !passed(p.Result) || p.Result == Stalled { // what no path carries is sent again, too
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
		q.slow, q.lossy = q.slow || p.Result == Slow, q.lossy || p.Result == Lossy
	}
	return out
}

// filtered are the addresses of which some ports can be connected to, and others
// cannot.
func (f *Fleet) filtered() map[string]bool {
	out, open := map[string]bool{}, map[string]bool{}
	for p := range f.tries {
		if passed(p.Result) {
			open[hostOf(p.Target)] = true
		}
	}
	for p := range f.tries {
		if failed(p.Result) && p.Result != Failed && open[hostOf(p.Target)] {
			out[hostOf(p.Target)], out[hostOf(p.Source)] = true, true
		}
	}
	return out
}

// excused tells of probes that failed on a path which carried others, but is
// slow or loses packets, in this or the other direction: that is no closed port.
func (f *Fleet) excused() func(*Probe) bool {
	ways := f.qualities()
	return func(p *Probe) bool {
		w := wayOf(p)
		q, back := ways[w], ways[way{w.to, w.from, w.target, w.source}]
		if q == nil || q.tries == 0 || p.Result != Failed && p.Result != TimedOut {
			return false
		}
		slow := q.isSlow() || back != nil && back.isSlow()
		lossy := q.isLossy() || back != nil && back.isLossy()
		return slow || lossy && p.Result == Failed
	}
}

// poor is the fleet in which every connection of a path ended as the path is.
func (f *Fleet) poor(ways map[way]*quality) *Fleet {
	g := *f
	g.Probes = slices.Clone(f.Probes)
	for p := range g.tries {
		switch q := ways[wayOf(p)]; {
		case q.isSlow():
			p.Result = Slow
		case q.isLossy():
			p.Result = Lossy
		}
	}
	return &g
}

// poorly completes findings about such a fleet.
func poorly(found []Finding, s Severity) []Finding {
	for i := range found {
		found[i].Severity, found[i].Fix = s, ""
	}
	return found
}

// checkLoss is I15.
func checkLoss(f *Fleet) []Finding {
	ways := f.qualities()
	if ways == nil {
		return nil
	}
	g, doubtful := f.poor(ways), f.doubtful()
	worst, severity := &quality{}, Warning
	evidence := g.weigh(func(p *Probe) verdict {
		q := ways[wayOf(p)]
		switch {
		case doubtful(p): // I06
			return ignored
		case q.isLossy():
			if q.resent*max(worst.sent, 1) > worst.resent*q.sent {
				worst = q
			}
			if q.lossy {
				severity = Error
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
	return poorly(g.accuse(evidence, losing(), what), severity)
}

// checkRate is I16.
func checkRate(f *Fleet) []Finding {
	ways := f.qualities()
	if ways == nil {
		return nil
	}
	g, doubtful := f.poor(ways), f.doubtful()
	rate, severity := 0.0, Warning
	evidence := g.weigh(func(p *Probe) verdict {
		q := ways[wayOf(p)]
		switch {
		case doubtful(p): // I06
			return ignored
		case q.isSlow():
			if q.mbit > 0 && (rate == 0 || q.mbit < rate) {
				rate = q.mbit
			}
			if q.slow {
				severity = Error
			}
			return bad
		case p.Large && p.Result == OK:
			return good
		}
		return ignored
	})
	what := "What is sent waits in a queue, and every collective would wait for it"
	if rate > 0 {
		what = fmt.Sprintf("%.2g Mbit/s were seen. ", rate) + what
	}
	return poorly(g.accuse(evidence, crawling(), what), severity)
}
