package rendezvous

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// hello seats a newcomer, or says why not.
func (c *coordinator) hello(conn Conn, n Node, last *Last) {
	if c.phase == decided {
		delete(c.away, n.ID)
		c.m.send(conn, false, Message{Type: MsgFinish, Outcome: c.outcome})
		c.seats = append(c.seats, &chair{conn: conn, node: n})
		return
	}
	why := c.refusal(conn, n)
	if why == "" && last != nil && last.World != nil {
		if err := last.World.validate(); err != nil {
			why = fmt.Sprintf("the last world that it tells of makes no sense: %v", err)
		}
	}
	if why != "" {
		c.m.emit(Note{fmt.Sprintf("refused %s: %s", n.Name(), why)})
		c.m.send(conn, false, Message{Type: MsgRefuse, Text: why})
		c.m.emit(Close{conn})
		return
	}
	if i := slices.IndexFunc(c.seats, func(s *chair) bool { return s.node.ID == n.ID }); i >= 0 {
		old := c.seats[i] // it came back before the loss of its old stream was seen
		c.drop(old, false, "it connected again")
		c.m.emit(Close{old.conn})
	}
	s := &chair{conn: conn, node: n}
	c.seats = append(c.seats, s)
	delete(c.dead, n.ID)
	delete(c.away, n.ID)
	if last == nil || last.World == nil {
		return
	}
	s.busy = !last.Over
	c.comeBack(s, last)
	if s.busy && !s.inWorld {
		cause := c.m.here(KindLost, "its round went on without it")
		c.send(s, Message{Type: MsgAbort, Round: last.World.Round, Cause: &cause})
	}
	undecided := c.phase == recovering || c.phase == halting || c.phase == forming
	if last.Outcome != nil && undecided && c.last != nil && c.last.Digest() == last.World.Digest() {
		c.announce(*last.Outcome)
	}
}

// comeBack takes over what a member knows of the last world.
func (c *coordinator) comeBack(s *chair, last *Last) {
	w := last.World
	c.term = max(c.term, w.Term)
	c.round = max(c.round, w.Round)
	switch c.phase {
	case forming:
		c.round = max(c.round, w.Round+1)
		return
	case recovering:
		if last.Started && w.Round > c.world.Round { // sealed, but the commit did not reach this agent
			c.world, c.last = w, w
			for _, o := range c.seats {
				o.inWorld = w.Index(o.node.ID) >= 0
			}
		}
	case halting:
		if w.Digest() != c.world.Digest() {
			return
		}
	case executing: // its workers are done, or this round would have ended with its stream
		if !last.Done || w.Digest() != c.digest {
			return
		}
		s.inWorld, s.done, s.busy = true, true, false
		return
	default:
		return
	}
	s.inWorld = c.world.Index(s.node.ID) >= 0
	s.over, s.done = last.Over, last.Done && w.Digest() == c.world.Digest()
	c.add(last.Failures...)
	c.ends = append(c.ends, last.Ends...)
	if c.phase == halting && !s.over {
		cause := c.first()
		c.send(s, Message{Type: MsgAbort, Round: c.world.Round, Cause: &cause})
	}
}

// refusal is why a node cannot take part; empty if it can.
func (c *coordinator) refusal(conn Conn, n Node) string {
	me := c.m.self
	invalid := n.validate()
	switch {
	case n.Protocol != Protocol:
		return fmt.Sprintf("it speaks protocol %d (gorun %s), this job speaks %d (gorun %s); start the same gorun on every node", n.Protocol, clip(n.Version), Protocol, me.Version)
	case n.RunID != me.RunID:
		return fmt.Sprintf("it belongs to run %q, this is run %q; give both the same --rdzv-id, or another --rdzv-endpoint", clip(n.RunID), me.RunID)
	case invalid != nil:
		return fmt.Sprintf("what it says of itself makes no sense: %v", invalid)
	case n.ID == me.ID && conn != Self:
		return "it uses the id of the coordinator"
	case n.Min != me.Min || n.Max != me.Max:
		return fmt.Sprintf("it was started with --nnodes %s, %s with --nnodes %s", nnodes(n), me.Name(), nnodes(me))
	case n.Endpoint >= max(1, c.m.cfg.Endpoints):
		return fmt.Sprintf("it serves endpoint %d, this job has %d; give every node the same --rdzv-endpoint", n.Endpoint+1, c.m.cfg.Endpoints)
	case n.NodeRank >= me.Max:
		return fmt.Sprintf("its --node-rank %d is not below --nnodes %s", n.NodeRank, nnodes(n))
	}
	for _, s := range c.seats {
		if n.NodeRank >= 0 && s.node.NodeRank == n.NodeRank && s.node.ID != n.ID {
			return fmt.Sprintf("--node-rank %d is taken by %s; give every node a rank of its own", n.NodeRank, s.node.Name())
		}
	}
	members := 0
	for _, s := range c.seats {
		if s.inWorld && s.node.ID != n.ID {
			members++
		}
	}
	if (c.phase == executing || c.phase == proposing) && members >= me.Max {
		return fmt.Sprintf("the job has all of its %d nodes (%s); this one is one too many", me.Max, c.names(func(s *chair) bool { return s.inWorld }))
	}
	return ""
}

func nnodes(n Node) string {
	if n.Min == n.Max {
		return fmt.Sprint(n.Max)
	}
	return fmt.Sprintf("%d:%d", n.Min, n.Max)
}

func (c *coordinator) names(f func(*chair) bool) string {
	return strings.Join(c.list(f), ", ")
}

// list names at most 16 seats.
func (c *coordinator) list(f func(*chair) bool) []string {
	var out []string
	more := 0
	for _, s := range c.seats {
		if !f(s) {
			continue
		}
		if len(out) == 16 {
			more++
			continue
		}
		out = append(out, s.node.Name())
	}
	slices.SortFunc(out, compareNatural)
	if more > 0 {
		out = append(out, fmt.Sprintf("%d more", more))
	}
	return out
}

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
	case proposing:
		switch {
		case c.all(func(s *chair) bool { return s.accepted }):
			c.commit()
		case late:
			c.expire()
		}
	case executing:
		if c.all(func(s *chair) bool { return s.done }) {
			c.record(nil)
			c.announce(Outcome{Rounds: c.records})
		}
	case halting:
		if c.all(func(s *chair) bool { return s.over }) {
			c.conclude()
		}
	case decided:
		if late || len(c.seats) == 0 && len(c.away) == 0 {
			for _, s := range slices.Clone(c.seats) {
				c.leave(s)
			}
			c.m.finish(*c.outcome)
		}
	}
	if c.phase == decided || now.Before(c.statusAt) || c.phase == executing && !c.queued() {
		return
	}
	c.statusAt = now.Add(statusEvery)
	st := c.status()
	for _, s := range c.seats {
		if c.phase != executing || !s.inWorld {
			c.send(s, Message{Type: MsgStatus, Status: st})
		}
	}
	if c.phase != executing {
		c.gather()
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

// form proposes a world as soon as the seats make one.
func (c *coordinator) form(late bool) {
	me := c.m.self
	n := 0
	for _, s := range c.seats {
		if !s.busy {
			n++
		}
	}
	ok := n >= me.Min && c.entitled() == ""
	switch {
	case ok && n >= me.Max:
		c.propose()
	case ok && c.lastCall.IsZero():
		c.lastCall = c.m.now.Add(c.m.cfg.LastCall)
	case ok && !c.m.now.Before(c.lastCall):
		c.propose()
	case !ok:
		c.lastCall = time.Time{}
	}
	if late && c.phase == forming {
		c.expire()
	}
}

// entitled says why these seats may not form a world although they are enough:
// another part of a cut network might form one too. Empty if they may.
func (c *coordinator) entitled() string {
	if c.last == nil {
		served := map[int]bool{}
		for _, s := range c.seats {
			if s.node.Endpoint >= 0 {
				served[s.node.Endpoint] = true
			}
		}
		if len(served)*2 <= c.m.cfg.Endpoints {
			return fmt.Sprintf("only %d of %d endpoints are served by the nodes that came", len(served), c.m.cfg.Endpoints)
		}
		return ""
	}
	alive, here, lowest := 0, 0, false
	present := c.present()
	for _, p := range c.last.Members {
		if c.dead[p.ID] {
			continue
		}
		if alive == 0 {
			lowest = present[p.ID]
		}
		alive++
		if present[p.ID] {
			here++
		}
	}
	if here*2 > alive || here*2 == alive && lowest {
		return ""
	}
	return fmt.Sprintf("only %d of the %d nodes of the last world that may be alive are here; the others may go on without them", here, alive)
}

// propose asks the chosen seats to accept one world.
func (c *coordinator) propose() {
	chosen := slices.DeleteFunc(slices.Clone(c.seats), func(s *chair) bool { return s.busy })
	slices.SortStableFunc(chosen, func(a, b *chair) int { // survivors before newcomers
		return min(oldRank(c.last, a.node.ID), maxNodes) - min(oldRank(c.last, b.node.ID), maxNodes)
	})
	chosen = chosen[:min(len(chosen), c.m.self.Max)]
	var nodes []Node
	for _, s := range c.seats {
		s.inWorld = slices.Contains(chosen, s)
		s.accepted, s.done, s.over = false, false, false
		if s.inWorld {
			nodes = append(nodes, s.node)
		}
	}
	w := newWorld(seat(nodes, c.last), World{
		Term: c.term, Round: c.round, Restart: c.restart, MaxRestarts: c.maxRestarts,
		Coordinator: c.m.self.ID, Token: c.m.cfg.Token(),
	})
	c.world, c.digest, c.failures, c.ends = &w, w.Digest(), nil, nil
	deadline := c.deadline
	c.enter(proposing, 0)
	c.deadline = deadline
	c.each(func(s *chair) { c.send(s, Message{Type: MsgPropose, World: c.world}) })
}

// burn gives a proposal up: its round number is never used again.
func (c *coordinator) burn() {
	deadline := c.deadline
	c.enter(forming, 0)
	c.deadline = deadline
	c.round++
	for _, s := range c.seats {
		s.inWorld = false
	}
}

func (c *coordinator) commit() {
	c.enter(executing, 0)
	c.last, c.began = c.world, c.m.now
	c.each(func(s *chair) {
		c.send(s, Message{Type: MsgCommit, Term: c.term, Round: c.world.Round, Digest: c.digest})
	})
}

func (c *coordinator) record(cause *Cause) {
	c.records = append(c.records, Record{World: *c.world, Started: c.began, Ended: c.m.now, Ends: c.ends, Cause: cause})
}

// conclude: no worker of the round lives any more.
func (c *coordinator) conclude() {
	cause := c.first()
	c.record(&cause)
	again := cause.Kind != KindStopped && cause.Kind != KindStart && !c.final && c.restart < c.maxRestarts
	if slices.ContainsFunc(c.failures, func(f failure) bool { return f.Kind == KindStopped }) {
		again = false // somebody wants the job to end, whatever came first
	}
	if !again {
		c.decide()
		return
	}
	c.restart++
	c.round++
	c.enter(forming, c.m.cfg.Join)
	for _, s := range c.seats {
		s.inWorld = false
	}
	text := fmt.Sprintf("%s; restart %d of %d", cause.Line(), c.restart, c.maxRestarts)
	for _, s := range c.seats {
		st := c.status()
		st.Note = text
		c.send(s, Message{Type: MsgStatus, Status: st})
	}
	c.failures = nil
}

// decide ends the job with the first failure.
func (c *coordinator) decide() {
	cause := c.first()
	o := Outcome{Code: cause.Code(), Cause: &cause, Rounds: c.records}
	for _, f := range c.failures {
		o.Failures = append(o.Failures, f.Cause)
	}
	c.announce(o)
}

// expire: the nodes did not come together in time.
func (c *coordinator) expire() {
	st := c.status()
	text := fmt.Sprintf("%d of %s nodes came within %v: %s", len(c.seats), nnodes(c.m.self), c.m.cfg.Join, strings.Join(st.Here, ", "))
	if len(st.Waiting) > 0 {
		text += "; not ready: " + strings.Join(st.Waiting, ", ")
	}
	if why := c.entitled(); why != "" {
		text += "; " + why
	}
	text += ". Check that gorun was started on the others with the same --rdzv-endpoint and --rdzv-id, and that they reach " + c.m.cfg.Where
	c.failures = nil
	c.add(c.m.here(KindRendezvous, text))
	c.decide()
}

// announce tells everyone how the job ended.
func (c *coordinator) announce(o Outcome) {
	c.outcome = &o
	c.enter(decided, ackTimeout)
	for _, s := range slices.Clone(c.seats) {
		c.send(s, Message{Type: MsgFinish, Outcome: c.outcome})
	}
}

func (c *coordinator) status() *Status {
	st := &Status{
		Phase: c.phase.String(), Min: c.m.self.Min, Max: c.m.self.Max, Here: c.list(func(*chair) bool { return true }),
	}
	if !c.deadline.IsZero() {
		st.Left = c.deadline.Sub(c.m.now)
	}
	switch c.phase {
	case executing:
		st.Here = c.list(func(s *chair) bool { return s.inWorld })
	case proposing:
		st.Waiting = c.list(func(s *chair) bool { return s.inWorld && !s.accepted })
	case halting:
		st.Waiting = c.list(func(s *chair) bool { return s.inWorld && !s.over })
	case forming:
		st.Note = ""
		if len(c.seats) >= c.m.self.Min {
			st.Note = c.entitled()
			if !c.lastCall.IsZero() {
				st.Note = fmt.Sprintf("last call for more nodes: %v", c.lastCall.Sub(c.m.now).Round(time.Second))
			}
		}
	}
	return st
}
