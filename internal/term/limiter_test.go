package term

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// However many lines strangers cause, one a second of each kind is said, and at
// last how many more there were; other lines are said at once.
func TestLimiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var lines []string
		s := newLimiter(func(line string) {
			mu.Lock()
			defer mu.Unlock()
			lines = append(lines, line)
		})
		// lateAfter gives the lines that had to wait, as they are after d.
		lateAfter := func(d time.Duration) []string {
			time.Sleep(d)
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			return slices.Clone(lines)
		}
		now := 0
		for i := range 300 {
			if s.take("refused", fmt.Sprint("refused ", i)) {
				now++
			}
		}
		if !s.take("", "lost") || !s.take("came", "came") {
			t.Error("another kind waits")
		}
		late := lateAfter(5*limiterEvery + limiterEvery/2)
		if now != 1 || len(late) != 5 || late[0] != "refused 1" {
			t.Errorf("%d at once, %q within five seconds", now, late)
		}
		late = lateAfter(limiterHeld * limiterEvery)
		if last := late[len(late)-1]; len(late) != limiterHeld || last != "refused 16 (and 283 more like that)" {
			t.Errorf("%q", late)
		}
		if !s.take("refused", "one") {
			t.Error("a line waits after a quiet time")
		}
		s.take("refused", "two")
		if rest := s.end(); len(rest) != 1 || rest[0] != "two" {
			t.Errorf("at the end: %q", rest)
		}
		if late = lateAfter(2 * limiterEvery); len(late) != limiterHeld {
			t.Errorf("after the end: %q", late[limiterHeld:])
		}
	})
}
