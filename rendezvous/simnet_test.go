package rendezvous

import (
	"slices"
	"time"
)

type pipe struct {
	a, b   *simAgent
	ca, cb Conn
	ready  [2]time.Time // earliest arrival of the next message, by direction
	closed bool
	quiet  [2]bool // its ends know that nothing comes
}

func (s *sim) dial(a *simAgent, addr string) { s.dialUntil(a, addr, s.now.Add(2*time.Second)) }

func (s *sim) dialUntil(a *simAgent, addr string, end time.Time) {
	i := slices.IndexFunc(s.agents, func(o *simAgent) bool { return o.node.Control == addr })
	b := s.agents[i]
	switch {
	case a == b:
		s.fatalf("n%d dials itself", a.id)
	case a.side != b.side || b.frozen:
		if s.now.Before(end) {
			s.after(10*time.Millisecond, func() { s.dialUntil(a, addr, end) })
			return
		}
		s.step(a, DialFailed{Addr: addr, Text: "timed out"})
	case b.crashed || b.outcome != nil:
		s.after(s.delay(), func() { s.step(a, DialFailed{Addr: addr, Refused: true, Text: "refused"}) })
	default:
		s.conns += 2
		p := &pipe{a: a, b: b, ca: s.conns - 1, cb: s.conns}
		s.pipes[p.ca], s.pipes[p.cb] = p, p
		d := s.delay()
		p.ready[1] = s.now.Add(d)
		s.after(d, func() { s.step(a, Dialed{Addr: addr, Conn: p.ca}) })
	}
}

func (s *sim) pipesOf(a *simAgent) []*pipe {
	var out []*pipe
	for c := Conn(1); c <= s.conns; c += 2 {
		if p := s.pipes[c]; p != nil && !p.closed && (p.a == a || p.b == a) {
			out = append(out, p)
		}
	}
	return out
}

func (s *sim) send(a *simAgent, c Conn, msg Message) {
	p := s.pipes[c]
	if p == nil || p.closed {
		return
	}
	if msg.Type == MsgAccept {
		if s.accepts[msg.Digest] == nil {
			s.accepts[msg.Digest] = map[NodeID]bool{}
		}
		s.accepts[msg.Digest][a.node.ID] = true
	}
	to, conn, dir := p.b, p.cb, 0
	if a == p.b {
		to, conn, dir = p.a, p.ca, 1
	}
	if msg.Type == MsgFinish && a.m.coord != nil && msg.Outcome != a.m.coord.job.outcome {
		to.left = true
	}
	at := s.now.Add(s.delay())
	if at.Before(p.ready[dir]) { // streams keep their order
		at = p.ready[dir]
	}
	p.ready[dir] = at
	held := false
	var arrive func()
	arrive = func() {
		switch {
		case held && p.closed: // given up
		case p.a.side == p.b.side:
			s.step(to, Received{Conn: conn, Msg: msg})
		default: // it is sent again until it arrives
			held = true
			s.stuck = append(s.stuck, arrive)
		}
	}
	s.after(at.Sub(s.now), arrive)
	if s.dups > 0 && s.rng.IntN(s.dups) == 0 {
		late := time.Duration(0)
		if s.rng.IntN(2) == 0 {
			late = time.Duration(s.rng.IntN(500)) * time.Millisecond
		}
		s.after(at.Sub(s.now)+late, func() {
			if !p.closed && p.a.side == p.b.side && !held {
				s.step(to, Received{Conn: conn, Msg: msg})
			}
		})
	}
}

func (s *sim) hangUp(a *simAgent, c Conn, clean bool, text string) {
	if p := s.pipes[c]; p != nil && !p.closed {
		s.breakPipe(p, a, clean, text)
	}
}

// breakPipe ends a stream; the side that is not by hears of it after what was sent.
func (s *sim) breakPipe(p *pipe, by *simAgent, clean bool, text string) {
	p.closed = true
	other, conn, dir := p.b, p.cb, 0
	if by == p.b {
		other, conn, dir = p.a, p.ca, 1
	}
	at := s.now.Add(s.delay())
	if at.Before(p.ready[dir]) {
		at = p.ready[dir]
	}
	s.after(at.Sub(s.now), func() {
		if p.a.side == p.b.side {
			s.step(other, Closed{Conn: conn, Clean: clean, Text: text})
			return
		}
		s.after(simSilence, func() { s.step(other, Closed{Conn: conn, Silent: true, Text: "silent"}) })
	})
}
