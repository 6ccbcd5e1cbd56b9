package selftest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// memoryStore is a Store in this process.
type memoryStore struct {
	mu      sync.Mutex
	changed *sync.Cond
	values  map[string][]byte
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
	return s.values[key], nil
}

// shell returns a Probe that runs a script.
func shell(script string) func(ctx context.Context, env []string, stdin io.Reader) *exec.Cmd {
	return func(ctx context.Context, env []string, stdin io.Reader) *exec.Cmd {
		cmd := exec.CommandContext(ctx, "sh", "-c", script)
		cmd.Env, cmd.Stdin = append(env, "PATH=/usr/bin:/bin"), stdin
		return cmd
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

func TestEveryTesterLearnsTheFault(t *testing.T) {
	for rank, r := range testers(t, fleet(2, 2), func(rank int) string {
		if rank == 2 {
			return `cat >/dev/null; test "$WORLD_SIZE" = 1 || { echo "cannot open shared object" >&2; exit 9; }; ` + passes
		}
		return passes
	}) {
		if r.Failure == nil || !strings.Contains(r.Failure.Text, "rank 2 on node1 crashed: exit status 9 cannot open shared object") {
			t.Errorf("rank %d: %+v", rank, r.Failure)
		}
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
		r := tester.probe(t.Context(), &Plan{Deadline: 200 * time.Millisecond, Groups: []Group{{Ranks: []int{1}, Nodes: []int{0}}}}, 0)
		if r.End != c.end || !strings.Contains(r.Text, c.text) || len(r.Text) > 1000 {
			t.Errorf("%s: %+v", c.script, r)
		}
		if d := time.Since(start); d > 30*time.Second {
			t.Errorf("%s took %v", c.script, d)
		}
	}
}

// TestProbeEnvironment checks the world of a group.
func TestProbeEnvironment(t *testing.T) {
	tester := Tester{
		Self: Rank{Rank: 5, Node: 2},
		Env:  []string{"RANK=5", "WORLD_SIZE=8", "GORUN_WORKER_SOCKET=/s", "MASTER_ADDR=a", "LOCAL_RANK=1", "CUDA_VISIBLE_DEVICES=1"},
	}
	p := Plan{Step: 3, Groups: []Group{{[]int{1, 2}, []int{0, 1}}, {[]int{0, 4, 5}, []int{0, 2, 2}}}}
	got := strings.Join(tester.environ(&p, 1), " ")
	want := fmt.Sprintf("MASTER_ADDR=a CUDA_VISIBLE_DEVICES=1 GORUN_ROUND=%d GORUN_RUN_ID=selftest-3-1 GROUP_RANK=1 GROUP_WORLD_SIZE=2 LOCAL_RANK=1 LOCAL_WORLD_SIZE=2 RANK=2 WORLD_SIZE=3",
		(firstRound+3)<<groupBits+1)
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// TestTestersThatDoNotAnswer checks that the conductor waits for all of them once, not
// longer, and names them.
func TestTestersThatDoNotAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMemoryStore()
		for i, r := range fleet(2, 2) {
			text, _ := json.Marshal(r)
			_ = store.Set(t.Context(), rankKey(i), text)
		}
		tester := Tester{Self: Rank{}, Size: 4, Store: store}
		start := time.Now()
		r, err := tester.conduct(t.Context(), ScopeFull)
		if err != nil || r.Failure == nil || len(r.Failure.Ranks) != 4 || !strings.Contains(r.Failure.Text, "its tester did not answer") {
			t.Errorf("%v: %+v", err, r)
		}
		if d := time.Since(start); d > time.Minute {
			t.Errorf("it took %v", d)
		}
	})
}

// FuzzObey gives a tester what others may have put into the store.
func FuzzObey(f *testing.F) {
	f.Add([]byte(`{"plan":{"step":0,"rung":"x","kind":"load","groups":[{"ranks":[0],"nodes":[0]}],"deadline":1}}`))
	f.Add([]byte(`{"plan":{"groups":[{"ranks":[0,0],"nodes":[0]}]}}`))
	f.Add([]byte(`{"report":{"failure":{}}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		store := newMemoryStore()
		store.values[planKey(0)] = text
		store.values[planKey(1)] = []byte(`{"report":{"ok":true}}`)
		tester := Tester{Store: store, Probe: shell("exit 0")}
		var m message
		if json.Unmarshal(text, &m) == nil && m.Plan != nil && m.Plan.Deadline > time.Second {
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
