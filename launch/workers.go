package launch

import (
	"context"
	"net"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/gorun/gorun/envprop"
	"github.com/gorun/gorun/envprop/ncclenv"
	"github.com/gorun/gorun/launch/check"
	"github.com/gorun/gorun/launch/gpuwatch"
	"github.com/gorun/gorun/launch/logs"
	"github.com/gorun/gorun/launch/process"
	"github.com/gorun/gorun/launch/program"
	"github.com/gorun/gorun/rendezvous"
)

// workers are this node's workers of one round.
type workers struct {
	cfg   workersConfig
	world rendezvous.World
	group int // this node's group rank
	env   envprop.Base
	unfit error // why there is no such environment

	conf func() []ncclenv.File // the nccl.conf files as they were when it was first called

	mu      sync.Mutex
	list    []*worker
	left    int // still running
	failed  bool
	told    bool      // Failed was posted
	started bool      // every Start has been tried
	done    bool      // Done was posted
	stopped time.Time // when Stop was called; failures after it are consequences of it

	halt  chan struct{}   // closed by the first stop
	hurry context.Context // ends when somebody orders the end at once
	rush  context.CancelFunc

	wg sync.WaitGroup
}

// workersConfig is what the rounds of an agent have in common.
type workersConfig struct {
	table    *process.Table
	program  program.Program
	console  *logs.Console
	folders  *folders
	redirect logs.StdSpec
	tee      logs.StdSpec
	wd       string
	stdin    *os.File
	socket   *socket
	addr     string
	host     string
	node     rendezvous.NodeID
	runID    string
	grace    time.Duration
	torchrun bool // --omp=torchrun
	post     func(rendezvous.Event)
	unkept   func(rank int, path string, err error) // output that is not in the file
	slots    []slot                                 // by local rank
	// release waits for the GPUs of workers that have ended; nil: nothing to wait for.
	release func(ctx context.Context, of gpuwatch.World, pids []int)
}

// worker is one process and its output.
type worker struct {
	local   int
	rank    int
	proc    *process.Process // nil: could not be started
	out     *logs.Worker
	started time.Time
	cause   *rendezvous.Cause // its failure, once known
}

func newWorkers(cfg workersConfig, world rendezvous.World, group int) *workers {
	w := &workers{cfg: cfg, world: world, group: group, halt: make(chan struct{})}
	w.hurry, w.rush = context.WithCancel(context.Background())
	w.conf = sync.OnceValue(func() []ncclenv.File {
		return check.ConfFiles(w.hurry, w.env.Worker(w.vars(0)), w.cfg.wd)
	})
	return w
}

// outputTimeout bounds the wait for the last output of a dead worker.
const outputTimeout = time.Second

// start starts all of them; Failed is posted for the first that cannot be.
// Nothing but the starts is between the first and the last of them, so that all
// workers begin at about the same time.
func (w *workers) start() {
	m := w.world.Members[w.group]
	w.mu.Lock()
	w.left = m.Workers
	w.mu.Unlock()
	attempt, err := w.cfg.folders.attempt(w.world.Restart)
	if w.unfit != nil {
		err = w.unfit
	}
	ready := make([]*worker, m.Workers)
	for i := 0; i < m.Workers && err == nil; i++ {
		ready[i], err = w.open(attempt, i)
	}
	if err == nil {
		err = w.startAll(ready)
	}
	for _, wk := range ready {
		w.follow(wk)
	}
	w.wg.Go(func() { w.conf() }) // gorun env is to tell what they found, not what is there later
	if err != nil {
		c := w.cause(rendezvous.KindStart, nil)
		c.Message, c.ExitCode = err.Error(), startCode(err)
		w.fail(c)
	}
	w.mu.Lock()
	w.started = true
	w.mu.Unlock()
	w.maybeDone()
}

// maybeDone posts Done once, when all workers were started and ended with 0.
func (w *workers) maybeDone() {
	w.mu.Lock()
	all := w.left == 0 && w.started && !w.failed && !w.done && w.stopped.IsZero()
	w.done = w.done || all
	w.mu.Unlock()
	if all {
		w.cfg.post(rendezvous.Done{Round: w.world.Round, Ends: w.ends()})
	}
}

// open makes what a worker's output needs.
func (w *workers) open(attempt string, local int) (*worker, error) {
	m := w.world.Members[w.group]
	out, err := logs.Open(logs.WorkerOptions{
		LocalRank: local, Dir: attempt, Console: w.cfg.console,
		Redirect: w.cfg.redirect.For(local), Tee: w.cfg.tee.For(local),
		Prefix: logs.DefaultPrefix(m.Role, local),
		Unkept: func(path string, err error) { w.cfg.unkept(m.FirstRank+local, path, err) },
	})
	if err != nil {
		return nil, err
	}
	return &worker{local: local, rank: m.FirstRank + local, out: out}, nil
}

// startAll starts the processes; once one cannot be, no further one is begun.
func (w *workers) startAll(ready []*worker) error {
	specs := make([]process.Spec, len(ready))
	for i, wk := range ready {
		specs[i] = process.Spec{
			Path: w.cfg.program.Path, Args: w.cfg.program.Argv(wk.local), Env: w.environ(wk), Dir: w.cfg.wd,
			Stdin: w.cfg.stdin, Stdout: wk.out.Stdout, Stderr: wk.out.Stderr, Session: true,
			Death:  syscall.SIGKILL, // should keeper and agent be killed at the same time
			Around: w.slot(wk.local).around,
		}
	}
	began := time.Now()
	started, err := w.cfg.table.StartAll(specs)
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, proc := range started {
		if proc != nil {
			ready[i].proc, ready[i].started = proc, began
			w.list = append(w.list, ready[i])
		}
	}
	return err
}

// follow takes a worker's output and waits for its end; one that does not run
// has none.
func (w *workers) follow(wk *worker) {
	switch {
	case wk == nil:
	case wk.proc == nil:
		_ = wk.out.Close()
	default:
		wk.out.CloseChildEnds()
		w.wg.Go(func() {
			<-wk.proc.Done()
			w.ended(wk)
		})
	}
}

// environ is the environment of one worker.
func (w *workers) environ(wk *worker) []string {
	v := w.vars(wk.local)
	v.ErrorFile = wk.out.ErrorFile
	return overlay(w.env.Worker(v), w.slot(wk.local).set)
}

// vars is what distinguishes the worker of a local rank, without its error file.
func (w *workers) vars(local int) envprop.Vars {
	m := w.world.Members[w.group]
	host, port, _ := net.SplitHostPort(w.world.Store)
	n, _ := strconv.Atoi(port)
	s := w.slot(local)
	s.threads.Torchrun = w.cfg.torchrun
	return envprop.Vars{
		Rank: m.FirstRank + local, LocalRank: local, GroupRank: w.group, RoleRank: m.RoleRank + local,
		WorldSize: w.world.Size, LocalWorldSize: m.Workers, GroupWorldSize: len(w.world.Members),
		RoleWorldSize: w.world.Roles[m.Role], RoleName: m.Role, MasterAddr: host, MasterPort: n,
		RestartCount: w.world.Restart, MaxRestarts: w.world.MaxRestarts, RunID: w.cfg.runID,
		Round: w.world.Round, WorkerSocket: w.cfg.socket.path(), NodeAddr: w.cfg.addr, WorldToken: w.world.Token,
		Device: s.device, Threads: s.threads,
	}
}
