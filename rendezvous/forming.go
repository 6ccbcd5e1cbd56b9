package rendezvous

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

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
	switch {
	case c.phase != forming:
	case late:
		c.expire()
	case c.incomplete(n):
		c.giveUp()
	}
}

// entitled says why these seats may not form a world although they are enough:
// another part of a cut network might form one too. Empty if they may.
func (c *coordinator) entitled() string {
	if c.m.cfg.Fenced { // it decides when it is asked to seal
		return c.outvoted
	}
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

// propose makes a world of the chosen seats, to be examined and offered.
func (c *coordinator) propose() {
	chosen := slices.DeleteFunc(slices.Clone(c.seats), func(s *chair) bool { return s.busy })
	slices.SortStableFunc(chosen, func(a, b *chair) int { // survivors before newcomers
		if c.last == nil { // whoever is left out must not be able to make a first world, too
			return min(b.node.Endpoint, 0) - min(a.node.Endpoint, 0)
		}
		return min(oldRank(c.last, a.node.ID), MaxNodes) - min(oldRank(c.last, b.node.ID), MaxNodes)
	})
	chosen = chosen[:min(len(chosen), c.m.self.Max)]
	var nodes []Node
	for _, s := range c.seats {
		s.inWorld = slices.Contains(chosen, s)
		s.accepted, s.done, s.over, s.leaving, s.given = false, false, false, nil, nil
		if s.inWorld {
			nodes = append(nodes, s.node)
		}
	}
	if e := c.m.mem.elsewhere; e.Job == c.job { // no round twice
		c.term, c.round = max(c.term, e.Term), max(c.round, e.Round+1)
	}
	w := newWorld(seat(nodes, c.last), World{
		Term: c.term, Round: c.round, Restart: c.restart, MaxRestarts: c.maxRestarts,
		Coordinator: c.m.self.ID, Job: c.job, Token: c.m.cfg.Token(),
	})
	c.world, c.digest, c.failures, c.ends = &w, "", nil, nil
	c.gone, c.killed = map[NodeID]bool{}, false
	if c.m.cfg.Check {
		c.check()
	} else {
		c.offer()
	}
}

// offer asks the members of the world to accept it.
func (c *coordinator) offer() {
	c.digest = c.world.Digest()
	deadline := c.deadline
	c.enter(proposing, 0)
	c.deadline = deadline
	c.each(func(s *chair) {
		msg := Message{Type: MsgPropose, World: c.world, Env: s.given}
		if s.node.ID == c.world.Members[0].ID {
			msg.Clients = c.clients()
		}
		c.send(s, msg)
	})
}

// clients are where the workers of the world may connect from.
func (c *coordinator) clients() []string {
	all := map[string]bool{}
	c.each(func(s *chair) {
		for _, at := range append([]string{s.node.Addr, s.node.Seen}, s.node.Networks...) {
			all[at] = true
		}
	})
	delete(all, "")
	return slices.Sorted(maps.Keys(all))
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
	c.m.changed = true
	c.last, c.began = c.world, c.m.now
	c.refused = refusals{}
	for _, s := range c.seats { // first: who has no place must not take over by what an earlier world says
		if !s.inWorld {
			c.send(s, Message{Type: MsgStatus, Status: c.status()})
		}
	}
	c.each(func(s *chair) {
		c.send(s, Message{Type: MsgCommit, Term: c.world.Term, Round: c.world.Round, Digest: c.digest})
	})
	for _, s := range c.seats { // who came while the world was examined
		if c.m.cfg.Check && !s.inWorld && s.facts != nil {
			c.inspect(s)
		}
	}
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
	if lines := c.refused.lines(); len(lines) > 0 {
		text += "; " + strings.Join(lines, "; ")
	}
	if n := len(c.records); n > 0 && c.records[n-1].Cause != nil {
		text += "; the round before ended because " + c.records[n-1].Cause.Line()
	}
	if c.phase == sealing {
		text = fmt.Sprintf("no world of %d nodes could be sealed in %s within %v: waiting for %s", len(c.world.Members), c.m.cfg.Where, c.m.cfg.Join, c.waits)
	} else {
		text += ". Check that gorun was started on the others with the same " + cmp.Or(c.m.cfg.Flags, "--rdzv-endpoint and --rdzv-id") + ", and that they reach " + c.m.cfg.Where
	}
	c.failures = nil
	c.add(c.m.here(KindRendezvous, text))
	c.decide()
}
