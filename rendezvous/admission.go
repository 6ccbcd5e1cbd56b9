package rendezvous

import (
	"fmt"
	"slices"
)

// hello seats a newcomer, or says why not.
func (c *coordinator) hello(conn Conn, msg Message) {
	n, last := *msg.Node, msg.Last
	if c.phase == decided {
		if c.unproven(conn, n) || !(concerns(n, last, c.last) || msg.Job != "" && msg.Job == c.job) || n.RunID != c.m.self.RunID || n.Protocol != Protocol {
			c.m.send(conn, false, Message{Type: MsgRedirect})
			c.m.emit(Close{conn})
			return
		}
		delete(c.away, n.ID)
		c.m.send(conn, false, Message{Type: MsgFinish, Outcome: c.outcome})
		c.seats = append(c.seats, &chair{conn: conn, node: n})
		return
	}
	why := c.refusal(conn, n, last)
	if why == "" && last != nil && last.World != nil {
		if err := last.World.validate(); err != nil {
			why = fmt.Sprintf("the last world that it tells of makes no sense: %v", err)
		} else if w := last.World; w.RunID != c.m.self.RunID {
			why = fmt.Sprintf("the last world that it tells of is run %q's", clip(w.RunID))
		}
	}
	if why != "" {
		ours := n.RunID == c.m.self.RunID && n.Validate() == nil && (n.Protocol != Protocol || !c.unproven(conn, n))
		c.turnedAway(refusedNode{clip(n.Name()), why, ours})
		c.m.send(conn, false, Message{Type: MsgRefuse, Text: why})
		c.m.emit(Close{conn})
		return
	}
	if i := slices.IndexFunc(c.seats, func(s *chair) bool { return s.node.ID == n.ID }); i >= 0 {
		old := c.seats[i] // it came back before the loss of its old stream was seen
		c.drop(old, false, "it connected again")
		c.m.emit(Close{old.conn})
	}
	c.returned(clip(n.Name()))
	s := &chair{conn: conn, node: n}
	c.seats = append(c.seats, s)
	delete(c.dead, n.ID)
	delete(c.expired, n.ID)
	delete(c.away, n.ID)
	delete(c.gone, n.ID)
	s.fit = !c.m.cfg.Check || !n.Facts
	if c.phase == executing && !c.knows(last) {
		as := "it takes part in the next round"
		if len(c.world.Members) >= c.m.self.Max {
			as = "it waits as a hot spare"
		}
		c.m.emit(Note{Text: fmt.Sprintf("%s came: %s", n.Name(), as), Kind: "came"})
	}
	defer func() {
		if c.phase == executing && !s.inWorld { // it must not take over by what an earlier world says
			c.send(s, Message{Type: MsgStatus, Status: c.status()})
		}
	}()
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

// unproven reports whether a node may not be what it says, though it must prove it:
// a node's id is no secret, and its seat is whose hello has it.
func (c *coordinator) unproven(conn Conn, n Node) bool {
	return c.m.cfg.Proofs && !n.Proven && conn != Self
}

// concerns reports whether a job that has been decided, and whose last world was
// w, was this node's: the outcome of one job must not end the next one, which may
// meet at the same endpoint. A job without any world was everybody's who came.
func concerns(n Node, last *Last, w *World) bool {
	return w == nil || w.Index(n.ID) >= 0 || last != nil && last.World != nil && last.World.Job == w.Job
}

// knows reports whether a node was in a world of this job before. If somebody
// else has its place by now it waits for another one, and hears how the job ends.
func (c *coordinator) knows(last *Last) bool {
	return last != nil && last.World != nil && last.World.Job == c.job
}

// comeBack takes over what a member knows of the last world.
func (c *coordinator) comeBack(s *chair, last *Last) {
	w := last.World
	c.term = max(c.term, w.Term)
	c.round = max(c.round, w.Round)
	switch c.phase {
	case forming:
		c.round = max(c.round, w.Round+1)
		if l := c.last; l != nil && last.Started && w.Job == l.Job && (w.Term > l.Term || w.Term == l.Term && w.Round > l.Round) {
			c.last, c.restart = w, max(c.restart, w.Restart) // its members have the say in who goes on
		}
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
func (c *coordinator) refusal(conn Conn, n Node, last *Last) string {
	me := c.m.self
	invalid := n.Validate()
	switch {
	case n.Protocol != Protocol:
		return fmt.Sprintf("it speaks protocol %d (gorun %s), this job speaks %d (gorun %s); start the same gorun on every node", n.Protocol, clip(n.Version), Protocol, me.Version)
	case n.RunID != me.RunID:
		return fmt.Sprintf("it belongs to run %q, this is run %q; give both the same --rdzv-id, or another --rdzv-endpoint", clip(n.RunID), me.RunID)
	case invalid != nil:
		return fmt.Sprintf("what it says of itself makes no sense: %v", invalid)
	case c.unproven(conn, n):
		return fmt.Sprintf("it does not prove that the id %q is its own", clip(string(n.ID)))
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
	return ""
}

func nnodes(n Node) string {
	if n.Min == n.Max {
		return fmt.Sprint(n.Max)
	}
	return fmt.Sprintf("%d:%d", n.Min, n.Max)
}
