package launch

import (
	"net"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/gorun/gorun/envprop"
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

	mu      sync.Mutex
	list    []*worker
	left    int // still running
	failed  bool
	started bool      // every Start has been tried
	done    bool      // Done was posted
	stopped time.Time // when Stop was called; failures after it are consequences of it

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
	env      []string
	wd       string
	stdin    *os.File
	socket   *socket
	addr     string
	host     string
	node     rendezvous.NodeID
	runID    string
	grace    time.Duration
	post     func(rendezvous.Event)
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
	ready := make([]*worker, m.Workers)
	for i := 0; i < m.Workers && err == nil; i++ {
		ready[i], err = w.open(attempt, i)
	}
	for i := 0; i < m.Workers && err == nil; i++ {
		err = w.startOne(ready[i])
	}
	for _, wk := range ready {
		w.follow(wk)
	}
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
	})
	if err != nil {
		return nil, err
	}
	return &worker{local: local, rank: m.FirstRank + local, out: out}, nil
}

func (w *workers) startOne(wk *worker) error {
	w.mu.Lock()
	off := !w.stopped.IsZero()
	w.mu.Unlock()
	if off {
		return nil
	}
	wk.started = time.Now()
	proc, err := w.cfg.table.Start(process.Spec{
		Path: w.cfg.program.Path, Args: w.cfg.program.Argv(wk.local), Env: w.env(wk), Dir: w.cfg.wd,
		Stdin: w.cfg.stdin, Stdout: wk.out.Stdout, Stderr: wk.out.Stderr, Session: true,
		Death: syscall.SIGKILL, // should keeper and agent be killed at the same time
	})
	if err != nil {
		return err
	}
	wk.proc = proc
	w.mu.Lock()
	w.list = append(w.list, wk)
	w.mu.Unlock()
	return nil
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

// env is the environment of one worker.
func (w *workers) env(wk *worker) []string {
	m := w.world.Members[w.group]
	host, port, _ := net.SplitHostPort(w.world.Store)
	n, _ := strconv.Atoi(port)
	return envprop.Worker(w.cfg.env, envprop.Vars{
		Rank: wk.rank, LocalRank: wk.local, GroupRank: w.group, RoleRank: m.RoleRank + wk.local,
		WorldSize: w.world.Size, LocalWorldSize: m.Workers, GroupWorldSize: len(w.world.Members),
		RoleWorldSize: w.world.Roles[m.Role], RoleName: m.Role, MasterAddr: host, MasterPort: n,
		RestartCount: w.world.Restart, MaxRestarts: w.world.MaxRestarts, RunID: w.cfg.runID,
		ErrorFile: wk.out.ErrorFile, Round: w.world.Round, WorkerSocket: w.cfg.socket.path(),
		NodeAddr: w.cfg.addr, WorldToken: w.world.Token,
	})
}
