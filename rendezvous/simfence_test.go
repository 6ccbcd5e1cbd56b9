package rendezvous

import (
	"fmt"
	"slices"
	"time"
)

// simClient is an agent's connection to the store.
type simClient struct {
	cut       bool
	confirmed time.Time // by the agent's own clock
	unconfirmed    bool
	known     *simRecord // heard of last
	leads     bool
	vacated   int
	serial    int // of the Seal that goes on, 0: none
	version   int // of what was heard last
	peers     string
	sealed    string
	resigned  bool
}

// connect makes an agent's membership.
func (s *sim) connect(a *simAgent) {
	a.client = &simClient{confirmed: a.clock(s), vacated: -1}
	var renew func()
	renew = func() {
		if a.crashed || a.client.resigned {
			return
		}
		s.confirm(a)
		s.doubt(a)
		s.after(s.store.ttl/4, renew)
	}
	s.after(s.delay(), renew)
}

// when does something at the agent as soon as its process can act.
func (s *sim) when(a *simAgent, do func()) {
	switch {
	case a.crashed:
	case a.frozen:
		s.after(10*time.Millisecond, func() { s.when(a, do) })
	default:
		do()
	}
}

// doubt tells the agent that its membership may end, by its own clock.
func (s *sim) doubt(a *simAgent) {
	c := a.client
	limit := s.store.ttl * 8 / 10
	s.when(a, func() {
		left := limit - a.clock(s).Sub(c.confirmed)
		switch {
		case c.unconfirmed || c.resigned:
		case left <= 0:
			c.unconfirmed = true
			s.logf("n%d is not confirmed any more", a.id)
			s.step(a, Unconfirmed{On: true, Text: "the store does not answer"})
		case left < s.store.ttl/4:
			s.after(left, func() { s.doubt(a) })
		}
	})
}

func (s *sim) reaches(a *simAgent) bool { return !s.store.down && !a.client.cut }

// request sends something to the store and brings its answer back; either may be lost.
func (s *sim) request(a *simAgent, at func() func()) {
	s.when(a, func() {
		d := s.delay()
		if s.rng.IntN(20) == 0 {
			d += time.Duration(s.rng.IntN(1000)) * time.Millisecond
		}
		s.after(d, func() {
			if !s.reaches(a) || s.rng.IntN(50) == 0 {
				return
			}
			answer := at()
			s.after(s.delay(), func() {
				if s.reaches(a) && s.rng.IntN(50) > 0 && answer != nil {
					s.when(a, answer)
				}
			})
		})
	})
}

// confirm renews the membership and takes in what the store shows.
func (s *sim) confirm(a *simAgent) {
	c, st := a.client, s.store
	s.when(a, func() {
		sent := a.clock(s)
		s.request(a, func() func() {
			if a.crashed || c.resigned {
				return nil
			}
			e := st.find(a.node.ID)
			if e == nil {
				e = &simEntry{a: a, vacated: -1}
				st.entries = append(st.entries, e)
				s.changed()
			}
			e.ends = s.now.Add(st.ttl)
			s.after(st.ttl, s.sweep)
			if e.vacated != c.vacated {
				e.vacated = c.vacated
				s.changed()
			}
			version, view, record := st.version, st.view(a), st.record
			return func() { s.heard(a, sent, version, view, record) }
		})
	})
}

func (s *sim) heard(a *simAgent, sent time.Time, version int, view Peers, record *simRecord) {
	c := a.client
	if sent.After(c.confirmed) {
		c.confirmed = sent
	}
	if c.unconfirmed && a.clock(s).Sub(c.confirmed) < s.store.ttl*8/10 {
		c.unconfirmed = false
		s.step(a, Unconfirmed{})
	}
	if version < c.version {
		return
	}
	c.version = version
	if text := fmt.Sprint(view); text != c.peers {
		c.peers = text
		s.step(a, view)
	}
	if c.known = record; record != nil && fmt.Sprint(record.where) != c.sealed {
		c.sealed = fmt.Sprint(record.where)
		s.step(a, record.where)
	}
}

// changed: the store's content did. Who watches it hears of that.
func (s *sim) changed() {
	st := s.store
	st.tidy()
	st.version++
	for _, a := range s.agents {
		if a.client == nil || a.crashed || a.client.resigned {
			continue
		}
		s.after(s.delay(), func() {
			if !s.reaches(a) || st.find(a.node.ID) == nil {
				return // hears of it with its next confirmation
			}
			version, view, record := st.version, st.view(a), st.record
			s.when(a, func() { s.heard(a, time.Time{}, version, view, record) })
		})
	}
}

// resign ends an agent's membership, if the store can be told.
func (s *sim) resign(a *simAgent) {
	a.client.resigned = true
	s.request(a, func() func() {
		s.store.entries = slices.DeleteFunc(s.store.entries, func(e *simEntry) bool { return e.a == a })
		s.changed()
		return nil
	})
}

// acts reports whether an agent's process could act for the last while.
func (s *sim) acts(a *simAgent) bool {
	return !a.crashed && !a.frozen && (!a.thawed || s.now.Sub(a.woken) > time.Second)
}

// checkLeftOut: nothing is sealed while a node that it leaves out runs workers.
func (s *sim) checkLeftOut(w *World) {
	for _, o := range s.agents {
		if r := o.running; s.acts(o) && r != nil && !o.done && (r.Job != w.Job || r.Round != w.Round) {
			s.fatalf("round %d is sealed while n%d runs round %d", w.Round, o.id, r.Round)
		}
	}
}

// checkFenced: where a world starts, no node at all runs another one.
func (s *sim) checkFenced(a *simAgent, w World, digest string) {
	for _, o := range s.agents {
		if r := o.running; o != a && s.acts(a) && s.acts(o) && r != nil && !o.done && r.Digest() != digest {
			s.fatalf("n%d starts round %d while n%d runs round %d", a.id, w.Round, o.id, r.Round)
		}
	}
}

// simHush is the time after which a silent stream is reported as such.
const simHush = 2 * time.Second

// noteSilence reports at both ends of a stream that nothing comes, if that lasts.
func (s *sim) noteSilence(p *pipe) {
	if s.store == nil {
		return
	}
	for i, o := range []*simAgent{p.a, p.b} {
		conn := []Conn{p.ca, p.cb}[i]
		s.after(simHush+time.Duration(s.rng.IntN(100))*time.Millisecond, func() {
			if p.closed || p.quiet[i] || p.a.side == p.b.side && !p.a.frozen && !p.b.frozen {
				return
			}
			p.quiet[i] = true
			s.step(o, Silence{Conn: conn, On: true})
		})
	}
}

// noteSound reports that something comes again.
func (s *sim) noteSound() {
	if s.store == nil {
		return
	}
	for c := Conn(1); c <= s.conns; c += 2 {
		p := s.pipes[c]
		if p == nil || p.closed || p.a.side != p.b.side || p.a.frozen || p.b.frozen {
			continue
		}
		for i, o := range []*simAgent{p.a, p.b} {
			if p.quiet[i] {
				p.quiet[i] = false
				conn := []Conn{p.ca, p.cb}[i]
				s.after(s.delay(), func() { s.step(o, Silence{Conn: conn}) })
			}
		}
	}
}
