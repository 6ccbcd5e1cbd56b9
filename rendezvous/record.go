package rendezvous

import (
	"slices"
	"strings"
)

// Limits of what is kept of a job, and told to every node when it ends: an
// outcome fits into one message, whatever failed how often.
const (
	maxRounds    = 1024      // the latest ones
	maxInFull    = 1 << 15   // nodes and ranks of the rounds that are told in full
	maxTexts     = 1 << 20   // bytes of the causes of all rounds, and of all failures of the last one
	maxTraceback = 256 << 10 // bytes, of one cause; its end tells more than its beginning
	maxTailLines = 20
	maxText      = 4 << 10 // bytes of a message, of a line of stderr
)

// record keeps what happened in the round that ends now.
func (c *coordinator) record(cause *Cause) {
	w := *c.world
	w.Members = make([]Member, len(c.world.Members))
	for i, m := range c.world.Members { // what a report tells of
		w.Members[i] = Member{ID: m.ID, Host: m.Host, Addr: m.Addr, Workers: m.Workers, Role: m.Role, FirstRank: m.FirstRank, RoleRank: m.RoleRank}
	}
	c.records = shorten(append(c.records, Record{World: w, Started: c.began, Ended: c.m.now, Ends: c.ends, Cause: cause}))
}

// shorten takes from the earlier rounds what would be too much.
func shorten(rs []Record) []Record {
	rs = rs[max(0, len(rs)-maxRounds):]
	told, texts := 0, budget(maxTexts)
	for i := range slices.Backward(rs) {
		r := &rs[i]
		if told += len(r.World.Members) + len(r.Ends); told > maxInFull {
			r.World.Members, r.Ends, r.Shortened = nil, nil, true
		}
		if r.Cause != nil {
			cause := texts.spend(*r.Cause)
			r.Cause = &cause
		}
	}
	return rs
}

// budget is the number of bytes that texts may still have.
type budget int

// spend gives the cause as it is while the budget lasts, then without what its
// worker printed.
func (b *budget) spend(c Cause) Cause {
	size := len(c.Message) + len(c.Traceback)
	for _, l := range slices.Concat(c.Tail, c.Logs) {
		size += len(l)
	}
	if *b -= budget(size); *b < 0 {
		c.Message, c.Traceback, c.Tail, c.Logs = clip(c.Message), "", nil, nil
	}
	return c
}

// bounded is a cause of which no text is longer than an agent may tell.
func (c Cause) bounded() Cause {
	c.Host, c.Addr, c.Role = clip(c.Host), clip(c.Addr), clip(c.Role)
	c.Interpreter = clip(c.Interpreter)
	c.ErrorFile, c.Message = cut(c.ErrorFile, maxText), cut(c.Message, maxText)
	if n := len(c.Traceback) - maxTraceback; n > 0 {
		c.Traceback = "..." + strings.ToValidUTF8(c.Traceback[n:], "")
	}
	c.Tail, c.Logs = fewLines(c.Tail), fewLines(c.Logs)
	return c
}

func fewLines(lines []string) []string {
	lines = slices.Clone(lines[max(0, len(lines)-maxTailLines):])
	for i := range lines {
		lines[i] = cut(lines[i], maxText)
	}
	return lines
}
