package rendezvous

import (
	"slices"
)

// tick moves the round on as far as the seats and the time allow.
func (c *coordinator) tick() {
	now := c.m.now
	late := !c.deadline.IsZero() && !now.Before(c.deadline)
	switch c.phase {
	case recovering:
		if late || c.final || c.allBack() {
			c.resume()
		}
	case forming:
		c.form(late)
	case checking:
		if late {
			c.expire()
		} else {
			c.examine()
		}
	case proposing:
		switch {
		case c.all(func(s *chair) bool { return s.accepted }):
			switch {
			case c.exam != nil && c.exam.passed != nil:
				c.announce(*c.exam.passed)
			case c.m.cfg.Fenced:
				c.seal()
			default:
				c.commit()
			}
		case late:
			c.expire()
		}
	case sealing:
		if late {
			c.expire()
		}
	case executing:
		if c.all(func(s *chair) bool { return s.done }) {
			c.record(nil)
			c.announce(Outcome{Rounds: c.records})
		} else if c.grows() {
			c.grow()
		}
	case halting:
		if c.all(func(s *chair) bool { return s.over }) {
			c.conclude()
		}
	case decided:
		blind := c.took && c.m.cfg.Fenced && !c.m.whole // it does not know yet who else waits
		if late || len(c.seats) == 0 && len(c.away) == 0 && !blind {
			for _, s := range slices.Clone(c.seats) {
				c.leave(s)
			}
			c.m.finish(*c.outcome)
		}
	}
	if c.m.coord != c || c.phase == decided || now.Before(c.statusAt) || c.phase == executing && !c.queued() {
		return
	}
	c.statusAt = now.Add(statusEvery)
	c.tellStatus()
	if c.phase != executing {
		c.gather()
	}
}

// tellStatus tells the nodes that wait what they wait for.
func (c *coordinator) tellStatus() {
	st := c.status()
	for _, s := range c.seats {
		if c.phase != executing || !s.inWorld {
			c.send(s, Message{Type: MsgStatus, Status: st})
		}
	}
}

// allBack: every member of the last world that is not known to be dead is here.
func (c *coordinator) allBack() bool {
	here := c.present()
	return !slices.ContainsFunc(c.world.Members, func(p Member) bool { return !here[p.ID] && !c.dead[p.ID] })
}

// present are the nodes that have a seat.
func (c *coordinator) present() map[NodeID]bool {
	here := make(map[NodeID]bool, len(c.seats))
	for _, s := range c.seats {
		here[s.node.ID] = true
	}
	return here
}

// resume: the survivors of a lost coordinator are here. Their round is over; a
// world that was committed nowhere is only burnt.
func (c *coordinator) resume() {
	for i, p := range c.world.Members {
		if c.seatOf(p.ID) == nil {
			c.add(Cause{
				Kind: KindLost, Node: p.ID, Host: p.Host, Addr: p.Addr, GroupRank: i, Rank: -1, LocalRank: -1,
				Message: "it was not among the nodes that were left after the loss of the coordinator", Time: c.m.now,
			})
		}
	}
	if len(c.failures) == 0 { // everyone is back, but nobody knows what the lost coordinator had decided
		c.add(c.m.here(KindLost, "the coordinator's connection broke"))
	}
	c.abort(false)
}

func (c *coordinator) seatOf(id NodeID) *chair {
	for _, s := range c.seats {
		if s.node.ID == id && s.inWorld {
			return s
		}
	}
	return nil
}

// conclude: no worker of the round lives any more.
func (c *coordinator) conclude() {
	cause := c.first()
	c.record(&cause)
	// The job is to end, whatever came first; or a node cannot start workers.
	over := slices.ContainsFunc(c.failures, func(f failure) bool { return f.final() || f.Kind == KindStart })
	counts := !cause.moves()
	if over || c.final || counts && c.restart >= c.maxRestarts {
		c.decide()
		return
	}
	if counts {
		c.restart++
	}
	c.round++
	if c.release() {
		return
	}
	c.enter(forming, c.m.cfg.Join)
	for _, s := range c.seats {
		s.inWorld = false
	}
	st := c.status() // also tells the members that the last round is settled
	for _, s := range c.seats {
		c.send(s, Message{Type: MsgStatus, Status: st})
	}
	c.failures = nil
}

// decide ends the job with its cause.
func (c *coordinator) decide() {
	cause := c.verdict()
	o := Outcome{Code: cause.Code(), Cause: &cause, Rounds: c.records}
	if c.phase == proposing && c.exam != nil && c.exam.passed != nil { // a program cannot be started
		o.Preflight = c.exam.passed.Preflight
	}
	texts := budget(maxTexts)
	for _, f := range c.failures {
		o.Failures = append(o.Failures, texts.spend(f.Cause))
	}
	c.announce(o)
}

// announce tells everyone how the job ended.
func (c *coordinator) announce(o Outcome) {
	c.outcome = &o
	c.unseal()
	c.enter(decided, ackTimeout)
	c.gather()
	for _, s := range slices.Clone(c.seats) {
		c.send(s, Message{Type: MsgFinish, Outcome: c.outcome})
	}
}
