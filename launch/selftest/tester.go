package selftest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gorun/gorun/internal/term"
	"github.com/gorun/gorun/worker"
	"github.com/gorun/gorun/worker/contract"
)

const (
	// maxPlan and maxResult bound what a tester reads from the store and from a probe. A
	// plan of 65,536 ranks has 0.5 MB.
	maxPlan, maxResult = 4 << 20, 64 << 10
	// answerTime is how long a result may take after the deadline of its process.
	answerTime = 15 * time.Second
	// lookTime is how long a result is looked for after the time for all answers is over.
	lookTime = 200 * time.Millisecond
	// killTime is how long a probe gets to end by itself after its deadline.
	killTime = 2 * time.Second
	// firstRound and groupBits number the worlds of probes: by step and group, above any
	// round of a job, so that worlds share no keys in the store.
	firstRound = 1 << 24
	groupBits  = 20
)

// RankCommand is the command of gorun that a worker runs to test. ProbeFlag makes it a
// process of a rung.
const (
	RankCommand = "selftest-rank"
	ProbeFlag   = "probe"
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
}

// Tester is one worker of the job while the self-test runs. It starts the probes of its
// rank, as the plans in the store say.
type Tester struct {
	Self  Rank
	Size  int // ranks of the job
	Store Store
	// Probe starts the process of a rank, with the environment of the group's world
	// instead of the job's.
	Probe func(ctx context.Context, env []string, stdin io.Reader) *exec.Cmd
	Env   []string // of this worker
	// Say shows progress, a line at a time; nil: nothing is shown.
	Say func(format string, args ...any)
}

// TesterOf returns the tester of a worker.
func TesterOf(w *worker.World, store Store, host string) *Tester {
	return &Tester{
		Self: Rank{Rank: w.Rank(), Local: w.LocalRank(), Node: w.Node(), Host: host, Device: w.Device()},
		Size: w.Size(), Store: store,
	}
}

// message is what the conductor tells all testers: the next plan, or the end.
type message struct {
	Plan   *Plan   `json:"plan,omitempty"`
	Report *Report `json:"report,omitempty"`
}

func planKey(step int) string         { return fmt.Sprintf("selftest/plan/%d", step) }
func resultKey(step, rank int) string { return fmt.Sprintf("selftest/result/%d/%d", step, rank) }
func rankKey(rank int) string         { return fmt.Sprintf("selftest/rank/%d", rank) }

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
	l := NewLadder(ranks, scope)
	var results []Result
	for step := 0; ; step++ {
		plan, more := l.Next(results)
		if !more {
			whole := l.Report()
			told := Report{OK: whole.OK, Failure: whole.Failure} // the rest may have megabytes
			return whole, t.set(ctx, planKey(step), message{Report: &told})
		}
		t.say("%s: %s", plan.Rung, groupsText(plan.Groups))
		if err := t.set(ctx, planKey(step), message{Plan: &plan}); err != nil {
			return nil, err
		}
		results = nil
		until := time.Now().Add(plan.Deadline + killTime + answerTime)
		for _, rank := range ranksOf(plan.Groups) {
			var r Result
			if err := t.get(ctx, resultKey(plan.Step, rank), max(time.Until(until), lookTime), &r); err != nil {
				if ctx.Err() != nil {
					return nil, context.Cause(ctx)
				}
				r = Result{End: EndStuck, Text: "its tester did not answer"}
			}
			r = r.checked(rank)
			results = append(results, r)
		}
	}
}

func ranksOf(groups []Group) []int {
	var ranks []int
	for _, g := range groups {
		ranks = append(ranks, g.Ranks...)
	}
	return ranks
}

func groupsText(groups []Group) string {
	largest := 0
	for _, g := range groups {
		largest = max(largest, len(g.Ranks))
	}
	if len(groups) == 1 {
		return fmt.Sprintf("%d ranks together", largest)
	}
	return fmt.Sprintf("%d groups of %d at once", len(groups), largest)
}

// obey carries out plans until the report comes.
func (t *Tester) obey(ctx context.Context) (*Report, error) {
	for step := 0; ; step++ {
		var m message
		if err := t.get(ctx, planKey(step), 0, &m); err != nil {
			return nil, err
		}
		if m.Report != nil {
			return m.Report, nil
		}
		if m.Plan == nil {
			return nil, errors.New("the self-test has neither a plan nor an end")
		}
		for i, group := range m.Plan.Groups {
			if len(group.Nodes) != len(group.Ranks) {
				return nil, fmt.Errorf("step %d of the self-test has %d ranks and %d nodes in a group", step, len(group.Ranks), len(group.Nodes))
			}
			if slices.Contains(group.Ranks, t.Self.Rank) {
				if err := t.set(ctx, resultKey(step, t.Self.Rank), t.probe(ctx, m.Plan, i)); err != nil {
					return nil, err
				}
			}
		}
	}
}

// probe runs the process of this rank.
func (t *Tester) probe(ctx context.Context, p *Plan, group int) Result {
	ctx, cancel := context.WithTimeout(ctx, p.Deadline+killTime)
	defer cancel()
	mine := *p
	mine.Groups = nil // the environment has it
	in, err := json.Marshal(mine)
	if err != nil {
		return Result{End: EndFailed, Text: err.Error()}
	}
	cmd := t.Probe(ctx, t.environ(p, group), bytes.NewReader(in))
	var out, errs tail
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &out, &errs, killTime
	err = cmd.Run()
	var r Result
	if json.Unmarshal(out.last(), &r) == nil && r.End != "" {
		return r.checked(t.Self.Rank)
	}
	switch {
	case ctx.Err() != nil:
		return Result{End: EndStuck, Text: fmt.Sprintf("killed after %v %s", p.Deadline+killTime, shorten(string(errs.last())))}
	case err == nil:
		return Result{End: EndCrashed, Text: "it ended without a result"}
	}
	return Result{End: EndCrashed, Text: shorten(fmt.Sprintf("%v %s", err, errs.last()))}
}

// environ returns the environment of this rank's process: that of the worker, in the world
// of its group. A probe has no agent, so the job does not take its end for a worker's.
func (t *Tester) environ(p *Plan, group int) []string {
	of := p.Groups[group]
	me := slices.Index(of.Ranks, t.Self.Rank)
	var nodes []int // of the group
	var here []int  // its ranks on this node
	for i, rank := range of.Ranks {
		if !slices.Contains(nodes, of.Nodes[i]) {
			nodes = append(nodes, of.Nodes[i])
		}
		if of.Nodes[i] == of.Nodes[me] {
			here = append(here, rank)
		}
	}
	set := map[string]string{
		"RANK": strconv.Itoa(me), "WORLD_SIZE": strconv.Itoa(len(of.Ranks)),
		"LOCAL_RANK": strconv.Itoa(slices.Index(here, t.Self.Rank)), "LOCAL_WORLD_SIZE": strconv.Itoa(len(here)),
		"GROUP_RANK": strconv.Itoa(slices.Index(nodes, of.Nodes[me])), "GROUP_WORLD_SIZE": strconv.Itoa(len(nodes)),
		contract.EnvRound:  strconv.Itoa((firstRound+p.Step)<<groupBits + group),
		contract.EnvRunID:  fmt.Sprintf("selftest-%d-%d", p.Step, group),
		contract.EnvSocket: "",
	}
	env := slices.DeleteFunc(slices.Clone(t.Env), func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		_, replaced := set[name]
		return replaced
	})
	for _, name := range slices.Sorted(maps.Keys(set)) {
		if set[name] != "" {
			env = append(env, name+"="+set[name])
		}
	}
	return env
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
	if len(text) > maxPlan {
		return fmt.Errorf("%s has %d bytes", key, len(text))
	}
	return json.Unmarshal(text, v)
}

// tail keeps the end of what is written to it.
type tail struct{ text []byte }

func (t *tail) Write(p []byte) (int, error) {
	t.text = append(t.text, p...)
	if over := len(t.text) - maxResult; over > 0 {
		t.text = append(t.text[:0], t.text[over:]...)
	}
	return len(p), nil
}

// last returns the last line that is not empty.
func (t *tail) last() []byte {
	text := bytes.TrimSpace(t.text)
	return text[bytes.LastIndexByte(text, '\n')+1:]
}

// checked returns the result that another process gives for a rank, in one line.
func (r Result) checked(rank int) Result {
	if r.End != EndPassed && r.End.severity() < 0 {
		r = Result{End: EndFailed, Text: fmt.Sprintf("its end is %q", shorten(string(r.End)))}
	}
	r.Rank, r.Text = rank, shorten(r.Text)
	return r
}

func shorten(text string) string { return term.OneLine(strings.TrimSpace(text)) }
