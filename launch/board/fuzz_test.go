package board

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// FuzzCalls lets the agent read a board on which ranks wrote junk.
func FuzzCalls(f *testing.F) {
	n := NewNode()
	f.Cleanup(n.Close)
	n.Begin(Round{Number: 1, Ranks: 2})
	var data []byte
	ok := n.Hand(1, 0, func(fd int, _ []int) {
		var err error
		if data, err = unix.Mmap(fd, 0, pages, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
			f.Fatal(err)
		}
	})
	if !ok {
		f.Skip("this system has no boards")
	}
	f.Cleanup(func() { _ = unix.Munmap(data) })
	f.Add([]byte{1}, uint32(0))
	f.Add([]byte{1, 0, 0, 0, 2}, uint32(20_000))
	f.Add([]byte{0xff, 3, 0, 0, 0, 0, 0, 0}, uint32(16_384))
	f.Fuzz(func(t *testing.T, junk []byte, offset uint32) {
		if len(junk) == 0 {
			return
		}
		for i := int(offset) % pages; i < pages; i++ {
			data[i] = junk[i%len(junk)]
		}
		for _, c := range n.Calls() {
			if c.Local < 0 || c.Local > 1 || c.Rank != c.Local {
				t.Errorf("%+v", c)
			}
		}
		for rank, c := range n.Ranks(time.Now().Add(time.Hour)) {
			if rank < 0 || rank > 1 || len(c.Lines) > 100 {
				t.Errorf("rank %d: %+v", rank, c)
			}
		}
	})
}

// pages is the part of the board that holds its header and the pages of two ranks.
const pages = 200 << 10
