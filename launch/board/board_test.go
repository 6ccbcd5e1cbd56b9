package board

import (
	"os"
	"slices"
	"strconv"
	"testing"

	"github.com/gorun/gorun/launch/numa"
	"github.com/gorun/gorun/worker/board"
	"github.com/gorun/gorun/worker/contract"
)

// take maps the board that the node hands to a worker of a round, nil if it hands none.
func take(t *testing.T, n *Node, round int) (b *board.Board) {
	t.Helper()
	n.Hand(round, 0, func(fd int, _ []int) {
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

// TestWorkersGetCPUsOfTheirOwn checks which workers get CPUs, and that one agent of a
// machine at a time divides them.
func TestWorkersGetCPUsOfTheirOwn(t *testing.T) {
	base := 7000 + os.Getpid()%1000*1000 // no CPUs that another test or a job claims
	divide := func() []numa.Set { return []numa.Set{{base, base + 1}, {base + 2}} }
	cpus := func(n *Node, rank int) (got []int) {
		if !n.Hand(1, rank, func(_ int, cpus []int) { got = cpus }) {
			t.Fatal("no board")
		}
		return got
	}
	n, other := NewNode(), NewNode()
	t.Cleanup(n.Close)
	t.Cleanup(other.Close)
	n.Begin(Round{Number: 1, FirstRank: 4, Ranks: 2, Divide: divide})
	other.Begin(Round{Number: 1, FirstRank: 4, Ranks: 2, Divide: divide})
	if a, b := cpus(n, 4), cpus(n, 5); !slices.Equal(a, []int{base, base + 1}) || !slices.Equal(b, []int{base + 2}) {
		t.Errorf("ranks 4 and 5 have CPUs %v, %v", a, b)
	}
	if a, b := cpus(n, 3), cpus(n, 6); a != nil || b != nil {
		t.Errorf("ranks 3 and 6 have CPUs %v, %v", a, b)
	}
	if a := cpus(other, 4); a != nil {
		t.Errorf("a second agent gives CPUs %v", a)
	}
	n.Close()
	other.Begin(Round{Number: 1, FirstRank: 4, Ranks: 2, Divide: divide})
	if a := cpus(other, 4); a == nil {
		t.Error("the CPUs of an agent that has ended stay claimed")
	}
	for name, r := range map[string]Round{
		"nothing is asked": {Number: 1, FirstRank: 4, Ranks: 2},
		"bound already":    {Number: 1, FirstRank: 4, Ranks: 2, Spin: true, Divide: divide},
		"too few":          {Number: 1, FirstRank: 4, Ranks: 2, Divide: func() []numa.Set { return nil }},
		"other workers":    {Number: 1, FirstRank: 4, Ranks: 3, Divide: divide},
	} {
		other.Begin(r)
		if a := cpus(other, 4); a != nil {
			t.Errorf("%s: CPUs %v", name, a)
		}
	}
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
