package rendezvous

import (
	"slices"
	"time"
)

// simSilence is the time after which the simulated streams give a silent peer up.
const simSilence = 10 * time.Second

// part cuts the network: agents of the group reach only each other; both ends of
// a stream that is cut notice after a while.
func (s *sim) part(group []*simAgent) {
	s.logf("the network is cut: %d agents on one side", len(group))
	side := len(s.log) // a number that no other side has
	for _, a := range group {
		s.logf("n%d is cut off", a.id)
		a.side, a.wasCut = side, true
	}
	s.resend()
	for _, a := range group {
		for _, p := range s.pipesOf(a) {
			if p.a.side != p.b.side {
				s.fallSilent(p)
			}
		}
	}
}

// heal makes one network of all agents again; streams that were given up stay so.
func (s *sim) heal() {
	s.logf("the network is whole again")
	for _, a := range s.agents {
		a.side = 0
	}
	s.resend()
	s.noteSound()
}

// resend tries again to deliver what a cut holds up.
func (s *sim) resend() {
	stuck := s.stuck
	s.stuck = nil
	for _, arrive := range stuck {
		arrive()
	}
}

// fallSilent ends a stream on which nothing moves any more.
func (s *sim) fallSilent(p *pipe) {
	s.noteSilence(p)
	s.after(simSilence, func() {
		if p.closed || p.a.side == p.b.side && !p.a.frozen && !p.b.frozen {
			return
		}
		p.closed = true
		for i, o := range []*simAgent{p.a, p.b} {
			conn := []Conn{p.ca, p.cb}[i]
			s.after(s.delay(), func() { s.step(o, Closed{Conn: conn, Silent: true, Text: "silent"}) })
		}
	})
}

// freeze stops an agent for a while, as a swapping machine does; its workers
// go on, and what happens to it waits.
func (s *sim) freeze(a *simAgent, d time.Duration) {
	if a.crashed || a.outcome != nil || a.frozen {
		return
	}
	s.logf("n%d freezes for %v", a.id, d)
	a.frozen, a.thawed = true, true
	for _, p := range s.pipesOf(a) {
		s.fallSilent(p)
	}
	s.after(d, func() {
		s.logf("n%d thaws", a.id)
		a.frozen, a.woken = false, s.now
		held := a.held
		a.held = nil
		for _, e := range held {
			if c, ok := e.(Closed); ok && d >= simSilence/5 { // package control knows that it was away
				c.Clean, c.Silent = false, true
				e = c
			}
			s.step(a, e)
		}
		s.tick(a)
		s.noteSound()
	})
}

// leap moves an agent's own clock forward.
func (s *sim) leap(a *simAgent, d time.Duration) {
	s.logf("n%d's clock jumps by %v", a.id, d)
	a.ahead += d
	if !a.crashed && a.outcome == nil {
		s.tick(a)
	}
}

// reset breaks one stream between two agents that both live.
func (s *sim) reset(a *simAgent) {
	ps := s.pipesOf(a)
	if len(ps) == 0 {
		return
	}
	p := ps[s.rng.IntN(len(ps))]
	s.logf("the stream between n%d and n%d breaks", p.a.id, p.b.id)
	p.closed = true
	for i, o := range []*simAgent{p.a, p.b} {
		conn := []Conn{p.ca, p.cb}[i]
		at := s.now.Add(s.delay())
		if r := p.ready[1-i]; at.Before(r) { // not before it was open
			at = r
		}
		s.after(at.Sub(s.now), func() { s.step(o, Closed{Conn: conn, Text: "connection reset"}) })
	}
}

// join starts one more agent; i is its node's number.
func (s *sim) join(c simConfig, i int) *simAgent {
	a := s.add(c, i)
	s.logf("n%d starts on node %d", a.id, i)
	s.boot(a)
	s.announce()
	return a
}

// checkSplit: worlds that follow each other share a node, unless its agents
// are dead. Two that share none are two jobs.
func (s *sim) checkSplit(w World, digest string) {
	if slices.ContainsFunc(s.worlds, func(v World) bool { return v.Digest() == digest }) {
		return
	}
	for _, v := range s.worlds {
		apart := !slices.ContainsFunc(s.worlds, func(o World) bool { // nothing between them
			return v.Round < o.Round && o.Round < w.Round || w.Round < o.Round && o.Round < v.Round
		})
		for _, m := range v.Members {
			apart = apart && w.Index(m.ID) < 0
		}
		alive := slices.ContainsFunc(s.agents, func(a *simAgent) bool {
			return v.Index(a.node.ID) >= 0 && !a.crashed && a.outcome == nil
		})
		if apart && alive {
			s.fatalf("round %d (restart %d) and round %d (restart %d) have no node in common", v.Round, v.Restart, w.Round, w.Restart)
		}
	}
	s.worlds = append(s.worlds, w)
}
