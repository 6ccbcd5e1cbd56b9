package shm

import (
	"sync/atomic"
	"unsafe"

	"github.com/gorun/gorun/worker/board"
	"github.com/gorun/gorun/worker/collective"
)

const (
	inLine     = 32        // bytes of what a rank gives that fit into its line
	slotSize   = 256 << 10 // bytes of a slot
	resultSize = 128 << 10 // bytes of a result
)

// line is what a rank says of its call, in one line of the cache.
type line struct {
	word  board.Word // number of the engine's call
	seq   uint64     // of the Call, as the following
	count uint64
	what  uint32 // kind, type, op; 0: the rank has closed the communicator
	root  int32
	data  [inLine]byte // what the rank gives, if it fits; else extra
}

// extra is what a rank says in a line that has no data: of an all-reduce where the operand
// lies in the board's memory, plus 1; of unequal parts the steps that the rank needs.
func (l *line) extra() *uint64 { return (*uint64)(unsafe.Pointer(&l.data)) }

// say writes the call into the line.
func (l *line) say(c *collective.Call) {
	l.seq, l.count, l.root = c.Seq, c.Count, c.Root
	l.what = uint32(c.Kind) | uint32(c.Type)<<8 | uint32(c.Op)<<16
}

// agrees reports whether both lines say the same call.
func (l *line) agrees(o *line) bool {
	return l.seq == o.seq && l.count == o.count && l.what == o.what && l.root == o.root
}

// call returns what the line says.
func (l *line) call() collective.Call {
	return collective.Call{
		Seq: l.seq, Count: l.count, Root: l.root,
		Kind: collective.Kind(l.what), Type: collective.DType(l.what >> 8), Op: collective.Op(l.what >> 16),
	}
}

// block is one communicator of one rank.
type block struct {
	lines [2]line
	step  board.Word
	_     [120]byte

	slots   [2][slotSize]byte
	results [2][resultSize]byte
}

// record is a call of a message as other ranks may read it.
type record struct {
	comm, seq, count uint64
	what             uint64 // kind, type, op
	peers            uint64 // root, tag
}

func recordOf(c *collective.Call) record {
	return record{
		comm: c.Comm, seq: c.Seq, count: c.Count,
		what:  uint64(c.Kind) | uint64(c.Type)<<8 | uint64(c.Op)<<16,
		peers: uint64(uint32(c.Root)) | uint64(uint32(c.Tag))<<32,
	}
}

func (r record) call() collective.Call {
	return collective.Call{
		Comm: r.comm, Seq: r.seq, Count: r.count,
		Kind: collective.Kind(r.what), Type: collective.DType(r.what >> 8), Op: collective.Op(r.what >> 16),
		Root: int32(r.peers), Tag: int32(r.peers >> 32),
	}
}

const maxReason = 1 << 10

// directory is the beginning of an arena.
type directory struct {
	changes board.Word    // counts additions
	stop    board.Word    // arena 0 only: ends every call of the world
	first   atomic.Uint32 // arena 0 only: the local rank whose reason counts, plus 1
	_       [44]byte

	reasonRank uint32 // whose reason it is, in the world, plus 1; 0: this rank's
	reasonSize uint32
	reason     [maxReason]byte // why this rank's call failed

	entries [maxBlocks]entry
}

// maxBlocks is the number of communicators that a rank can have at once.
const maxBlocks = 250

// entry says where the block of a communicator is.
type entry struct {
	comm  atomic.Uint64
	left  atomic.Uint64 // ranks that have not closed the communicator yet
	place atomic.Uint64 // 0: the entry is free; noMemory: there is no block; else the offset in the arena
}

const noMemory = 1

// inbox is where the other ranks tell a rank that there is something for it.
type inbox struct {
	state atomic.Uint32
	_     [60]byte

	polling atomic.Uint32 // 1: the rank looks at news by itself
	_       [60]byte

	news board.Word                         // counts what is new
	from [board.MaxRanks / 64]atomic.Uint64 // the local ranks of which it is, as bits
	_    [56]byte

	calls board.Word // counts what is urgent for a rank that does not poll
	_     [56]byte
}

// States of an inbox.
const (
	inboxNone   = 0 // the rank takes no messages in memory, or not yet
	inboxOpen   = 1
	inboxClosed = 2
)

// grain is what every piece of an arena is a multiple of.
const grain = 4096

const (
	directorySize = (int(unsafe.Sizeof(directory{})) + grain - 1) / grain * grain
	inboxSize     = (int(unsafe.Sizeof(inbox{})) + grain - 1) / grain * grain
	blockSize     = (int(unsafe.Sizeof(block{})) + grain - 1) / grain * grain
)
