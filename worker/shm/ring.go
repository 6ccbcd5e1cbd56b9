package shm

import (
	"errors"
	"sync/atomic"
	"unsafe"
)

const (
	ringMost  = 1 << 20   // bytes of a ring at most
	ringUsual = 256 << 10 // bytes of a ring among many ranks
	ringsMost = 8 << 20   // bytes of a rank's rings above which none is larger than ringUsual
	ringLeast = 16 << 10  // below it there are no rings
)

// ring carries the messages of one rank to another one. Each side writes a line of its
// own; the data follow. Counters only grow.
type ring struct {
	tail atomic.Uint64 // bytes written
	sent atomic.Uint64 // messages that the writer has offered
	full atomic.Uint32 // 1: the writer waits for room
	_    [44]byte

	head     atomic.Uint64 // bytes read
	taken    atomic.Uint64 // bytes of eager messages that have their receiver, with eagerCost each
	received atomic.Uint64 // messages that have their receiver
	_        [40]byte
}

// frame says what a record of a ring is.
type frame uint32

const (
	framePad    frame = 0 // nothing, up to the end of the ring
	frameEager  frame = 1 // a whole message
	frameReady  frame = 2 // a message that waits for its receiver; place: where it lies in the board's memory, plus 1
	frameClear  frame = 3 // the receiver of a frameReady wants its data
	frameData   frame = 4 // the next piece of a message
	frameCopied frame = 5 // the receiver of a frameReady has taken the message from its place
)

// header precedes the bytes of a record.
type header struct {
	frame  frame
	size   uint32 // bytes that follow
	call   record
	length uint64 // bytes of the whole message
	place  uint64
}

const (
	ringHeader = int(unsafe.Sizeof(ring{}))
	headerSize = int(unsafe.Sizeof(header{}))
)

// errDamaged says that what another rank wrote makes no sense.
var errDamaged = errors.New("damaged the memory that it shares with this rank")

// ringAt returns the ring in mem and its data.
func ringAt(mem []byte) (*ring, []byte) {
	return (*ring)(unsafe.Pointer(&mem[0])), mem[ringHeader:]
}

// recordSize is what a record with n bytes takes of a ring. No record goes round the end
// of a ring.
func recordSize(n uint64) uint64 { return uint64(headerSize) + (n+63)&^63 }

func headerAt(b []byte) *header { return (*header)(unsafe.Pointer(&b[:headerSize][0])) }

// ringWriter is the writer's side of a ring.
type ringWriter struct {
	*ring
	data []byte
	at   uint64 // tail
	seen uint64 // head, when it was looked at last
}

// put writes a record, if there is room. The reader sees it at once.
func (w *ringWriter) put(h header, payload []byte) (ok bool, err error) {
	size, need := uint64(len(w.data)), recordSize(uint64(len(payload)))
	var skip uint64
	if left := size - w.at%size; left < need {
		skip = left
	}
	if w.room() < skip+need {
		head := w.head.Load()
		if w.at-head > size {
			return false, errDamaged
		}
		w.seen = head
		if w.room() < skip+need {
			return false, nil
		}
	}
	if skip > 0 {
		*headerAt(w.data[w.at%size:]) = header{frame: framePad, size: uint32(skip) - uint32(headerSize)}
		w.at += skip
	}
	h.size = uint32(len(payload))
	b := w.data[w.at%size:]
	*headerAt(b) = h
	copy(b[headerSize:], payload)
	w.at += need
	w.tail.Store(w.at)
	return true, nil
}

func (w *ringWriter) room() uint64 { return uint64(len(w.data)) - (w.at - w.seen) }

// ringReader is the reader's side of a ring.
type ringReader struct {
	*ring
	data []byte
	at   uint64 // head
}

// end returns how far there is something to read.
func (r *ringReader) end() (uint64, error) {
	tail := r.tail.Load()
	if tail-r.at > uint64(len(r.data)) || tail%64 != 0 {
		return 0, errDamaged
	}
	return tail, nil
}

// next returns the next record before end. Its payload stays until pass.
func (r *ringReader) next(end uint64) (h header, payload []byte, err error) {
	at := r.at % uint64(len(r.data))
	left := min(uint64(len(r.data))-at, end-r.at)
	h = *headerAt(r.data[at:])
	if recordSize(uint64(h.size)) > left {
		return h, nil, errDamaged
	}
	return h, r.data[at+uint64(headerSize):][:h.size:h.size], nil
}

// pass gives the room of a record back.
func (r *ringReader) pass(h *header) {
	r.at += recordSize(uint64(h.size))
	r.head.Store(r.at)
}
