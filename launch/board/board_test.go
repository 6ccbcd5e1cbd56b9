package board

import (
	"os"
	"strconv"
	"testing"

	"github.com/gorun/gorun/worker/board"
	"github.com/gorun/gorun/worker/contract"
)

// take maps the board that the node hands to a worker of a round, nil if it hands none.
func take(t *testing.T, n *Node, round int) (b *board.Board) {
	t.Helper()
	n.Hand(round, func(fd int) {
		f, err := os.OpenFile("/proc/self/fd/"+strconv.Itoa(fd), os.O_RDWR, 0)
		if err == nil {
			b, err = board.Map(f)
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { b.Close() })
	})
	return b
}

func TestEachRoundHasItsBoard(t *testing.T) {
	n := NewNode()
	t.Cleanup(n.Close)
	if take(t, n, 0) != nil {
		t.Error("a board before the first round")
	}
	n.Abort(contract.Cause{Text: "nothing runs"})
	n.Begin(Round{Number: 3, Ranks: 2, Spin: true})
	if take(t, n, 2) != nil {
		t.Error("a worker of an earlier round got the board")
	}
	first, second := take(t, n, 3), take(t, n, 3)
	first.Memory()[7] = 1
	if second.Memory()[7] != 1 || first.Ranks() != 2 || !first.Spin() || first.Aborted() {
		t.Errorf("%d ranks, spin %v, aborted %v", first.Ranks(), first.Spin(), first.Aborted())
	}
	n.Abort(contract.Cause{Text: "rank 1 failed"})
	if c := first.Cause(); c == nil || c.Text != "rank 1 failed" {
		t.Errorf("cause %+v", c)
	}
	n.Begin(Round{Number: 4, Ranks: 1})
	n.Abort(contract.Cause{Text: "before the first worker"})
	late := take(t, n, 4)
	if c := late.Cause(); c == nil || c.Text != "before the first worker" {
		t.Errorf("cause %+v", c)
	}
	if late.Memory()[7] != 0 {
		t.Error("the new round has the memory of the old one")
	}
	n.Close()
	if take(t, n, 4) != nil {
		t.Error("a board after the end")
	}
}
