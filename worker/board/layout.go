package board

import (
	"math"
	"sync/atomic"
	"unsafe"

	"github.com/gorun/gorun/worker/contract"
)

const (
	magic   = 0x0064726f62677230 // "0rgbord"
	version = contract.BoardVersion

	pageSize = 4096
	// MaxRanks is the number of ranks that a board takes.
	MaxRanks = 4096
	// maxMemory bounds the range of bytes, so that no size overflows.
	maxMemory = min(1<<46, math.MaxInt/2)

	// maxHeap is below what the garbage collector can allocate at once.
	maxHeap = min(1<<46, math.MaxInt/4)

	maxCause    = 3 << 10 // bytes of an abort's cause, as JSON
	maxSleepers = 16      // sleeping goroutines of a rank that an abort wakes at once
	maxSites    = 120     // call sites of a rank
	maxSite     = 96      // bytes of a call site's text
	maxLines    = 20      // communicators of a rank that have a line
	lineCalls   = 64      // calls that a line keeps

	lastMessages = 64   // messages of a direction between two ranks that a page keeps
	maxMessages  = 2048 // of all directions
)

// States of the abort word.
const (
	abortNone    = 0
	abortWriting = 1 // the cause is being written; ranks stop already
	abortDone    = 2
)

// header is the first page.
type header struct {
	magic   uint64
	version uint32
	ranks   uint32
	size    uint64 // of the whole board, in bytes
	spin    uint32 // 1: each rank has CPUs of its own
	_       [100]byte

	abort atomic.Uint32
	_     [124]byte

	causeLen atomic.Uint32
	cause    [maxCause]byte
}

// page is what one rank writes for the others.
type page struct {
	pid  atomic.Uint32
	rank atomic.Uint32 // in the world, plus 1; 0: the rank has not joined
	step atomic.Uint64 // what the program says of its progress
	_    [48]byte

	sleeping [maxSleepers]atomic.Uint64 // offsets of the words on which goroutines sleep; 0: none
	sites    [maxSites][maxSite]byte
	lines    [maxLines]line
	messages [maxMessages]stored
}

// line is one communicator of a rank.
type line struct {
	open    atomic.Uint32 // 1: a communicator has it
	rank    atomic.Uint32 // in the communicator
	size    atomic.Uint32 // of the communicator
	waits   atomic.Uint32 // rank of the communicator for which the open call waits, plus 1; 0: none in particular
	comm    atomic.Uint64
	entered atomic.Uint64 // calls, from 1
	done    atomic.Uint64
	since   atomic.Int64 // when the open call began to sleep, in Unix nanoseconds; 0: it does not
	_       [16]byte
	calls   [lineCalls]record
}

// record is one call. Its owner writes it before it counts it in entered.
type record struct {
	number    uint64 // as counted in entered
	operation uint64 // kind, type, op, site: see Call
	peers     uint64 // peer and tag
	seq       uint64
	count     uint64
	_         [24]byte
}

const (
	headerSize = (int(unsafe.Sizeof(header{})) + pageSize - 1) / pageSize * pageSize
	rankSize   = (int(unsafe.Sizeof(page{})) + pageSize - 1) / pageSize * pageSize
)

// sizeOf returns the size of a board, a multiple of pageSize.
func sizeOf(ranks, memory int) int {
	return headerSize + ranks*rankSize + (memory+pageSize-1)/pageSize*pageSize
}
