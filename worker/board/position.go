package board

import (
	"bytes"
	"strings"
	"time"
)

// Position is where one communicator of a rank is, as its line says. Everything in it
// was written by the rank and may be wrong.
type Position struct {
	Local   int
	Comm    Comm
	Line    int       // number of the line on the rank's page
	Entered uint64    // calls on this line
	Done    uint64    // of them; less than Entered: a call is open
	Since   time.Time // when the open call began to sleep; zero: it does not
	Waits   int       // rank of the communicator for which it waits; -1: none in particular
	Calls   []Visit   // the last ones, latest first
}

// Visit is a call with its place in the source.
type Visit struct {
	Call
	Caller string // file and line; "": unknown
}

// Open reports whether a call has begun and not ended.
func (p *Position) Open() bool { return p.Entered != p.Done }

// Last returns the latest call, false if there is none.
func (p *Position) Last() (Visit, bool) {
	if len(p.Calls) == 0 {
		return Visit{}, false
	}
	return p.Calls[0], true
}

// Member is what a local rank says of itself.
type Member struct {
	Rank int // in the world; -1: it has not joined
	PID  int
	Step uint64
}

// Member reads what a local rank says of itself.
func (b *Board) Member(local int) Member {
	p := b.page(local)
	if p == nil {
		return Member{Rank: -1}
	}
	return Member{Rank: int(p.rank.Load()) - 1, PID: int(p.pid.Load()), Step: p.step.Load()}
}

// Positions reads the open lines of a local rank, with at most n calls each.
func (b *Board) Positions(local, n int) []Position {
	p := b.page(local)
	if p == nil {
		return nil
	}
	var all []Position
	for i := range p.lines {
		l := &p.lines[i]
		if l.open.Load() != 1 {
			continue
		}
		pos := Position{
			Local: local, Line: i, Comm: Comm{ID: l.comm.Load(), Rank: int(l.rank.Load()), Size: int(l.size.Load())},
			Done: l.done.Load(), Waits: int(l.waits.Load()) - 1,
		}
		if ns := l.since.Load(); ns != 0 {
			pos.Since = time.Unix(0, ns)
		}
		pos.Entered = l.entered.Load()
		pos.Calls = p.readCalls(l, pos.Entered, n)
		all = append(all, pos)
	}
	return all
}

// readCalls reads up to n calls that were entered up to number last. The oldest record
// may be written again while it is read, so readCalls drops what the rank overtakes.
func (p *page) readCalls(l *line, last uint64, n int) []Visit {
	var calls []Visit
	for number := last; number > 0 && len(calls) < min(n, lineCalls-2); number-- {
		c, got := l.calls[number%lineCalls].read()
		if got != number || l.entered.Load()-number >= lineCalls-1 {
			break
		}
		calls = append(calls, Visit{c, p.site(c.Site)})
	}
	return calls
}

// site returns the text of a call site.
func (p *page) site(n uint16) string {
	if n == 0 || int(n) > maxSites {
		return ""
	}
	var text [maxSite]byte
	copy(text[:], p.sites[n-1][:])
	before, _, _ := bytes.Cut(text[:], []byte{0})
	return strings.ToValidUTF8(string(before), "?")
}
