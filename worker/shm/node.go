package shm

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/gorun/gorun/worker/board"
	"github.com/gorun/gorun/worker/collective"
)

// Node is one rank's view of the memory that the ranks of its node share. All
// communicators of the rank use it.
type Node struct {
	board *board.Board
	local int // this rank's number on the node
	size  int // bytes of an arena
	ring  int // bytes of a ring with its header; 0: there are no rings

	failed atomic.Pointer[error] // why every call fails

	mu     sync.Mutex
	free   []span         // of this rank's arena, in order, with gaps between them
	used   map[int]int    // size of each piece that Alloc returned, by its offset
	blocks [maxBlocks]int // offset of the block of each entry of the directory; 0: it has none
}

// span is some bytes of an arena, by offset.
type span struct{ at, size int }

// NewNode returns the view of local rank local. The error says that the board has too
// little memory.
func NewNode(b *board.Board, local int) (*Node, error) {
	size := len(b.Memory()) / b.Ranks() / grain * grain
	if size < directorySize+blockSize {
		return nil, fmt.Errorf("the node's board has %d bytes for %d ranks, each needs %d", len(b.Memory()), b.Ranks(), directorySize+blockSize)
	}
	if local < 0 || local >= b.Ranks() {
		return nil, fmt.Errorf("there is no local rank %d: the node has %d", local, b.Ranks())
	}
	n := &Node{board: b, local: local, size: size, ring: ringSize(size, b.Ranks()), used: map[int]int{}}
	n.free = []span{{directorySize, n.inboxAt() - directorySize}}
	return n, nil
}

// ringSize returns the size of each of a rank's rings, which take at most a quarter of an
// arena; 0 if they would be too small. Among few ranks a ring is larger: where ranks wait for
// CPUs, each of the turns in which two of them fill and empty a ring may cost a time slice.
func ringSize(arena, ranks int) int {
	size := max(ringUsual, min(ringMost, ringsMost/ranks))
	size = min(size, arena/4/ranks) &^ (grain - 1)
	if size < ringLeast {
		return 0
	}
	return size
}

// inboxAt returns where the inbox of an arena is. Its rings follow, one for each rank that
// may receive. Without rings it is the end of the arena.
func (n *Node) inboxAt() int {
	if n.ring == 0 {
		return n.size
	}
	return n.size - n.board.Ranks()*n.ring - inboxSize
}

func (n *Node) inbox(local int) *inbox {
	return (*inbox)(unsafe.Pointer(&n.arena(local)[n.inboxAt()]))
}

// ringOf returns the memory of the ring from one local rank to another.
func (n *Node) ringOf(from, to int) []byte {
	return n.arena(from)[n.inboxAt()+inboxSize+to*n.ring:][:n.ring:n.ring]
}

// rank returns the rank in the world of a local rank, or its own number if it has not
// joined the board.
func (n *Node) rank(local int) int {
	if m := n.board.Member(local); m.Rank >= 0 {
		return m.Rank
	}
	return local
}

// arena returns the memory of a local rank.
func (n *Node) arena(local int) []byte {
	return n.board.Memory()[local*n.size:][:n.size:n.size]
}

func (n *Node) directory(local int) *directory {
	return (*directory)(unsafe.Pointer(&n.arena(local)[0]))
}

// offset returns where b lies in the board's memory, false if it does not.
func (n *Node) offset(b []byte) (int, bool) {
	memory := n.board.Memory()
	at := uintptr(unsafe.Pointer(unsafe.SliceData(b))) - uintptr(unsafe.Pointer(unsafe.SliceData(memory)))
	return int(at), len(b) > 0 && at < uintptr(len(memory)) && len(b) <= len(memory)-int(at)
}

// Alloc returns size bytes of zeros that every rank of the node can read and write. The
// error says that there are not so many.
func (n *Node) Alloc(size int) ([]byte, error) {
	if size < 0 || size > n.size {
		return nil, fmt.Errorf("cannot share %d bytes: a rank has %d", size, n.size)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.reclaim()
	at, ok := n.take(max(size, 1))
	if !ok {
		return nil, fmt.Errorf("cannot share %d bytes: all %d of this rank are in use or too scattered", size, n.size)
	}
	n.used[at] = max(size, 1)
	b := n.arena(n.local)[at:][:size:size]
	clear(b)
	return b, nil
}

// Free takes back what Alloc returned.
func (n *Node) Free(b []byte) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	at, ok := n.offset(b[:min(cap(b), 1)])
	at -= n.local * n.size
	size, allocated := n.used[at]
	if !ok || !allocated {
		return errors.New("cannot free memory that is not shared, or twice")
	}
	delete(n.used, at)
	n.give(span{at, size})
	return nil
}

func roundUp(n, to int) int { return (n + to - 1) / to * to }

// take returns the offset of size bytes of the arena; n.mu is held.
func (n *Node) take(size int) (int, bool) {
	size = roundUp(size, grain)
	for i, s := range n.free {
		if s.size < size {
			continue
		}
		if s.size == size {
			n.free = slices.Delete(n.free, i, i+1)
		} else {
			n.free[i] = span{s.at + size, s.size - size}
		}
		return s.at, true
	}
	return 0, false
}

// give takes s back and joins it with its neighbours; n.mu is held.
func (n *Node) give(s span) {
	s.size = roundUp(s.size, grain)
	i, _ := slices.BinarySearchFunc(n.free, s.at, func(f span, at int) int { return f.at - at })
	n.free = slices.Insert(n.free, i, s)
	for ; i >= 0 && i < len(n.free); i-- {
		for i+1 < len(n.free) && n.free[i].at+n.free[i].size == n.free[i+1].at {
			n.free[i].size += n.free[i+1].size
			n.free = slices.Delete(n.free, i+1, i+2)
		}
		if i == 0 || n.free[i-1].at+n.free[i-1].size != n.free[i].at {
			break
		}
	}
}

// reclaim takes back the blocks of communicators that all their ranks have closed; n.mu
// is held.
func (n *Node) reclaim() {
	d := n.directory(n.local)
	for i := range d.entries {
		e := &d.entries[i]
		if e.place.Load() == 0 || e.left.Load() != 0 {
			continue
		}
		if at := n.blocks[i]; at != 0 {
			n.give(span{at, blockSize})
			n.blocks[i] = 0
		}
		e.place.Store(0)
	}
}

// open makes this rank's block of a communicator of size ranks and enters it into the
// directory. Without memory it enters that.
func (n *Node) open(comm uint64, size int) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.reclaim()
	d := n.directory(n.local)
	for i := range d.entries {
		e := &d.entries[i]
		if e.place.Load() != 0 {
			continue
		}
		place := uint64(noMemory)
		if at, ok := n.take(blockSize); ok {
			place, n.blocks[i] = uint64(at), at
			clear(n.arena(n.local)[at:][:blockSize])
		}
		e.comm.Store(comm)
		e.left.Store(uint64(size))
		e.place.Store(place)
		d.changes.Publish(d.changes.Load() + 1)
		return nil
	}
	return fmt.Errorf("cannot share memory in more than %d communicators at once: close those that are not needed", maxBlocks)
}

// block returns the block at a place of an arena, nil if there is none.
func (n *Node) block(local int, place uint64) *block {
	if place < uint64(directorySize) || place > uint64(n.size-blockSize) || place%grain != 0 {
		return nil
	}
	return (*block)(unsafe.Pointer(&n.arena(local)[place]))
}

// find waits until the local rank has entered the communicator. It returns the entry and
// the block, nil if that rank has no memory for one.
func (n *Node) find(ctx context.Context, w *board.Waiter, local int, comm uint64) (*entry, *block, error) {
	d := n.directory(local)
	for {
		changes := d.changes.Load()
		for i := range d.entries {
			if e := &d.entries[i]; e.comm.Load() == comm {
				if place := e.place.Load(); place != 0 {
					return e, n.block(local, place), nil
				}
			}
		}
		if err := w.Await(ctx, &d.changes, changes+1); err != nil {
			return nil, nil, err
		}
	}
}

// err returns why every call fails, nil if they do not.
func (n *Node) err() error {
	if why := n.failed.Load(); why != nil {
		return *why
	}
	return nil
}

// maxWorld bounds the ranks of a world that another rank may name.
const maxWorld = 1 << 24

// Break makes every call of every rank of the node return, with why on this rank and a
// *collective.PeerError on the others. The first reason stays.
func (n *Node) Break(why error) {
	if !n.failed.CompareAndSwap(nil, &why) {
		return
	}
	shared, mine := n.directory(0), n.directory(n.local)
	text := why.Error()
	if received, ok := errors.AsType[*collective.GaveUp](why); ok { // pass on the first rank's reason
		mine.reasonRank, text = uint32(received.Rank)+1, received.Reason
	}
	mine.reasonSize = uint32(copy(mine.reason[:], text))
	if shared.first.CompareAndSwap(0, uint32(n.local)+1) {
		n.board.Stop(&shared.stop)
	}
}

// stopped returns why another rank broke the node. rank returns the rank in the world of a
// local rank, -1 if it is unknown.
func (n *Node) stopped(rank func(local int) int) error {
	if err := n.err(); err != nil {
		return err
	}
	local := int(n.directory(0).first.Load()) - 1
	if local < 0 || local >= n.board.Ranks() {
		return errors.New("a rank of this node gave up")
	}
	d := n.directory(local)
	text := string(d.reason[:min(d.reasonSize, maxReason)])
	reason := &collective.GaveUp{Rank: rank(local), Reason: strings.ToValidUTF8(text, "?")}
	if first := d.reasonRank; first > 0 && first <= maxWorld {
		reason.Rank = int(first) - 1
	}
	if reason.Rank >= 0 {
		return &collective.PeerError{Rank: reason.Rank, Err: reason}
	}
	return fmt.Errorf("local rank %d of this node %w", local, reason)
}
