package selftest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gorun/gorun/internal/term"
	"github.com/gorun/gorun/worker"
	"github.com/gorun/gorun/worker/contract"
)

const (
	// maxMessage bounds what a tester reads from the store, and a probe from its tester.
	maxMessage = 1 << 20
	// maxResult bounds what a tester reads from a probe.
	maxResult = 64 << 10
	// answerTime is how long a result may take after the deadline of its process.
	answerTime = 15 * time.Second
	// lookTime is how long a result is looked for after the time for all answers is over.
	lookTime = 200 * time.Millisecond
	// killTime is how long a probe gets to end by itself after its deadline.
	killTime = 2 * time.Second
	// partnerTime is how long a probe goes on after another rank of its group failed by itself.
	// Ranks that all fail so get the time for it.
	partnerTime = 2 * time.Second
	// watchDelay is how long a probe runs before its tester looks for such a rank. Most tests
	// are over then.
	watchDelay = time.Second
	// firstRound and groupBits number the worlds of probes: by step and group, above any
	// round of a job, so that worlds share no keys in the store.
	firstRound = 1 << 24
	groupBits  = 20
)

// RankCommand is the command of gorun that a worker runs to test. ProbeFlag makes it a
// process of a rung, and GPUFlag one that begins with the GPU.
const (
	RankCommand = "selftest-rank"
	ProbeFlag   = "probe"
	GPUFlag     = "gpu"
)

// Before returns the arguments of a worker that tests, and then executes the program whose
// path and arguments follow.
func Before() []string { return []string{"gorun", RankCommand, "--quick", "--"} }

// stopTime is how long a rank waits for the agent, which stops all workers because of what
// rank 0 reports.
const stopTime = 10 * time.Second

// AwaitStop returns the failure once the job stops because of it.
func AwaitStop(ctx context.Context, f *Failure) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(stopTime):
		return f
	}
}

// Store is the part of the job's store that testers use.
type Store interface {
	Set(ctx context.Context, key string, value []byte) error
	Get(ctx context.Context, key string) ([]byte, error)
	Delete(ctx context.Context, key string) (bool, error)
}

// Tester is one worker of the job while the self-test runs. It starts the probes of its
// rank, as the plans in the store say.
type Tester struct {
	Self  Rank
	Size  int // ranks of the job
	Store Store
	// Probe makes the process of a rank, which reads an Order. onGPU says that it begins
	// with the GPU.
	Probe   func(ctx context.Context, onGPU bool) *exec.Cmd
	Env     []string // of this worker
	Compute Compute  // that the user asked for
	// Say shows progress, a line at a time; nil: nothing is shown.
	Say func(format string, args ...any)
}

// TesterOf returns the tester of a worker.
func TesterOf(w *worker.World, store Store, host string) *Tester {
	return &Tester{
		Self: Rank{Rank: w.Rank(), Local: w.LocalRank(), Node: w.Node(), Host: host, Device: w.Device(), OnlyCPU: !HasGPU},
		Size: w.Size(), Store: store,
	}
}

// message is what the conductor tells one rank: its next task, or the end. So a rank reads
// a few hundred bytes for each step that it takes part in, however many ranks there are.
type message struct {
	Task   *Task   `json:"task,omitempty"`
	Report *Report `json:"report,omitempty"`
}

// The n-th task of a rank, and its result, from 0.
func taskKey(rank, n int) string   { return fmt.Sprintf("selftest/task/%d/%d", rank, n) }
func resultKey(rank, n int) string { return fmt.Sprintf("selftest/result/%d/%d", rank, n) }
func rankKey(rank int) string      { return fmt.Sprintf("selftest/rank/%d", rank) }

// failedKey is set once a rank of a group has failed by itself.
func failedKey(step, group int) string { return fmt.Sprintf("selftest/failed/%d/%d", step, group) }

// Run plays the ladder with all testers of the job and returns what it found: at rank 0,
// whose tester conducts, the whole report, elsewhere the verdict.
func (t *Tester) Run(ctx context.Context, scope Scope) (*Report, error) {
	if err := t.set(ctx, rankKey(t.Self.Rank), t.Self); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if t.Self.Rank > 0 {
		return t.obey(ctx)
	}
	type outcome struct {
		report *Report
		err    error
	}
	conducted := make(chan outcome, 1)
	go func() {
		report, err := t.conduct(ctx, scope)
		if err != nil {
			cancel(err)
		}
		conducted <- outcome{report, err}
	}()
	_, err := t.obey(ctx)
	if err != nil {
		cancel(err)
	}
	whole := <-conducted
	if whole.err != nil {
		return nil, whole.err
	}
	return whole.report, err
}

// conduct plays the ladder: plans out, results in, at last the report.
func (t *Tester) conduct(ctx context.Context, scope Scope) (*Report, error) {
	ranks := make([]Rank, t.Size)
	for i := range ranks {
		if err := t.get(ctx, rankKey(i), answerTime, &ranks[i]); err != nil {
			return nil, fmt.Errorf("rank %d did not begin the self-test: %w", i, err)
		}
		r := &ranks[i]
		if r.Rank != i || r.Node < 0 || r.Node >= t.Size {
			return nil, fmt.Errorf("rank %d announced itself as rank %d of node %d", i, r.Rank, r.Node)
		}
		r.Host, r.Device = term.OneLine(r.Host), term.OneLine(r.Device)
	}
	for node := range slices.MaxFunc(ranks, func(a, b Rank) int { return a.Node - b.Node }).Node {
		if !slices.ContainsFunc(ranks, func(r Rank) bool { return r.Node == node }) {
			return nil, fmt.Errorf("no rank announced itself as one of node %d", node)
		}
	}
	l, err := t.ladder(ranks, scope)
	if err != nil {
		return nil, err
	}
	given := make([]int, t.Size) // tasks of each rank
	var results []Result
	for {
		plan, more := l.Next(results)
		if !more {
			whole := l.Report()
			told := Report{OK: whole.OK, Failure: whole.Failure} // the rest may have megabytes
			for rank, n := range given {
				if err := t.set(ctx, taskKey(rank, n), message{Report: &told}); err != nil {
					return nil, err
				}
			}
			return whole, nil
		}
		t.say("%s", plan.text())
		tasks := plan.tasks()
		for _, task := range tasks {
			if err := t.set(ctx, taskKey(task.Rank, given[task.Rank]), message{Task: &task.Task}); err != nil {
				return nil, err
			}
		}
		results = nil
		until := time.Now().Add(plan.Deadline + killTime + answerTime)
		for _, task := range tasks {
			r, err := t.await(ctx, resultKey(task.Rank, given[task.Rank]), until)
			if err != nil {
				return nil, err
			}
			given[task.Rank]++
			results = append(results, r.checked(task.Rank))
		}
		if err := t.forget(ctx, tasks, results); err != nil {
			return nil, err
		}
	}
}

// forget removes the keys of groups with a rank that failed by itself.
func (t *Tester) forget(ctx context.Context, tasks []rankTask, results []Result) error {
	for i, task := range tasks {
		if task.Place.Size == 1 || !results[i].End.isOwn() {
			continue
		}
		if _, err := t.Store.Delete(ctx, failedKey(task.Step, task.Group)); err != nil {
			return err
		}
	}
	return nil
}

// ladder returns the ladder for the ranks. It computes on GPUs if each rank has one.
func (t *Tester) ladder(ranks []Rank, scope Scope) (*Ladder, error) {
	counts := make(map[int]int) // ranks with a GPU, by node
	with, without := 0, 0
	old := ""
	for _, r := range ranks {
		if r.Device != "" {
			counts[r.Node]++
			with++
		} else {
			without++
		}
		if r.OnlyCPU {
			old = r.Host
		}
	}
	switch {
	case t.Compute == ComputeGPU && old != "":
		return nil, fmt.Errorf("the gorun of %s is built without C, and cannot compute on GPUs", old)
	case t.Compute == ComputeCPU, t.Compute != ComputeGPU && with == 0:
		return NewLadder(ranks, scope, ComputeCPU), nil
	case t.Compute != ComputeGPU && old != "":
		l := NewLadder(ranks, scope, ComputeCPU)
		l.warn("the gorun of %s is built without C: the GPUs are not tested", old)
		return l, nil
	case t.Compute != ComputeGPU && without > 0 && !differ(counts, ranks):
		l := NewLadder(ranks, scope, ComputeCPU)
		l.warn("%d of %d ranks have no GPU of their own: the GPUs are not tested", without, len(ranks))
		return l, nil
	}
	l := NewLadder(ranks, scope, ComputeGPU)
	l.mayUseCPU = t.Compute != ComputeGPU
	if with > 0 && differ(counts, ranks) {
		l.failCounts(counts)
	}
	return l, nil
}

// differ reports whether nodes have different numbers of ranks with a GPU.
func differ(counts map[int]int, ranks []Rank) bool {
	return slices.ContainsFunc(ranks, func(r Rank) bool { return counts[r.Node] != counts[ranks[0].Node] })
}

// await returns the result under a key, and removes it from the store.
func (t *Tester) await(ctx context.Context, key string, until time.Time) (Result, error) {
	var r Result
	if err := t.get(ctx, key, max(time.Until(until), lookTime), &r); err != nil {
		if ctx.Err() != nil {
			return Result{}, context.Cause(ctx)
		}
		return Result{End: EndStuck, Text: noAnswer}, nil
	}
	_, err := t.Store.Delete(ctx, key)
	return r, err
}

// noAnswer is why a rank without a result did not pass.
const noAnswer = "its tester did not answer"

// obey carries out tasks until the report comes. If the GPU may be needed, the next
// process prepares it while the present one tests.
func (t *Tester) obey(ctx context.Context) (*Report, error) {
	onGPU := HasGPU && (t.Compute == ComputeGPU || t.Compute != ComputeCPU && t.Self.Device != "")
	var next *process
	defer func() { next.discard() }()
	for n := 0; ; n++ {
		if onGPU && next == nil {
			next = t.start(ctx, true)
		}
		var m message
		key := taskKey(t.Self.Rank, n)
		if err := t.get(ctx, key, 0, &m); err != nil {
			return nil, err
		}
		if m.Report != nil {
			return m.Report, nil
		}
		if m.Task == nil {
			return nil, errors.New("the self-test has neither a task nor an end")
		}
		if _, err := t.Store.Delete(ctx, key); err != nil {
			return nil, err
		}
		present := next
		if next = nil; present == nil {
			present = t.start(ctx, false)
		}
		result := make(chan Result, 1)
		go func() { result <- present.carryOut(Order{*m.Task, t.world(*m.Task)}) }()
		if onGPU = onGPU && m.Task.Compute == ComputeGPU && !m.Task.Last; onGPU {
			next = t.start(ctx, true)
		}
		r, err := t.finish(ctx, m.Task, present, result)
		if err != nil {
			return nil, err
		}
		if err := t.set(ctx, resultKey(t.Self.Rank, n), r.checked(t.Self.Rank)); err != nil {
			return nil, err
		}
	}
}

// finish returns the result of a process. It tells the other ranks of the group if this one
// failed by itself, and ends the process if another one did, for which it might wait until
// its deadline.
func (t *Tester) finish(ctx context.Context, task *Task, p *process, result <-chan Result) (Result, error) {
	if task.Place.Size <= 1 {
		return <-result, nil
	}
	key := failedKey(task.Step, task.Group)
	watch, stop := context.WithCancel(ctx)
	var watching sync.WaitGroup
	watching.Go(func() {
		if !pause(watch, watchDelay) {
			return
		}
		if _, err := t.Store.Get(watch, key); err == nil && pause(watch, partnerTime) {
			p.cancel(errPartner)
		}
	})
	r := <-result
	stop()
	watching.Wait()
	if r.End.isOwn() {
		return r, t.Store.Set(ctx, key, []byte("1"))
	}
	return r, nil
}

// pause returns after d, or false once ctx ends.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// world returns the environment of the group's world for this rank.
func (t *Tester) world(task Task) []string {
	p := task.Place
	return []string{
		"RANK=" + strconv.Itoa(p.Rank), "WORLD_SIZE=" + strconv.Itoa(p.Size),
		"LOCAL_RANK=" + strconv.Itoa(p.Local), "LOCAL_WORLD_SIZE=" + strconv.Itoa(p.Locals),
		"GROUP_RANK=" + strconv.Itoa(p.Node), "GROUP_WORLD_SIZE=" + strconv.Itoa(p.Nodes),
		fmt.Sprintf("%s=%d", contract.EnvRound, (firstRound+task.Step)<<groupBits+task.Group),
		fmt.Sprintf("%s=selftest-%d-%d", contract.EnvRunID, task.Step, task.Group),
	}
}

func (t *Tester) say(format string, args ...any) {
	if t.Say != nil {
		t.Say(format, args...)
	}
}

// set stores v as JSON.
func (t *Tester) set(ctx context.Context, key string, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return t.Store.Set(ctx, key, text)
}

// get waits at most d for a key and decodes its value; 0: as long as ctx.
func (t *Tester) get(ctx context.Context, key string, d time.Duration, v any) error {
	if d > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, d)
		defer cancel()
	}
	text, err := t.Store.Get(ctx, key)
	if err != nil {
		return err
	}
	if len(text) > maxMessage {
		return fmt.Errorf("%s has %d bytes", key, len(text))
	}
	return json.Unmarshal(text, v)
}

// checked returns the result that another process gives for a rank, in one line.
func (r Result) checked(rank int) Result {
	if r.End != EndPassed && r.End.severity() < 0 {
		r = Result{End: EndFailed, Text: fmt.Sprintf("its end is %q", shorten(string(r.End)))}
	}
	r.Rank, r.Text = rank, shorten(r.Text)
	if r.GPU != nil {
		g := *r.GPU
		for _, text := range []*string{&g.Model, &g.UUID, &g.Host, &g.Library} {
			*text = shorten(*text)
		}
		r.GPU = &g
	}
	r.Timing = slices.DeleteFunc(slices.Clone(r.Timing), func(t Timing) bool { return t.Bytes <= 0 || t.Seconds < 0 })
	return r
}

func shorten(text string) string { return term.OneLine(strings.TrimSpace(text)) }
