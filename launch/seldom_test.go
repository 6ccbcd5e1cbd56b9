package launch

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
func TestSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var lines []string
		s := newSeldom(func(line string) {
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
			if _, ok := s.take("refused", fmt.Sprint("refused ", i)); ok {
				now++
			}
		}
		if line, ok := s.take("", "lost"); !ok || line != "lost" {
			t.Errorf("%q, %v", line, ok)
		}
		if _, ok := s.take("came", "came"); !ok {
			t.Error("another kind waits")
		}
		late := lateAfter(5*seldomEvery + seldomEvery/2)
		if now != 1 || len(late) != 5 || late[0] != "refused 1" {
			t.Errorf("%d at once, %q within five seconds", now, late)
		}
		late = lateAfter(seldomHeld * seldomEvery)
		if last := late[len(late)-1]; len(late) != seldomHeld || last != "refused 16 (and 283 more like that)" {
			t.Errorf("%q", late)
		}
		if line, ok := s.take("refused", "one"); !ok || line != "one" {
			t.Errorf("%q, %v", line, ok)
		}
		s.take("refused", "two")
		if rest := s.end(); len(rest) != 1 || rest[0] != "two" {
			t.Errorf("at the end: %q", rest)
		}
		if late = lateAfter(2 * seldomEvery); len(late) != seldomHeld {
			t.Errorf("after the end: %q", late[seldomHeld:])
		}
	})
}
