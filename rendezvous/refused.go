package rendezvous

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Bounds of what is remembered of refused nodes: strangers can have as many
// refused as they like.
const (
	maxRefused     = 16
	maxRefusedText = 2 << 10 // bytes of a line
	maxRefusedTold = 64      // lines that one agent prints
)

// refusals are the nodes that the coordinator refused and that did not come back.
// The coordinator names them to every waiting node. When so many were refused that the job can
// be complete only if one of them is started again, it ends after a last call.
type refusals struct {
	nodes []refusedNode
	by    time.Time // the last call; zero: the job can be complete without them
}

type refusedNode struct {
	name, why string // without a name: why names it
	ours      bool   // a node of this job: a stranger's refusal leaves nothing incomplete
}

func (r refusedNode) line() string {
	if r.name == "" {
		return cut(r.why, maxRefusedText)
	}
	return cut(fmt.Sprintf("refused %s: %s", r.name, r.why), maxRefusedText)
}

// turnedAway notes a refused node and tells the nodes that wait. A job whose
// workers run lacks none.
func (c *coordinator) turnedAway(r refusedNode) {
	r.ours = r.ours && c.phase != executing && c.phase != halting
	known := &c.refused.nodes
	i := slices.IndexFunc(*known, func(o refusedNode) bool { return o.name == r.name && (r.name != "" || o.why == r.why) })
	switch {
	case i >= 0 && (*known)[i] == r, i < 0 && len(*known) >= maxRefused:
		c.m.emit(Note{Text: r.line(), Kind: "refused"}) // again, or one of many
		return
	case i >= 0:
		(*known)[i] = r
	default:
		*known = append(*known, r)
	}
	c.m.tellRefused([]string{r.line()})
	if c.phase != decided {
		c.tellStatus()
	}
}

// returned forgets the refusal of a node that has a seat now.
func (c *coordinator) returned(name string) {
	c.refused.nodes = slices.DeleteFunc(c.refused.nodes, func(o refusedNode) bool { return o.name == name })
}

// lines are the refusals as every waiting node shows them.
func (r *refusals) lines() (out []string) {
	for _, o := range r.nodes {
		out = append(out, o.line())
	}
	return out
}

// incomplete reports whether the job, which n nodes do not suffice for, lacks only
// nodes that were refused. Their agents have ended, but a person may correct the
// command and start it again, so the last call begins.
func (c *coordinator) incomplete(n int) bool {
	r := &c.refused
	missing := 0
	for _, o := range r.nodes {
		if o.ours {
			missing++
		}
	}
	if missing == 0 || n >= c.m.self.Min || n+missing < c.m.self.Max {
		r.by = time.Time{}
		return false
	}
	if r.by.IsZero() {
		r.by = c.m.now.Add(c.m.cfg.LastCall)
	}
	return !c.m.now.Before(r.by)
}

// giveUp ends a job that cannot be complete.
func (c *coordinator) giveUp() {
	var lines []string
	for _, o := range c.refused.nodes {
		if o.ours {
			lines = append(lines, o.line())
		}
	}
	text := fmt.Sprintf("the job cannot be complete: it has %d of %s nodes, %s, and nobody came instead within %v; correct that node's command and start all nodes again",
		len(c.seats), nnodes(c.m.self), cmp.Or(strings.Join(lines, "; "), "the others were refused"), c.m.cfg.LastCall)
	c.failures = nil
	c.add(c.m.here(KindRendezvous, text))
	c.decide()
}

// tellRefused shows the person at this terminal which nodes were refused, each
// once.
func (m *Machine) tellRefused(lines []string) {
	for _, l := range lines[:min(len(lines), maxRefused)] {
		l = cut(l, maxRefusedText)
		if !m.mem.refused[l] && len(m.mem.refused) < maxRefusedTold {
			m.mem.refused[l] = true
			m.emit(Note{Text: l, Kind: "refused"})
		}
	}
}

// strangerRefused: an agent was turned away before it could say hello.
func (m *Machine) strangerRefused(e Refused) {
	r := refusedNode{cut(e.Name, maxWord), e.Why, e.Ours}
	if m.coord != nil {
		m.coord.turnedAway(r)
		return
	}
	m.tellRefused([]string{r.line()})
}
