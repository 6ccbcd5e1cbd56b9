package process

import (
	"slices"
	"syscall"
	"testing"
)

// TestOrderOfDeaths checks that processes become Done, with times, in the order in which
// they ended, although the table collects all of them later and wait(2) returns them
// in the order of their starts.
func TestOrderOfDeaths(t *testing.T) {
	b := newTestTable(t)
	var procs []*Process
	for range 8 {
		procs = append(procs, b.start(Spec{Path: "/bin/sleep", Args: []string{"sleep", "100"}}))
	}
	order := []int{7, 0, 5, 6, 1, 4, 2, 3}
	b.Table.mu.Lock() // nothing is collected meanwhile
	for _, i := range order {
		pid := procs[i].pid
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Error(err)
		}
		for b.isRunning(pid) {
		}
	}
	b.Table.mu.Unlock()
	byTime := slices.Clone(order)
	slices.SortFunc(byTime, func(a, b int) int { return procs[a].Exit().At.Compare(procs[b].Exit().At) })
	if !slices.Equal(byTime, order) {
		t.Errorf("ended in the order %v, want %v", byTime, order)
	}
	for i := 1; i < len(order); i++ {
		if a, b := procs[order[i-1]].Exit().At, procs[order[i]].Exit().At; !b.After(a) {
			t.Errorf("process %d ended at %v, and then %d at %v", order[i-1], a, order[i], b)
		}
	}
	if n := len(b.Table.deaths.fds) + len(b.Table.deaths.order); n != 0 {
		t.Errorf("%d processes are remembered", n)
	}
}

// isRunning reports whether a child has not become a zombie.
func (b *testTable) isRunning(pid int) bool {
	s, err := b.fs.stat(pid)
	return err == nil && s.state != 'Z'
}
