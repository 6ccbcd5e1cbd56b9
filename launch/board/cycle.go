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
// next one's rank neither sends nor receives, or a collective to which the next one's rank
// has not come, because that rank waits itself. It returns nil if there is no such cycle of
// calls older than cycleTime.
func (v *view) findCycle(now time.Time) []Call {
	stuck := map[int]Call{} // by local rank: one of its calls, if none of them can end
	for _, c := range v.open {
		stuck[c.Local] = c
	}
	// A rank can go on if one of its calls can. Its going on may let others go on.
	for before := -1; before != len(stuck); {
		before = len(stuck)
		for i := range v.open {
			c := &v.open[i]
			if _, waits := v.waitsFor(c, stuck, now); !waits {
				delete(stuck, c.Local)
			}
		}
	}
	for _, first := range v.open {
		if _, ok := stuck[first.Local]; ok {
			return v.follow(first, stuck, now)
		}
	}
	return nil
}

// waitsFor returns a stuck rank without which c cannot end, false if there is none.
func (v *view) waitsFor(c *Call, stuck map[int]Call, now time.Time) (local int, ok bool) {
	if c.waits == board.WaitsAside || now.Sub(c.Since) < cycleTime || c.waits != board.WaitsForAll && v.hasOtherEnd(c) {
		return 0, false
	}
	for _, m := range v.members[c.comm.ID] {
		awaited := m.rank == c.peer
		if c.waits == board.WaitsForAll {
			awaited = m.entered < c.seq
		}
		if _, waits := stuck[m.local]; awaited && waits {
			return m.local, true
		}
	}
	return 0, false
}

// follow goes from a stuck rank to the rank for which it waits, until it comes to a rank
// for the second time. It returns the cycle.
func (v *view) follow(c Call, stuck map[int]Call, now time.Time) []Call {
	var path []Call
	for {
		if i := slices.IndexFunc(path, func(p Call) bool { return p.Local == c.Local }); i >= 0 {
			return path[i:]
		}
		path = append(path, c)
		next, _ := v.waitsFor(&c, stuck, now)
		c = stuck[next]
	}
}

// hasOtherEnd reports whether another rank is in the other end of a message.
func (v *view) hasOtherEnd(c *Call) bool {
	return slices.ContainsFunc(v.open, func(o Call) bool {
		return o.comm.ID == c.comm.ID && o.comm.Rank == c.peer && o.peer == c.comm.Rank && o.tag == c.tag &&
			isMessage(&o) && o.waits != c.waits
	})
}

func isMessage(c *Call) bool {
	return c.waits == board.WaitsForReceiver || c.waits == board.WaitsForSender
}

// cycleText says which ranks wait for each other.
func cycleText(cycle []Call) string {
	var parts []string
	advice := "let one of them receive first, or use SendRecv or Isend"
	for _, c := range cycle {
		parts = append(parts, fmt.Sprintf("rank %d is in %s", c.Rank, c.Text))
		if !isMessage(&c) {
			advice = "ranks must make the collectives of a communicator in the same order, and the two ends of a message on the same side of a collective"
		}
	}
	return fmt.Sprintf("ranks wait for each other, and no other goroutine of theirs has made a call that ends it: %s; %s", strings.Join(parts, "; "), advice)
}
