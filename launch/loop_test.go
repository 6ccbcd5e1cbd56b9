package launch

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gorun/gorun/internal/environ"
	"github.com/gorun/gorun/internal/term"
	"github.com/gorun/gorun/launch/check"
	"github.com/gorun/gorun/launch/console"
	"github.com/gorun/gorun/launch/logs"
	"github.com/gorun/gorun/launch/meet"
	"github.com/gorun/gorun/launch/place"
	"github.com/gorun/gorun/launch/process/processtest"
	"github.com/gorun/gorun/launch/program"
	"github.com/gorun/gorun/launch/socket"
	"github.com/gorun/gorun/launch/spec"
	"github.com/gorun/gorun/launch/status"
	"github.com/gorun/gorun/launch/watch"
	"github.com/gorun/gorun/launch/workers"
	"github.com/gorun/gorun/rendezvous"
	"github.com/gorun/gorun/rendezvous/drive"
	"github.com/gorun/gorun/rendezvous/memory"
	"golang.org/x/sys/unix"
)

// noGPUs is a node without a driver.
type noGPUs struct{ place.Driver }

func (noGPUs) HasDriver() bool { return false }

// fakeChecker refuses every world.
type fakeChecker struct{ a *agent }

func (c fakeChecker) Start(context.Context, rendezvous.Node, check.Trust) {
	c.a.events.post(rendezvous.Facts{Body: []byte("{}")})
}

func (c fakeChecker) Compare(_ context.Context, r rendezvous.Compare) {
	cause := rendezvous.Cause{Kind: rendezvous.KindPreflight, Message: "V01", GroupRank: -1, Rank: -1, LocalRank: -1}
	c.a.events.post(rendezvous.Compared{Serial: r.Serial, Outcome: &rendezvous.Outcome{Code: rendezvous.ExitPreflight, Cause: &cause}})
}

func (c fakeChecker) Answer(context.Context, rendezvous.Ask) {}

func (c fakeChecker) Torch() string { return "" }

func (c fakeChecker) GoNCCL() string { return "" }

// testAgent is an agent with fake workers. It joins the others in memory.
type testAgent struct {
	*agent
	table   *processtest.Table[workers.Process]
	signals chan os.Signal
	keeper  chan struct{}
	output  bytes.Buffer
	outcome atomic.Pointer[rendezvous.Outcome]
	err     error         // error of the build
	ended   chan struct{} // closed when the agent has ended
	cancel  context.CancelFunc
}

// testJob holds the agents of one job, with two workers each.
type testJob struct {
	t      *testing.T
	agents []*testAgent
}

// runJob runs a job of n agents until they have ended, while do acts on them. prepare,
// if not nil, changes each agent before it starts.
func runJob(t *testing.T, n int, prepare func(i int, p *testAgent), do func(f *testJob)) *testJob {
	t.Helper()
	dirs := make([]string, n)
	for i := range dirs {
		dirs[i] = t.TempDir()
	}
	f := &testJob{t: t}
	synctest.Test(t, func(t *testing.T) {
		net := memory.NewNet(memory.NetOptions{
			Delay:       func(string, string, int) time.Duration { return time.Millisecond },
			SilentAfter: time.Second, Silence: 3 * time.Second, Dial: time.Second,
		})
		var peers []rendezvous.Peer
		for i := range n {
			p := newTestAgent(t, i, n, dirs[i])
			f.agents = append(f.agents, p)
			peers = append(peers, rendezvous.Peer{ID: p.node.ID, Name: p.node.Name(), Control: p.node.Control, Endpoint: p.node.Endpoint})
			if prepare != nil {
				prepare(i, p)
			}
		}
		for _, p := range f.agents {
			p.run(t.Context(), net, peers)
		}
		do(f)
		f.waitUntil("all agents have ended", func() bool {
			return !slices.ContainsFunc(f.agents, func(p *testAgent) bool { return p.outcome.Load() == nil })
		})
		for _, p := range f.agents {
			<-p.ended
		}
	})
	return f
}

func newTestAgent(t *testing.T, i, n int, dir string) *testAgent {
	p := &testAgent{table: processtest.NewTable[workers.Process](), signals: make(chan os.Signal, 4), keeper: make(chan struct{}), ended: make(chan struct{})}
	addr := fmt.Sprintf("10.0.0.%d", i+1)
	b := &base{
		started: time.Now(), events: newQueue(), console: &console.Console{Console: term.NewConsole(&p.output, "gorun", nil)},
		opts: Options{Signals: p.signals, Keeper: p.keeper, Spec: spec.Spec{End: spec.End{ShutdownTimeout: 30 * time.Second}, Nodes: spec.Nodes{MinNodes: n, MaxNodes: n}}},
		node: rendezvous.Node{
			ID: rendezvous.NodeID(fmt.Sprintf("agent%d", i)), RunID: "run", Protocol: rendezvous.Protocol, Host: fmt.Sprintf("n%d", i), Addr: addr,
			Control: addr + ":1", Store: addr + ":2", Workers: 2, Role: "default", NodeRank: i, Endpoint: -1, Min: n, Max: n,
		},
	}
	if i == 0 {
		b.node.Endpoint = 0
	}
	files, err := logs.ParseStd("3")
	if err != nil {
		t.Fatal(err)
	}
	folders, err := logs.NewFolders(logs.FolderOptions{Base: dir, RunID: "run", Workers: 2})
	if err != nil {
		t.Fatal(err)
	}
	places := place.NewPlacement(place.Config{Driver: noGPUs{}})
	places.Make(t.Context(), place.Workers{Count: 2})
	silent := status.NewService(status.ServiceOptions{NoSocket: true, Started: b.started, Wait: &b.wg, Say: b.console.Say})
	p.agent = &agent{
		base: b, env: environment{base: b}, status: silent, hangs: hangs{node: watch.NewNode(watch.NodeOptions{})}, placement: places, session: &meet.Session{Store: &meet.Store{}},
		workers: &supervisor{
			base: b, processes: p.table, output: logs.Output{Folders: folders, Redirect: files}, socket: socket.NewUnreachable(),
			store: &meet.Store{}, placement: places,
		},
	}
	return p
}

// run starts the agent's loop.
func (p *testAgent) run(ctx context.Context, net *memory.Net, peers []rendezvous.Peer) {
	ctx, p.cancel = context.WithCancel(ctx)
	end := net.Attach(p.node.Control, p.events.post)
	p.wg.Go(func() { end.Serve(ctx) })
	p.machine = &drive.Machine{
		Machine: rendezvous.New(rendezvous.Config{
			Self: p.node, MaxRestarts: p.opts.Spec.MaxRestarts, Endpoints: 1, Where: "n0", Check: p.check != nil, Takeover: true,
			Token: rand.Text, Timeouts: rendezvous.Timeouts{Join: time.Minute, LastCall: time.Second, Rejoin: 5 * time.Second, Retry: 50 * time.Millisecond},
		}, time.Now()),
		Streams: end, Post: p.events.post, Wait: &p.wg,
	}
	p.events.post(rendezvous.Peers{All: peers})
	p.events.Put(programBuilt{program: program.Program{Path: "/prog", Argv: func(int) []string { return []string{"prog"} }}, code: 1, err: p.err})
	if p.check != nil {
		p.check.Start(ctx, p.node, check.Trust{})
	}
	p.watchSignals(ctx)
	go p.console.Run()
	go func() {
		defer close(p.ended)
		o := p.loop(ctx)
		p.workers.close()
		if o.Cause != nil && o.Cause.Kind == rendezvous.KindLost && o.Cause.Node == p.node.ID {
			end.Kill() // as the process would
		}
		p.outcome.Store(&o)
		p.cancel()
		p.wg.Wait()
		p.console.Close()
	}()
}

// waitUntil waits until a condition holds.
func (f *testJob) waitUntil(what string, ok func() bool) {
	f.t.Helper()
	for limit := time.Now().Add(5 * time.Minute); ; time.Sleep(100 * time.Millisecond) {
		synctest.Wait()
		if ok() {
			return
		}
		if time.Now().After(limit) {
			for _, p := range f.agents {
				f.t.Logf("%s: %+v, it printed:\n%s", p.node.Host, p.outcome.Load(), p.output.String())
			}
			f.t.Fatalf("still not true: %s", what)
		}
	}
}

// waitForRounds waits until every agent has started the workers of this number of rounds.
func (f *testJob) waitForRounds(rounds int) {
	f.t.Helper()
	f.waitUntil(fmt.Sprintf("the workers of %d rounds were started", rounds), func() bool {
		return !slices.ContainsFunc(f.agents, func(p *testAgent) bool { return p.table.Rounds() != rounds })
	})
}

// endAll ends the workers that run on every node.
func (f *testJob) endAll(code int) {
	for _, p := range f.agents {
		for local := range 2 {
			p.table.Processes()[local].End(code, 0)
		}
	}
}

// checkOutcomes compares the outcome of every agent.
func (f *testJob) checkOutcomes(code int, kind rendezvous.Kind, rank int) {
	f.t.Helper()
	for _, p := range f.agents {
		o := p.outcome.Load()
		if o.Code != code || (o.Cause != nil) != (kind != "") || o.Cause != nil && (o.Cause.Kind != kind || o.Cause.Rank != rank) {
			f.t.Errorf("%s: code %d, cause %+v; want %d, %q, rank %d", p.node.Host, o.Code, o.Cause, code, kind, rank)
		}
	}
}

func TestJobSucceeds(t *testing.T) {
	f := runJob(t, 2, nil, func(f *testJob) {
		f.waitForRounds(1)
		f.endAll(0)
	})
	f.checkOutcomes(0, "", 0)
	for i, p := range f.agents {
		for local := range 2 {
			rank, size := environ.Get(p.table.Specs()[local].Env, "RANK"), environ.Get(p.table.Specs()[local].Env, "WORLD_SIZE")
			if rank != fmt.Sprint(2*i+local) || size != "4" {
				t.Errorf("node %d, local rank %d: rank %s of %s", i, local, rank, size)
			}
		}
	}
}

// TestFirstFailureStopsEveryNode checks that the first failure stops the workers of every node.
func TestFirstFailureStopsEveryNode(t *testing.T) {
	f := runJob(t, 2, nil, func(f *testJob) {
		f.waitForRounds(1)
		f.agents[1].table.Processes()[1].End(7, 0)
	})
	f.checkOutcomes(7, rendezvous.KindExit, 3)
	for i, p := range f.agents {
		stops := p.table.Stops()
		if len(stops) == 0 || stops[0].Grace != 30*time.Second || stops[0].Signal != syscall.SIGTERM {
			t.Errorf("node %d stops its workers with %+v", i, stops)
		}
		if !strings.Contains(p.output.String(), "rank 3 on n1 (10.0.0.2), pid 101 exited with code 7; stopping the workers") {
			t.Errorf("node %d says:\n%s", i, p.output.String())
		}
	}
}

// TestFailedRoundIsFollowedByARestart checks that a round follows a failed one, and that the job
// succeeds.
func TestFailedRoundIsFollowedByARestart(t *testing.T) {
	f := runJob(t, 2, func(_ int, p *testAgent) { p.opts.Spec.MaxRestarts = 1 }, func(f *testJob) {
		f.waitForRounds(1)
		f.agents[0].table.Processes()[0].End(1, 0)
		f.waitForRounds(2)
		f.endAll(0)
	})
	f.checkOutcomes(0, "", 0)
	for i, p := range f.agents {
		if got := environ.Get(p.table.Specs()[0].Env, "TORCHELASTIC_RESTART_COUNT"); got != "1" {
			t.Errorf("node %d: restart count %s", i, got)
		}
	}
}

// TestSecondSignalKillsTheWorkers checks that the first signal stops the workers and a second one
// kills them. Other signals go to the workers.
func TestSecondSignalKillsTheWorkers(t *testing.T) {
	for _, second := range []bool{false, true} {
		var took time.Duration
		f := runJob(t, 2, func(_ int, p *testAgent) { p.table.IgnoresTERM = true }, func(f *testJob) {
			f.waitForRounds(1)
			p := f.agents[1]
			p.signals <- unix.SIGUSR1
			f.waitUntil("the workers got SIGUSR1", func() bool { return slices.Contains(p.table.Processes()[1].Signals(), unix.SIGUSR1) })
			began := time.Now()
			p.signals <- unix.SIGTERM
			f.waitUntil("both nodes stop their workers", func() bool {
				return !slices.ContainsFunc(f.agents, func(p *testAgent) bool { return len(p.table.Stops()) == 0 })
			})
			if second {
				p.signals <- unix.SIGTERM
			}
			f.waitUntil("the agents end", func() bool { return f.agents[0].outcome.Load() != nil && f.agents[1].outcome.Load() != nil })
			took = time.Since(began)
		})
		f.checkOutcomes(143, rendezvous.KindStopped, -1)
		if killed := took < 10*time.Second; killed != second {
			t.Errorf("second signal %v: the job ended after %v", second, took)
		}
	}
}

// TestLostKeeperEndsTheAgent checks that an agent without a keeper ends at once, with its
// workers. For the other agent the node is lost.
func TestLostKeeperEndsTheAgent(t *testing.T) {
	f := runJob(t, 2, nil, func(f *testJob) {
		f.waitForRounds(1)
		close(f.agents[1].keeper)
	})
	f.checkOutcomes(137, rendezvous.KindLost, -1)
	for i, p := range f.agents {
		if id := p.outcome.Load().Cause.Node; id != f.agents[1].node.ID {
			t.Errorf("node %d blames %s", i, id)
		}
		if len(p.table.Stops()) == 0 {
			t.Errorf("node %d does not stop its workers", i)
		}
	}
}

// TestRefusedNodesStartNoWorker checks that no worker starts if the check refuses the nodes.
func TestRefusedNodesStartNoWorker(t *testing.T) {
	f := runJob(t, 2, func(_ int, p *testAgent) { p.check, p.node.Facts = fakeChecker{p.agent}, true }, func(*testJob) {})
	f.checkOutcomes(rendezvous.ExitPreflight, rendezvous.KindPreflight, -1)
	for i, p := range f.agents {
		if p.table.Rounds() > 0 {
			t.Errorf("node %d starts workers", i)
		}
	}
}

// TestFailedBuildEndsEveryNode checks that every node ends with the error of the node whose
// program does not build. That node prints the error at once.
func TestFailedBuildEndsEveryNode(t *testing.T) {
	prepare := func(i int, p *testAgent) {
		if i == 1 {
			p.err = errors.New("no such package")
		}
	}
	f := runJob(t, 2, prepare, func(*testJob) {})
	f.checkOutcomes(1, rendezvous.KindStart, -1)
	for i, p := range f.agents {
		if p.outcome.Load().Cause.Node != f.agents[1].node.ID || p.table.Rounds() > 0 {
			t.Errorf("node %d: %+v, %d rounds", i, p.outcome.Load().Cause, p.table.Rounds())
		}
	}
	if said := f.agents[1].output.String(); !strings.Contains(said, "no such package; the other nodes get this error when they join") {
		t.Errorf("it says: %s", said)
	}
}

// TestFailedSessionEndsTheJob checks that an error of the session ends the job on every
// node.
func TestFailedSessionEndsTheJob(t *testing.T) {
	f := runJob(t, 2, nil, func(f *testJob) {
		f.waitForRounds(1)
		f.agents[0].events.Put(partFailed{rendezvous.KindRendezvous, "etcd does not answer"})
	})
	f.checkOutcomes(rendezvous.ExitRendezvous, rendezvous.KindRendezvous, -1)
}

// TestEndOfContextEndsTheJob checks that the end of its context ends the job in order.
func TestEndOfContextEndsTheJob(t *testing.T) {
	f := runJob(t, 1, nil, func(f *testJob) {
		f.waitForRounds(1)
		f.agents[0].cancel()
	})
	f.checkOutcomes(143, rendezvous.KindStopped, -1)
	if len(f.agents[0].table.Stops()) == 0 {
		t.Error("the workers are not stopped")
	}
}

// TestQueryAndAbortAreAnswered checks that the reply to a query has every node while the workers
// run, and that an abort ends the job.
func TestQueryAndAbortAreAnswered(t *testing.T) {
	f := runJob(t, 2, nil, func(f *testJob) {
		f.waitForRounds(1)
		p := f.agents[1]
		query, reply := status.NewCall(status.Request{Type: status.TypeStatus})
		p.events.Put(query)
		if r := <-reply; strings.Count(string(r.View), `"host"`) != 2 {
			t.Errorf("%s", r.View)
		}
		abort, reply := status.NewCall(status.Request{Type: status.TypeAbort, User: "ada"})
		p.events.Put(abort)
		if r := <-reply; r.Aborted == nil || r.Aborted.Nodes != 2 || r.Aborted.Workers != 4 {
			t.Errorf("%+v", r)
		}
	})
	f.checkOutcomes(143, rendezvous.KindAborted, -1)
}
