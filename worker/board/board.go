package board

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"unsafe"
)

// Options describes a board.
type Options struct {
	Ranks  int  // of this node
	Memory int  // bytes that the ranks exchange data in; they cost nothing until they are used
	Spin   bool // each rank has CPUs of its own, so that a rank may wait for another without sleeping
}

// Board is one process's view of the shared memory.
type Board struct {
	file  *os.File // nil in a process that only mapped it
	data  []byte
	ranks int
	spin  bool
	id    string

	mu    sync.Mutex
	sites map[string]uint16 // of this process's calls
}

// Create makes a board of zeros: a sealed memfd.
func Create(o Options) (*Board, error) {
	if o.Ranks < 1 || o.Ranks > MaxRanks || o.Memory < 0 || o.Memory > maxMemory {
		return nil, fmt.Errorf("no board can have %d ranks and %d bytes", o.Ranks, o.Memory)
	}
	f, err := newMemfd("gorun-board", sizeOf(o.Ranks, o.Memory))
	if err != nil {
		return nil, fmt.Errorf("cannot make the memory that ranks share: %w", err)
	}
	return fill(f, o)
}

// fill maps a file of zeros and writes its header. It owns the file.
func fill(f *os.File, o Options) (*Board, error) {
	b, err := mapFile(f, sizeOf(o.Ranks, o.Memory), o.Ranks)
	if err != nil {
		f.Close()
		return nil, err
	}
	b.file = f
	h := b.header()
	h.version, h.ranks, h.size = version, uint32(o.Ranks), uint64(len(b.data))
	if o.Spin {
		h.spin, b.spin = 1, true
	}
	atomic.StoreUint64(&h.magic, magic) // the header is whole
	return b, nil
}

// Map maps the board in f and closes f. The error says what f is instead of a board of
// this version.
func Map(f *os.File) (*Board, error) {
	defer f.Close()
	b, err := open(f)
	if err != nil {
		return nil, fmt.Errorf("cannot map the memory that ranks share: %w", err)
	}
	return b, nil
}

func open(f *os.File) (*Board, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() < int64(headerSize) || info.Size() > maxMemory {
		return nil, fmt.Errorf("a file of mode %v with %d bytes is no board", info.Mode(), info.Size())
	}
	if !isSealed(f) {
		return nil, errors.New("its size is not sealed, so another process could cut it off")
	}
	b, err := mapFile(f, int(info.Size()), 0)
	if err != nil {
		return nil, err
	}
	h := b.header()
	ranks, size := h.ranks, h.size
	switch {
	case atomic.LoadUint64(&h.magic) != magic:
		err = errors.New("it is no board")
	case h.version != version:
		err = fmt.Errorf("it has version %d, this program knows version %d: build both with the same gorun", h.version, version)
	case ranks < 1 || ranks > MaxRanks || size != uint64(len(b.data)) || sizeOf(int(ranks), 0) > len(b.data):
		err = fmt.Errorf("it says %d ranks and %d bytes, but has %d bytes", ranks, size, len(b.data))
	}
	if err != nil {
		unmap(b.data)
		return nil, err
	}
	b.ranks, b.spin = int(ranks), h.spin == 1
	return b, nil
}

func mapFile(f *os.File, size, ranks int) (*Board, error) {
	data, err := mapShared(f, size)
	if err != nil {
		return nil, err
	}
	b := &Board{data: data, ranks: ranks, sites: map[string]uint16{}}
	if m, err := Machine(); err == nil {
		if dev, inode, err := identify(f); err == nil {
			b.id = fmt.Sprintf("%s/%d/%d", m, dev, inode)
		}
	}
	return b, nil
}

// File is the board's file, which other processes can map. It belongs to the board; a
// process that only mapped the board has none.
func (b *Board) File() *os.File { return b.file }

// Ranks is the number of ranks on this node.
func (b *Board) Ranks() int { return b.ranks }

// Spin reports whether each rank has CPUs of its own.
func (b *Board) Spin() bool { return b.spin }

// SpinLong says that this process has CPUs of its own, whatever the header says. It is
// called before the first Waiter is made.
func (b *Board) SpinLong() { b.spin = true }

// Memory returns the range of bytes in which ranks exchange data. It begins at a page
// and is zero at first.
func (b *Board) Memory() []byte { return b.data[sizeOf(b.ranks, 0):] }

// Close unmaps the board. No method may run then, and no slice of Memory be used.
func (b *Board) Close() error {
	if b == nil || b.data == nil {
		return nil
	}
	err := unmap(b.data)
	if b.file != nil {
		err = errors.Join(err, b.file.Close())
	}
	b.data = nil
	return err
}

func (b *Board) header() *header { return (*header)(unsafe.Pointer(&b.data[0])) }

// page returns the page of a local rank, nil if there is no such rank.
func (b *Board) page(local int) *page {
	if local < 0 || local >= b.ranks {
		return nil
	}
	return (*page)(unsafe.Pointer(&b.data[headerSize+local*rankSize]))
}
