package process

import (
	"context"
	"fmt"
	"syscall"
	"testing"
	"time"
)

const stubborn = `trap "" TERM; echo ready; sleep 1000; :`

func TestStopSignals(t *testing.T) {
	for _, tt := range []struct {
		name, script string
		o            StopOptions
		want         Exit
	}{
		{"dies of SIGTERM", `echo ready; sleep 1000; :`, StopOptions{Grace: time.Hour}, Exit{Code: -1, Signal: syscall.SIGTERM}},
		{"handles SIGTERM", `trap 'exit 5' TERM; echo ready; sleep 1000 & wait`, StopOptions{Grace: time.Hour}, Exit{Code: 5}},
		{"other signal", `trap 'exit 6' USR2; echo ready; sleep 1000 & wait`, StopOptions{Signal: syscall.SIGUSR2, Grace: time.Hour}, Exit{Code: 6}},
		{"ignores SIGTERM", stubborn, StopOptions{Grace: 50 * time.Millisecond}, Exit{Code: -1, Signal: syscall.SIGKILL}},
		{"no grace", `echo ready; sleep 1000; :`, StopOptions{}, Exit{Code: -1, Signal: syscall.SIGKILL}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newTestTable(t)
			p, q := b.shell(tt.script), b.shell(tt.script)
			b.expect("ready", "ready")
			begin := time.Now()
			b.stop(tt.o, p, q)
			if took := time.Since(begin); tt.want.Signal == syscall.SIGKILL && took < tt.o.Grace {
				t.Errorf("killed after %v, before the grace of %v was over", took, tt.o.Grace)
			}
			for _, p := range []*Process{p, q} {
				got := b.exit(p)
				got.At = time.Time{}
				if got != tt.want {
					t.Errorf("%v, want %v", got, tt.want)
				}
			}
			b.nothingLeft()
		})
	}
}

func TestStopEndsStoppedProcess(t *testing.T) {
	b := newTestTable(t)
	p := b.shell(`echo ready; kill -STOP $$; sleep 1000; :`)
	b.expect("ready")
	until(t, "the process is stopped", func() bool {
		s, err := b.fs.stat(p.Pid())
		return err == nil && s.state == 'T'
	})
	b.stop(StopOptions{Grace: time.Hour}, p)
	if e := p.Exit(); e.Signal != syscall.SIGTERM {
		t.Error(e)
	}
}

// TestStopLeftovers checks that what the process left ends, too, after a time that
// does not depend on the grace period.
func TestStopLeftovers(t *testing.T) {
	for _, tt := range []struct {
		name, script string
		lines        []string
		killed       int // -1: any
	}{
		{"daemon of its own session that ignores SIGTERM", daemon("up") + `sleep 1000; :`, []string{"up"}, -1},
		{"daemon whose parent has ended before", daemon("up"), []string{"up"}, -1},
		{"polite daemon", `(setsid sh -c 'trap "exit" TERM; echo up; while :; do sleep 0.01; done' &); sleep 1000; :`, []string{"up"}, 0},
		{"child in the session that ignores SIGTERM", `sh -c '` + stubborn + `' & sleep 1000; :`, []string{"ready"}, -1},
		{"stopped daemon", `(setsid sh -c 'echo up; kill -STOP $$; sleep 1000' &); sleep 1000; :`, []string{"up"}, 0},
		{"daemon of a daemon", `(setsid sh -c '(setsid sh -c "trap \"\" TERM; echo up; sleep 1000; :" &); trap "" TERM; echo up; sleep 1000; :' &); sleep 1000; :`, []string{"up", "up"}, -1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newTestTable(t)
			p := b.shell(tt.script)
			b.expect(tt.lines...)
			killed := b.stop(StopOptions{Grace: time.Hour}, p)
			b.nothingLeft()
			if (tt.killed == 0) != (killed == 0) {
				t.Errorf("%d killed", killed)
			}
		})
	}
}

// TestStopInOwnGroup checks that the signals do not reach this test: a process
// without a group of its own, and its orphan, are in the test's group.
func TestStopInOwnGroup(t *testing.T) {
	b := newTestTable(t)
	p := b.start(Spec{Path: "/bin/sh", Args: []string{"sh", "-c", `(sh -c '` + stubborn + `' &); sleep 1000; :`}})
	b.expect("ready")
	// Its sleeps remain when the shells end, and are found as well.
	b.stop(StopOptions{Grace: 20 * time.Millisecond}, p)
	b.nothingLeft()
}

// TestStopLeftoversDuringGrace checks that, while one process uses its grace
// period, what an ended process left in its session ends at once. A daemon, which
// could belong to any process, stays until the last process has ended.
func TestStopLeftoversDuringGrace(t *testing.T) {
	b := newTestTable(t)
	ended := b.shell(`sh -c '` + stubborn + `' &`)
	slow := b.shell(`(setsid sh -c 'trap "echo signalled" TERM; echo daemon; while :; do sleep 0.01; done' &);` + stubborn)
	b.expect("ready", "ready", "daemon")
	b.exit(ended)
	ctx, cut := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		_, err := b.Stop(ctx, StopOptions{Grace: time.Hour}, ended, slow)
		done <- err
	}()
	until(t, "the session of the ended process is empty", func() bool {
		for _, pid := range alive(b.token) {
			if s, err := b.fs.stat(pid); err == nil && s.session == ended.Pid() {
				return false
			}
		}
		return true
	})
	cut() // "kill now"
	if err := <-done; err != nil {
		t.Error(err)
	}
	if e := b.exit(slow); e.Signal != syscall.SIGKILL {
		t.Error(e)
	}
	b.nothingLeft()
	fmt.Fprintln(b.write, "end")
	if line := b.line(); line != "end" {
		t.Errorf("the daemon printed %q although a process had grace left", line)
	}
}

func TestSecondStopShortensTheFirst(t *testing.T) {
	b := newTestTable(t)
	p := b.shell(stubborn)
	b.expect("ready")
	first := make(chan error, 1)
	go func() {
		_, err := b.Stop(context.Background(), StopOptions{Grace: time.Hour}, p)
		first <- err
	}()
	b.stop(StopOptions{}, p)
	select {
	case err := <-first:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(patience):
		t.Error("the first Stop goes on")
	}
}

func TestStopSparesOthers(t *testing.T) {
	b := newTestTable(t)
	p := b.shell(daemon("up") + "sleep 1000; :")
	other := b.shell(`(sh -c 'echo orphan; sleep 1000; :' &); sh -c 'echo below; sleep 1000; :'; :`)
	group := Spec{Path: "/bin/sh", Args: []string{"sh", "-c", `(sh -c 'echo orphan; sleep 1000; :' &); sleep 1000; :`}, Group: true}
	b.start(group)
	b.expect("up", "below", "orphan", "orphan")
	until(t, "all 13 processes are there", func() bool { return len(alive(b.token)) == 13 })
	b.stop(StopOptions{Grace: time.Hour}, p)
	select {
	case <-other.Done():
		t.Error("the other process ended:", other.Exit())
	default:
	}
	if left := alive(b.token); len(left) != 9 {
		t.Errorf("%d processes are left, want 9", len(left))
	}
}

// TestStopEndsForkStorm checks that processes that appear while Stop kills are found as
// well.
func TestStopEndsForkStorm(t *testing.T) {
	b := newTestTable(t)
	p := b.shell(`
		storm() {
			if [ $1 -gt 0 ]; then
				storm $(($1 - 1)) & (setsid sh -c 'trap "" TERM; sleep 1000; :' &)
				storm $(($1 - 1)) &
			fi
			trap "" TERM; echo $1; sleep 1000; :
		}
		storm 5`)
	b.line()
	b.stop(StopOptions{Grace: 20 * time.Millisecond}, p)
	b.nothingLeft()
	if left, err := b.fs.children(b.self); err != nil || len(left) > 0 {
		t.Errorf("children %v, %v", left, err)
	}
}

// TestKillDescendants checks that the walk of the tree finds a process below a process
// that does not end.
func TestKillDescendants(t *testing.T) {
	b := newTestTable(t)
	p := b.shell(`sh -c 'setsid sh -c "echo up; sleep 1000; :"; :'; echo freed; sleep 1000; :`)
	b.expect("up")
	s := &stopping{table: b.Table, procs: []*Process{p}}
	below := func() []identity {
		st, err := b.fs.stat(p.Pid())
		if err != nil {
			t.Fatal(err)
		}
		return b.fs.descendants([]identity{st.identity(), {pid: p.Pid(), start: 1}}) // the second has another start time
	}
	until(t, "three processes below", func() bool { return len(below()) == 3 })
	s.killDescendants()
	b.expect("freed")
	select {
	case <-p.Done():
		t.Error("the root was killed too")
	default:
	}
}

func TestFailureNamesWhatIsLeft(t *testing.T) {
	b := newTestTable(t)
	p := b.shell(`sleep 1000; :`)
	s := &stopping{table: b.Table, procs: []*Process{p}}
	for i := range 10 {
		s.left = append(s.left, stat{pid: 100 + i, name: "python3", state: 'D'})
	}
	want := fmt.Sprintf(`process %d ("sh", state `, p.Pid())
	if got := s.failure().Error(); !contains(got, want, `process 100 ("python3", state D)`, "3 more") {
		t.Error(got)
	}

	// If another part of the program also collects children, ends get lost; then
	// the error says so.
	s = &stopping{table: b.Table, procs: []*Process{{table: b.Table, pid: b.self, done: make(chan struct{})}}}
	if got := s.failure().Error(); !contains(got, "other than its table") {
		t.Error(got)
	}
}
