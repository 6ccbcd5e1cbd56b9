package rendezvous

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// failure is a Cause with the coordinator's own idea of when it happened.
type failure struct {
	Cause
	at time.Time
}

// failed: a member says that the round, or the job, cannot go on.
func (c *coordinator) failed(s *chair, msg Message, current bool) {
	if len(msg.Failures) == 0 || c.phase == decided {
		return
	}
	ends := slices.ContainsFunc(msg.Failures, func(f Cause) bool { return f.final() })
	switch {
	case ends && !s.inWorld && !ordered(msg.Failures) && (c.offering() || c.phase == executing || c.phase == halting):
		f := msg.Failures[0] // it only waited for a place: the job goes on without it
		c.send(s, Message{Type: MsgFinish, Outcome: parting(&f)})
	case s.leaving != nil:
	case ends && c.spares(s, msg):
		c.leaves(s, msg.Failures[0])
	case c.phase == executing && (current || ends), c.phase == halting && (current || ends):
		c.add(msg.Failures...)
		c.abort(msg.Kill)
	case (c.phase == proposing || c.phase == sealing) && current, ends && c.phase != recovering:
		c.failures = nil
		c.add(msg.Failures...)
		c.decide()
	case ends:
		c.add(msg.Failures...)
	}
}

// add notes failures once each, with the time at which they happened by this
// agent's clock.
func (c *coordinator) add(fs ...Cause) {
	for _, f := range fs {
		f = f.bounded()
		same := func(o failure) bool {
			return o.Kind == f.Kind && o.Node == f.Node && o.Rank == f.Rank
		}
		at := c.m.now.Add(-max(0, f.Age))
		if i := slices.IndexFunc(c.failures, same); i >= 0 {
			c.failures[i].Cause = f // the later telling knows more (the end of stderr)
			continue
		}
		c.failures = append(c.failures, failure{f, at})
	}
	if len(c.failures) > maxFailures {
		slices.SortStableFunc(c.failures, func(a, b failure) int {
			if a.Consequence != b.Consequence {
				return map[bool]int{false: -1, true: 1}[a.Consequence]
			}
			return a.at.Compare(b.at)
		})
		c.failures = c.failures[:maxFailures]
	}
}

// first is the round's cause: the earliest failure that is not the consequence
// of another one. That a node came or left is no failure, nor is a witness one.
func (c *coordinator) first() Cause {
	weight := func(f failure) int {
		switch {
		case f.Kind == KindWitness:
			return 3
		case f.moves():
			return 2
		case f.Consequence:
			return 1
		default:
			return 0
		}
	}
	return slices.MinFunc(c.failures, func(a, b failure) int {
		return cmp.Or(cmp.Compare(weight(a), weight(b)), a.at.Compare(b.at))
	}).Cause
}

// abort stops the workers of the round everywhere.
func (c *coordinator) abort(kill bool) {
	if c.phase == halting && !kill {
		return
	}
	if c.phase != halting {
		c.enter(halting, 0)
	}
	cause := c.first()
	c.each(func(s *chair) {
		c.send(s, Message{Type: MsgAbort, Round: c.world.Round, Cause: &cause, Kill: kill})
	})
}

// lost: the stream of a seat ended.
func (c *coordinator) lost(conn Conn, silent bool, text string) {
	s := c.seat(conn)
	if s == nil {
		return
	}
	c.drop(s, silent, text)
	if silent || c.last == nil {
		return
	}
	// A broken stream is a dead agent or a broken connection. Who counts as dead
	// has no vote in who may go on, nor is it waited for with the outcome, so it
	// is called to tell them apart.
	if s.node.Control == "" {
		c.dead[s.node.ID] = true
		return
	}
	c.away[s.node.ID] = true
	c.call(s.node.Control, call{id: s.node.ID, broken: true})
}

// drop takes a seat away and does what its absence demands.
func (c *coordinator) drop(s *chair, silent bool, text string) {
	c.remove(s)
	switch {
	case c.phase == decided:
	case !s.inWorld || c.phase == forming || c.offering():
		next := "the job"
		if c.last != nil {
			next = "the next round"
		}
		c.m.emit(Note{Text: fmt.Sprintf("%s left before %s started: %s", s.node.Name(), next, lostText(silent, text)), Kind: "left"})
		if c.offering() && s.inWorld {
			c.burn()
		}
	case s.over || s.done && c.phase == executing || s.leaving != nil:
		c.gone[s.node.ID] = true
	default:
		i := c.world.Index(s.node.ID)
		c.add(Cause{
			Kind: KindLost, Node: s.node.ID, Host: s.node.Host, Addr: s.node.Addr, GroupRank: i,
			Rank: -1, LocalRank: -1, Message: lostText(silent, text), Time: c.m.now,
		})
		if c.phase == executing {
			c.abort(false)
		}
	}
}
