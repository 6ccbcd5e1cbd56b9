package standby

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"
)

func key(t *testing.T) string { return fmt.Sprintf("%s-%d", t.Name(), time.Now().UnixNano()) }

func group(t *testing.T) Group {
	return Group{Key: key(t), Command: []string{"gorun", "train.py"}}
}

// TestTasksEndWithTheLeadersCode checks that every task gets the code, also a task
// that starts after the job has ended.
func TestTasksEndWithTheLeadersCode(t *testing.T) {
	k := group(t)
	l, err := Lead(k, 3)
	if err != nil {
		t.Fatal(err)
	}
	l.Serve()
	codes := make(chan int, 3)
	wait := func() {
		code, err := Wait(t.Context(), k, 10*time.Second, func() {})
		if err != nil {
			t.Error(err)
		}
		codes <- code
	}
	go wait()
	go wait()
	ended := make(chan int)
	go func() { ended <- l.End(143, 10*time.Second) }()
	go wait() // may be late
	for range 3 {
		if code := <-codes; code != 143 {
			t.Errorf("code %d", code)
		}
	}
	if missing := <-ended; missing != 0 {
		t.Errorf("%d tasks are missing", missing)
	}
}

func TestTaskThatNeverComes(t *testing.T) {
	l, err := Lead(group(t), 1)
	if err != nil {
		t.Fatal(err)
	}
	l.Serve()
	if missing := l.End(0, time.Millisecond); missing != 1 {
		t.Errorf("%d tasks are missing, want 1", missing)
	}
}

func TestNoLeader(t *testing.T) {
	if _, err := Wait(t.Context(), group(t), time.Millisecond, func() {}); !errors.Is(err, ErrNoLeader) {
		t.Errorf("%v", err)
	}
}

// TestLeaderLost checks that a task ends when the leader's connections close without
// a code.
func TestLeaderLost(t *testing.T) {
	k := group(t)
	l, err := Lead(k, 1)
	if err != nil {
		t.Fatal(err)
	}
	l.Serve()
	got := make(chan error, 1)
	go func() {
		_, err := Wait(t.Context(), k, 10*time.Second, func() {})
		got <- err
	}()
	<-l.changed
	l.listener.Close()
	l.wg.Wait()
	l.conns[0].Close()
	if err := <-got; !errors.Is(err, ErrLeaderLost) {
		t.Errorf("%v", err)
	}
}

// TestWaitEndsWithItsContext checks that a task does not outlive its step.
func TestWaitEndsWithItsContext(t *testing.T) {
	k := group(t)
	l, err := Lead(k, 1)
	if err != nil {
		t.Fatal(err)
	}
	l.Serve()
	defer l.End(0, 0)
	ctx, cancel := context.WithCancelCause(t.Context())
	got := make(chan error, 1)
	go func() {
		_, err := Wait(ctx, k, 10*time.Second, func() {})
		got <- err
	}()
	<-l.changed
	over := errors.New("the step is over")
	cancel(over)
	if err := <-got; !errors.Is(err, over) {
		t.Errorf("%v", err)
	}
}

// TestTaskWithAnotherCommand checks that a task whose command line differs ends at once
// with an error, and that its place stays free for a task of the group.
func TestTaskWithAnotherCommand(t *testing.T) {
	k := group(t)
	l, err := Lead(k, 1)
	if err != nil {
		t.Fatal(err)
	}
	l.Serve()
	other := Group{Key: k.Key, Command: []string{"gorun", "eval.py"}}
	if _, err := Wait(t.Context(), other, time.Minute, func() {}); !errors.Is(err, ErrCommand) {
		t.Errorf("%v", err)
	}
	got := make(chan int, 1)
	go func() {
		code, err := Wait(t.Context(), k, time.Minute, func() {})
		if err != nil {
			t.Error(err)
		}
		got <- code
	}()
	if missing := l.End(3, time.Minute); missing != 0 {
		t.Errorf("%d tasks are missing", missing)
	}
	if code := <-got; code != 3 {
		t.Errorf("code %d", code)
	}
}
