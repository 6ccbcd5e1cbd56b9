package selftest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// memoryStore is a Store in this process. It counts the bytes that are read.
type memoryStore struct {
	mu      sync.Mutex
	changed *sync.Cond
	values  map[string][]byte
	read    int
}

func newMemoryStore() *memoryStore {
	s := &memoryStore{values: map[string][]byte{}}
	s.changed = sync.NewCond(&s.mu)
	return s
}

func (s *memoryStore) Set(_ context.Context, key string, value []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.values[key] = value
	s.changed.Broadcast()
	return nil
}

func (s *memoryStore) Get(ctx context.Context, key string) ([]byte, error) {
	defer context.AfterFunc(ctx, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.changed.Broadcast()
	})()
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.values[key] == nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		s.changed.Wait()
	}
	s.read += len(s.values[key])
	return s.values[key], nil
}

func (s *memoryStore) Delete(_ context.Context, key string) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, existed := s.values[key]
	delete(s.values, key)
	return existed, nil
}

// shell returns a Probe that runs a script.
func shell(script string) func(ctx context.Context, onGPU bool) *exec.Cmd {
	return func(ctx context.Context, onGPU bool) *exec.Cmd {
		return exec.CommandContext(ctx, "sh", "-c", script, "sh", fmt.Sprint(onGPU))
	}
}

const passes = `cat >/dev/null; echo '{"end":"passed","timing":[{"bytes":8,"seconds":0.001}]}'`

// testers runs the testers of ranks, each with its script.
func testers(t *testing.T, ranks []Rank, script func(rank int) string) []*Report {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	store := newMemoryStore()
	reports, errs := make([]*Report, len(ranks)), make([]error, len(ranks))
	var wg sync.WaitGroup
	for i, r := range ranks {
		wg.Go(func() {
			tester := Tester{Self: r, Size: len(ranks), Store: store, Probe: shell(script(i))}
			reports[i], errs[i] = tester.Run(ctx, ScopeFull)
		})
	}
	wg.Wait()
	for i, err := range errs {
		if err != nil {
			t.Fatalf("rank %d: %v", i, err)
		}
	}
	return reports
}

func TestTestersPlayTheLadder(t *testing.T) {
	for rank, r := range testers(t, fleet(2, 2), func(int) string { return passes }) {
		if !r.OK || (len(r.Rungs) == 9) != (rank == 0) {
			t.Errorf("rank %d: %+v", rank, r)
		}
	}
}

// TestTestersReadTheirOwnTask checks that what is sent grows with the ranks, not with
// their square, and that the store is empty after the test.
func TestTestersReadTheirOwnTask(t *testing.T) {
	perRank := func(n int) int {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		store := newMemoryStore()
		var wg sync.WaitGroup
		for _, r := range fleet(slices.Repeat([]int{1}, n)...) {
			wg.Go(func() {
				tester := Tester{Self: r, Size: n, Store: store, Probe: shell("exit 1")}
				if r, err := tester.Run(ctx, ScopeQuick); err != nil || r.Failure == nil {
					t.Errorf("%v, %+v", err, r)
				}
			})
		}
		wg.Wait()
		if tasks := len(store.values) - 2*n; tasks != 0 { // the ranks, and the ends
			t.Errorf("%d ranks: %d tasks or results are left", n, tasks)
		}
		return store.read / n
	}
	if few, many := perRank(8), perRank(64); many > few+few/4 {
		t.Errorf("each of 8 ranks read %d bytes, each of 64 %d", few, many)
	}
}

func TestEveryTesterLearnsTheFault(t *testing.T) {
	for rank, r := range testers(t, fleet(2, 2), func(rank int) string {
		if rank == 2 {
			return `grep -q '"WORLD_SIZE=1"' || { echo "cannot open shared object" >&2; exit 9; }; ` + passes
		}
		return passes
	}) {
		if r.Failure == nil || !strings.Contains(r.Failure.Text, "rank 2 (local rank 0) on node1: crashed: exit status 9 cannot open shared object") {
			t.Errorf("rank %d: %+v", rank, r.Failure)
		}
	}
}

// TestPartnersOfAFailedRankEnd lets a rank fail while its partner waits for it: the partner
// is ended long before its deadline, and only the one that failed is blamed.
func TestPartnersOfAFailedRankEnd(t *testing.T) {
	start := time.Now()
	for rank, r := range testers(t, fleet(2, 2), func(rank int) string {
		const alone = `grep -q '"WORLD_SIZE=1"' || `
		switch rank {
		case 2:
			return alone + `{ echo "no memory" >&2; exit 9; }; ` + passes
		case 3:
			return alone + `exec sleep 60; ` + passes
		}
		return passes
	}) {
		if r.Failure == nil || !strings.Contains(r.Failure.Text, "rank 2 (local rank 0) on node1: crashed: exit status 9 no memory") || strings.Contains(r.Failure.Text, "rank 3") {
			t.Errorf("rank %d: %+v", rank, r.Failure)
		}
	}
	if d := time.Since(start); d > 15*time.Second { // the deadline is after 20 s
		t.Errorf("it took %v", d)
	}
}

// TestProbeEnds checks what a tester makes of the end of its process.
func TestProbeEnds(t *testing.T) {
	for _, c := range []struct {
		script string
		end    End
		text   string
	}{
		{passes, EndPassed, ""},
		{`echo '{"end":"wrong values","text":"element 3"}'; exit 1`, EndWrong, "element 3"},
		{`kill -SEGV $$`, EndCrashed, "signal: segmentation fault"},
		{`exit 0`, EndCrashed, "it ended without a result"},
		{`echo '{"end":5}'`, EndCrashed, "it ended without a result"},
		{`head -c 1000000 /dev/zero; echo bad >&2; exit 3`, EndCrashed, "exit status 3 bad"},
		{`exec sleep 60`, EndStuck, "killed after"},
		{`sleep 60 & exec sleep 60`, EndStuck, "killed after"}, // a child that holds the output
	} {
		tester := Tester{Self: Rank{Rank: 1}, Probe: shell(c.script)}
		start := time.Now()
		r := tester.start(t.Context(), false).carryOut(Order{Task: Task{Deadline: 200 * time.Millisecond}}).checked(1)
		if r.End != c.end || !strings.Contains(r.Text, c.text) || len(r.Text) > 1000 {
			t.Errorf("%s: %+v", c.script, r)
		}
		if d := time.Since(start); d > 30*time.Second {
			t.Errorf("%s took %v", c.script, d)
		}
	}
}

// TestResultsAreChecked checks that nothing in a rank's result reaches a terminal as more
// than one line, or makes a rate below 0.
func TestResultsAreChecked(t *testing.T) {
	evil := "a\x1b[2J\nb"
	r := Result{Rank: 7, End: EndPassed, Text: evil, GPU: &GPU{Model: evil, UUID: evil, Host: evil, Library: evil}, Timing: []Timing{{-8, 1}, {0, 1}, {8, -1}, {8, 1}}}.checked(3)
	for _, text := range []string{r.Text, r.GPU.Model, r.GPU.UUID, r.GPU.Host, r.GPU.Library} {
		if strings.ContainsAny(text, "\x1b\n") {
			t.Errorf("%q", text)
		}
	}
	if r.Rank != 3 || !slices.Equal(r.Timing, []Timing{{8, 1}}) {
		t.Errorf("%+v", r)
	}
}

// TestProbeThatCannotBeKilled checks that a tester does not wait for a process that a broken
// driver holds in the kernel: rank 0 would never report.
func TestProbeThatCannotBeKilled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		held := func(ctx context.Context) *process {
			_, in := io.Pipe()
			_ = in.Close()
			p := &process{in: in, ended: make(chan struct{})}
			p.ctx, p.cancel = context.WithCancelCause(ctx)
			return p
		}
		start := time.Now()
		r := held(t.Context()).carryOut(Order{Task: Task{Deadline: time.Minute}})
		if d := time.Since(start); r.End != EndStuck || !strings.Contains(r.Text, "after it was killed") || d >= time.Minute+killTime+answerTime {
			t.Errorf("after %v: %+v", d, r)
		}
		start = time.Now()
		held(t.Context()).discard()
		if d := time.Since(start); d > leaveTime {
			t.Errorf("discarded after %v", d)
		}
	})
}

// TestProbeEnvironment checks the world of a group.
func TestProbeEnvironment(t *testing.T) {
	tester := Tester{
		Self: Rank{Rank: 5, Node: 2}, Probe: shell("env; cat"),
		Env: []string{"PATH=/usr/bin:/bin", "RANK=5", "WORLD_SIZE=8", "GORUN_WORKER_SOCKET=/s", "MASTER_ADDR=a", "CUDA_VISIBLE_DEVICES=1"},
	}
	p := Plan{Step: 3, Groups: []Group{{[]int{1, 2}, []int{0, 1}}, {[]int{0, 4, 5}, []int{0, 2, 2}}}}
	task := p.tasks()[4]
	if task.Rank != 5 {
		t.Fatalf("%+v", task)
	}
	task.Deadline = time.Minute
	process := tester.start(t.Context(), false)
	process.carryOut(Order{task.Task, tester.world(task.Task)})
	got := string(process.out.text)
	for _, want := range []string{"MASTER_ADDR=a\n", "CUDA_VISIBLE_DEVICES=1\n", fmt.Sprintf(`"env":["RANK=2","WORLD_SIZE=3","LOCAL_RANK=1","LOCAL_WORLD_SIZE=2","GROUP_RANK=1","GROUP_WORLD_SIZE=2","GORUN_ROUND=%d","GORUN_RUN_ID=selftest-3-1"]`, (firstRound+3)<<groupBits+1)} {
		if !strings.Contains(got, want) {
			t.Errorf("no %s in %s", want, got)
		}
	}
	if strings.Contains(got, "GORUN_WORKER_SOCKET") {
		t.Errorf("the process has the agent's socket: %s", got)
	}
}

// TestTestersThatDoNotAnswer checks that the conductor waits for all of them once, not
// longer, and names them.
func TestTestersThatDoNotAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMemoryStore()
		for i, r := range fleet(2, 2, 2, 2) {
			text, _ := json.Marshal(r)
			_ = store.Set(t.Context(), rankKey(i), text)
			if r.Node != 2 {
				_ = store.Set(t.Context(), resultKey(i, 0), []byte(`{"end":"passed"}`))
			}
		}
		tester := Tester{Self: Rank{}, Size: 8, Store: store}
		start := time.Now()
		r, err := tester.conduct(t.Context(), ScopeFull)
		if err != nil || r.Failure == nil || !slices.Equal(r.Failure.Nodes, []int{2}) || !strings.Contains(r.Failure.Text, "its tester did not answer") {
			t.Errorf("%v: %+v", err, r)
		}
		if d := time.Since(start); d > time.Minute {
			t.Errorf("it took %v", d)
		}
	})
}

// FuzzObey gives a tester what others may have put into the store.
func FuzzObey(f *testing.F) {
	f.Add([]byte(`{"task":{"step":0,"kind":"load","place":{"rank":0,"size":1},"deadline":1}}`))
	f.Add([]byte(`{"task":{"group":-1,"place":{"rank":-1}}}`))
	f.Add([]byte(`{"report":{"failure":{}}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		store := newMemoryStore()
		store.values[taskKey(0, 0)] = text
		store.values[taskKey(0, 1)] = []byte(`{"report":{"ok":true}}`)
		tester := Tester{Store: store, Probe: shell("exit 0")}
		var m message
		if json.Unmarshal(text, &m) == nil && m.Task != nil && m.Task.Deadline > time.Second {
			return
		}
		if r, err := tester.obey(t.Context()); err == nil {
			var out bytes.Buffer
			if err := r.WriteTable(&out); err != nil {
				t.Error(err)
			}
		}
	})
}
