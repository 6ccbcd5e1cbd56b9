package board

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gorun/gorun/worker/board"
)

// cycleTime is the time after which gorun reports ranks that wait for each other. Before
// it another goroutine of a rank may still make the call that the others wait for.
const cycleTime = 2 * time.Second

// findCycle returns calls of ranks that wait for each other: each is a message that the
// next one's rank neither sends nor receives, because it waits itself. It returns nil if
// there is no such cycle of calls older than cycleTime.
func findCycle(open []Call, now time.Time) []Call {
	stuck := map[int]Call{} // by local rank: one of its calls, if none of them can end
	at := places(open)
	for _, c := range open {
		stuck[c.Local] = c
	}
	waitsFor := func(c *Call) (local int, ok bool) {
		if c.waits == board.WaitsForAll || now.Sub(c.Since) < cycleTime || hasOtherEnd(c, open) {
			return 0, false
		}
		local, ok = at[place{c.comm.ID, c.peer}]
		return local, ok
	}
	// A rank can go on if one of its calls can. Its going on may let others go on.
	for before := -1; before != len(stuck); {
		before = len(stuck)
		for i := range open {
			c := &open[i]
			local, ok := waitsFor(c)
			if _, waits := stuck[local]; !ok || !waits {
				delete(stuck, c.Local)
			}
		}
	}
	for _, first := range open {
		if _, ok := stuck[first.Local]; ok {
			return follow(first, stuck, waitsFor)
		}
	}
	return nil
}

// follow goes from a stuck rank to the rank for which it waits, until it comes to a rank
// for the second time. It returns the cycle.
func follow(c Call, stuck map[int]Call, waitsFor func(*Call) (int, bool)) []Call {
	var path []Call
	for {
		if i := slices.IndexFunc(path, func(p Call) bool { return p.Local == c.Local }); i >= 0 {
			return path[i:]
		}
		path = append(path, c)
		next, _ := waitsFor(&c)
		c = stuck[next]
	}
}

// place is a rank of a communicator.
type place struct {
	comm uint64
	rank int
}

// places returns the local rank of each rank of a communicator that is in a call.
func places(open []Call) map[place]int {
	at := map[place]int{}
	for _, c := range open {
		at[place{c.comm.ID, c.comm.Rank}] = c.Local
	}
	return at
}

// hasOtherEnd reports whether another rank is in the other end of a message.
func hasOtherEnd(c *Call, open []Call) bool {
	return slices.ContainsFunc(open, func(o Call) bool {
		return o.comm.ID == c.comm.ID && o.comm.Rank == c.peer && o.peer == c.comm.Rank && o.tag == c.tag &&
			o.waits != board.WaitsForAll && o.waits != c.waits
	})
}

// cycleText says which ranks wait for each other.
func cycleText(cycle []Call) string {
	var parts []string
	for _, c := range cycle {
		parts = append(parts, fmt.Sprintf("rank %d is in %s", c.Rank, c.Text))
	}
	return fmt.Sprintf("ranks wait for each other, and no other goroutine of theirs has made a call that ends it: %s; let one of them receive first, or use SendRecv or Isend", strings.Join(parts, "; "))
}
