package launch

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/gorun/gorun/envprop"
	"github.com/gorun/gorun/launch/diagnose"
	"github.com/gorun/gorun/launch/logs"
	"github.com/gorun/gorun/launch/process"
	"github.com/gorun/gorun/launch/program"
	"github.com/gorun/gorun/launch/report"
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

// startCode is what a shell returns for a program that cannot be started.
func startCode(err error) int {
	switch {
	case errors.Is(err, os.ErrNotExist):
		return 127
	case errors.Is(err, os.ErrPermission), errors.Is(err, syscall.ENOEXEC):
		return 126
	}
	return 1
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

// ended: a worker's process is gone.
func (w *workers) ended(wk *worker) {
	exit := wk.proc.Exit()
	w.mu.Lock()
	w.left--
	ours := !w.stopped.IsZero() && exit.At.After(w.stopped)
	w.mu.Unlock()
	if !exit.Success() {
		if !ours {
			w.fail(w.autopsy(wk, exit))
		}
		return
	}
	w.maybeDone()
}

// autopsy finds out why a worker failed.
func (w *workers) autopsy(wk *worker, exit process.Exit) rendezvous.Cause {
	kind := rendezvous.KindExit
	if exit.Signal != 0 {
		kind = rendezvous.KindSignal
	}
	c := w.cause(kind, wk)
	c.ExitCode, c.Signal, c.Time = max(0, exit.Code), exit.Signal, exit.At
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	_ = wk.out.Drain(ctx)
	c.Tail = wk.out.Tail()
	c.Consequence = diagnose.IsConsequence(c.Tail)
	if text := w.cfg.socket.lastWords(ctx, c.Rank); text != "" && exit.Signal == 0 {
		c.Kind, c.ExitCode, c.Message, c.Consequence = rendezvous.KindReport, 1, text, false
		return c
	}
	if f, err := report.ReadErrorFile(wk.out.ErrorFile); err == nil {
		c.ErrorFile, c.Message, c.Traceback = wk.out.ErrorFile, f.Message, f.Traceback
		if len(c.Tail) == 0 {
			c.Consequence = diagnose.IsConsequence(strings.Split(f.Traceback, "\n"))
		}
	}
	return c
}

// cause is a Cause with its place filled in.
func (w *workers) cause(k rendezvous.Kind, wk *worker) rendezvous.Cause {
	m := w.world.Members[w.group]
	c := rendezvous.Cause{
		Kind: k, Node: w.cfg.node, Host: w.cfg.host, Addr: w.cfg.addr, GroupRank: w.group,
		Rank: -1, LocalRank: -1, Role: m.Role, Time: time.Now(),
	}
	if wk != nil {
		c.Rank, c.LocalRank = wk.rank, wk.local
		if wk.proc != nil {
			c.PID = wk.proc.Pid()
		}
	}
	return c
}

// fail notes a failure and posts the first one.
func (w *workers) fail(c rendezvous.Cause) {
	w.mu.Lock()
	first := !w.failed
	w.failed = true
	for _, wk := range w.list {
		if wk.rank == c.Rank && wk.cause == nil {
			wk.cause = &c
		}
	}
	w.mu.Unlock()
	if first {
		w.cfg.post(rendezvous.Failed{Round: w.world.Round, Cause: c})
	}
}

// reported: the worker of that rank says through the socket that it failed.
func (w *workers) reported(rank int, message string) {
	w.mu.Lock()
	var who *worker
	for _, wk := range w.list {
		if wk.rank == rank {
			who = wk
		}
	}
	w.mu.Unlock()
	if who == nil {
		return
	}
	c := w.cause(rendezvous.KindReport, who)
	c.ExitCode, c.Message = 1, message
	c.Tail = who.out.Tail()
	w.fail(c)
}

// stop ends the workers and posts Over when nothing of them is left.
func (w *workers) stop(sig syscall.Signal, kill bool, store func() string) {
	w.mu.Lock()
	again := !w.stopped.IsZero()
	if !again {
		w.stopped = time.Now()
	}
	procs := w.procs()
	w.mu.Unlock()
	grace := w.cfg.grace
	if kill {
		grace = 0
	}
	_, err := w.cfg.table.Stop(context.Background(), process.StopOptions{Signal: sig, Grace: grace}, procs...)
	if again {
		return // the first stop reports
	}
	w.wg.Wait()
	w.close()
	over := rendezvous.Over{Round: w.world.Round, Ends: w.ends(), Store: store()}
	w.mu.Lock()
	for _, wk := range w.list {
		if wk.cause != nil {
			over.Failures = append(over.Failures, *wk.cause)
		}
	}
	w.mu.Unlock()
	if err != nil {
		c := w.cause(rendezvous.KindStart, nil)
		c.Message = fmt.Sprintf("cannot stop all processes: %v", err)
		over.Failures = append(over.Failures, c)
	}
	w.cfg.post(over)
}

// procs must be called with mu held.
func (w *workers) procs() []*process.Process {
	out := make([]*process.Process, 0, len(w.list))
	for _, wk := range w.list {
		out = append(out, wk.proc)
	}
	return out
}

// signal passes a signal on to every worker's group.
func (w *workers) signal(sig syscall.Signal) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, wk := range w.list {
		_ = wk.proc.Signal(sig)
	}
}

func (w *workers) resize() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, wk := range w.list {
		wk.out.Resize()
	}
}

// sweep kills what workers that succeeded left behind.
func (w *workers) sweep() {
	w.mu.Lock()
	procs := w.procs()
	w.mu.Unlock()
	_, _ = w.cfg.table.Stop(context.Background(), process.StopOptions{}, procs...)
	w.wg.Wait()
	w.close()
}

// close takes the last output.
func (w *workers) close() {
	ctx, cancel := context.WithTimeout(context.Background(), outputTimeout)
	defer cancel()
	w.mu.Lock()
	list := w.list
	w.mu.Unlock()
	for _, wk := range list {
		_ = wk.out.Wait(ctx)
	}
}

// ends lists how the workers that have ended did so.
func (w *workers) ends() []rendezvous.End {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []rendezvous.End
	for _, wk := range w.list {
		select {
		case <-wk.proc.Done():
		default:
			continue
		}
		e := wk.proc.Exit()
		out = append(out, rendezvous.End{
			Rank: wk.rank, LocalRank: wk.local, PID: wk.proc.Pid(), ExitCode: max(0, e.Code), Signal: e.Signal,
			Started: wk.started, Ended: e.At,
		})
	}
	return out
}
