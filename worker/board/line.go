package board

import (
	"sync/atomic"
	"time"
)

// Call is one call of a rank on a communicator. Kind, Type and Op are the numbers that
// package collective gives them.
type Call struct {
	Kind, Type, Op uint8
	Waits          Waits
	Site           uint16 // of [Board.Site]; 0: unknown
	Peer, Tag      int32  // Peer: in the communicator; -1: none
	Seq            uint64 // number among the communicator's calls of this kind
	Count          uint64 // elements
}

// Waits says what a call waits for.
type Waits uint8

// What calls wait for.
const (
	WaitsForAll      Waits = 0 // until the other ranks come
	WaitsForReceiver Waits = 1 // until Peer receives
	WaitsForSender   Waits = 2 // until Peer sends
	WaitsAside       Waits = 3 // until the other ranks come, while the program goes on
)

// Comm says which rank of which communicator a line belongs to.
type Comm struct {
	ID         uint64 // equal on all its ranks
	Rank, Size int
}

// Line is what one communicator of this process calls. One goroutine at a time uses it, but
// any may close it. The methods of a nil Line and of a closed one do nothing.
type Line struct {
	l       atomic.Pointer[line]
	number  int // of the line on its page
	entered uint64
}

// Join writes which rank of the world this process is.
func (b *Board) Join(local, rank, pid int) {
	if p := b.page(local); p != nil {
		p.pid.Store(uint32(pid))
		p.rank.Store(uint32(rank) + 1)
	}
}

// SetStep writes how far the program is.
func (b *Board) SetStep(local int, step uint64) {
	if p := b.page(local); p != nil {
		p.step.Store(step)
	}
}

// OpenLine takes a line of the local rank for a communicator, nil if all are taken.
func (b *Board) OpenLine(local int, c Comm) *Line {
	p := b.page(local)
	if p == nil {
		return nil
	}
	for i := range p.lines {
		l := &p.lines[i]
		if !l.open.CompareAndSwap(0, 2) {
			continue
		}
		l.comm.Store(c.ID)
		l.rank.Store(uint32(c.Rank))
		l.size.Store(uint32(c.Size))
		n := l.entered.Load()
		l.done.Store(n)
		l.since.Store(0)
		l.open.Store(1)
		mine := &Line{number: i, entered: n}
		mine.l.Store(l)
		return mine
	}
	return nil
}

// Enter writes that the rank begins a call.
func (p *Line) Enter(c Call) {
	l := p.open()
	if l == nil {
		return
	}
	p.entered++
	r := &l.calls[p.entered%lineCalls]
	r.number = p.entered
	r.operation = uint64(c.Kind) | uint64(c.Type)<<8 | uint64(c.Op)<<16 | uint64(c.Waits)<<24 | uint64(c.Site)<<32
	r.peers = uint64(uint32(c.Peer)) | uint64(uint32(c.Tag))<<32
	r.seq, r.count = c.Seq, c.Count
	if l.since.Load() != 0 {
		l.since.Store(0)
		l.waits.Store(0)
	}
	l.entered.Store(p.entered)
}

// MarkWaiting writes that the open call sleeps from now on, until rank peer of the
// communicator comes; -1: until others come.
func (p *Line) MarkWaiting(peer int) {
	l := p.open()
	if l == nil {
		return
	}
	if l.since.Load() == 0 {
		l.since.Store(time.Now().UnixNano())
	}
	if peer >= 0 {
		l.waits.Store(uint32(peer) + 1)
	}
}

// Leave writes that the call has ended.
func (p *Line) Leave() {
	if l := p.open(); l != nil {
		l.done.Store(p.entered)
	}
}

// Reopen writes that the rank waits for the end of the last call again.
func (p *Line) Reopen() {
	if l := p.open(); l != nil && p.entered > 0 {
		l.done.Store(p.entered - 1)
	}
}

// Place says where other ranks of the node find the next calls on this line, to give to
// Board.Peer. It is 0 of a nil Line.
func (p *Line) Place() uint64 {
	if p == nil {
		return 0
	}
	return uint64(p.number+1) | p.entered<<8
}

// Close gives the line back.
func (p *Line) Close() {
	if p == nil {
		return
	}
	if l := p.l.Swap(nil); l != nil {
		l.done.Store(l.entered.Load())
		l.open.Store(0)
	}
}

// open returns the line on the page, nil if it was given back.
func (p *Line) open() *line {
	if p == nil {
		return nil
	}
	return p.l.Load()
}

// Site returns the number of a place in this program's source, such as "train/main.go:88",
// for a Call of the local rank; 0 if the page has no room for it. It writes the place on
// the rank's page the first time.
func (b *Board) Site(local int, place string) uint16 {
	b.mu.Lock()
	defer b.mu.Unlock()
	if n, ok := b.sites[place]; ok {
		return n
	}
	p := b.page(local)
	if p == nil || place == "" || len(b.sites) >= maxSites {
		return 0
	}
	n := uint16(len(b.sites) + 1)
	copy(p.sites[n-1][:], place[max(0, len(place)-maxSite):])
	b.sites[place] = n
	return n
}
