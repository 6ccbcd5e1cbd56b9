package term

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestLimiterPassesOneLineASecond checks that one line a second of each kind passes, that
// the last one has the number of the others, and that lines without a kind pass at once.
func TestLimiterPassesOneLineASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var lines []string
		s := newLimiter(func(line string) {
			mu.Lock()
			defer mu.Unlock()
			lines = append(lines, line)
		})
		// lateAfter returns the lines that were held back and printed until d has passed.
		linesAfter := func(d time.Duration) []string {
			time.Sleep(d)
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			return slices.Clone(lines)
		}
		now := 0
		for i := range 300 {
			if s.admit("refused", fmt.Sprint("refused ", i)) {
				now++
			}
		}
		if !s.admit("", "lost") || !s.admit("came", "came") {
			t.Error("another kind waits")
		}
		late := linesAfter(5*limiterEvery + limiterEvery/2)
		if now != 1 || len(late) != 5 || late[0] != "refused 1" {
			t.Errorf("%d at once, %q within five seconds", now, late)
		}
		late = linesAfter(limiterHeld * limiterEvery)
		if last := late[len(late)-1]; len(late) != limiterHeld || last != "refused 16 (and 283 more like that)" {
			t.Errorf("%q", late)
		}
		if !s.admit("refused", "one") {
			t.Error("a line waits although the last one is long ago")
		}
		s.admit("refused", "two")
		if rest := s.end(); len(rest) != 1 || rest[0] != "two" {
			t.Errorf("at the end: %q", rest)
		}
		if late = linesAfter(2 * limiterEvery); len(late) != limiterHeld {
			t.Errorf("after the end: %q", late[limiterHeld:])
		}
	})
}
