package rendezvous

import (
	"fmt"
	"slices"
)

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

func (c *coordinator) status() *Status {
	st := &Status{
		Phase: c.phase.String(), Came: len(c.seats), Min: c.m.self.Min, Max: c.m.self.Max, Here: c.list(func(*chair) bool { return true }),
	}
	if !c.deadline.IsZero() {
		st.Left = c.deadline.Sub(c.m.now)
	}
	st.Refused = c.refused.lines()
	switch c.phase {
	case executing:
		st.Members, st.Job = len(c.world.Members), c.job
		st.Here = c.list(func(s *chair) bool { return s.inWorld })
	case checking:
		st.Waiting = c.list(func(s *chair) bool { return s.inWorld && c.exam.waits(s) })
	case sealing:
		st.Note = c.waits
	case proposing:
		st.Waiting = c.list(func(s *chair) bool { return s.inWorld && !s.accepted })
	case halting:
		st.Waiting = c.list(func(s *chair) bool { return s.inWorld && !s.over })
	case forming:
		st.Note = ""
		if by := c.refused.by; !by.IsZero() {
			st.Left = min(st.Left, by.Sub(c.m.now))
			st.Note = "the job ends then unless a node that was refused is started again, corrected"
		}
		if len(c.seats) >= c.m.self.Min {
			st.Note = c.entitled()
			if !c.lastCall.IsZero() {
				st.Left, st.Note = c.lastCall.Sub(c.m.now), "last call for more nodes"
			}
		}
	}
	return st
}
