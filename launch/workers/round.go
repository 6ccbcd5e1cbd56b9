package workers

import (
	"cmp"
	"context"
	"errors"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/gorun/gorun/launch/logs"
	"github.com/gorun/gorun/launch/process"
	"github.com/gorun/gorun/rendezvous"
)

const (
	// outputTimeout bounds the wait for the last output of an ended worker.
	outputTimeout = time.Second
	// peerWait bounds the time from a worker's closed connections to its end.
	peerWait = time.Second
	// siblingTime is how long the other Python workers of a node go on after a failure,
	// so that those that fail at the same time, for a reason of their own, are listed.
	// torchrun looks at its workers every 100 ms (--monitor-interval).
	siblingTime = 100 * time.Millisecond
	// reportTime bounds the wait for what an ended worker has reported.
	reportTime = 20 * time.Millisecond
)

// Options holds what a round needs.
type Options struct {
	Plan  *Plan
	Table Table
	// Open opens the output of a local rank.
	Open func(local int) (*logs.Worker, error)
	// ReportedFailure returns the failure that a worker reported before it ended,
	// or "". It waits until ctx ends for a report that is on its way.
	ReportedFailure func(ctx context.Context, rank int) string
	// Release waits, after the workers have ended, until their devices are free;
	// nil: there is nothing to wait for.
	Release func(ctx context.Context, pids []int)
	// Post receives Done and Failed; it does not block.
	Post func(rendezvous.Event)
}

// Round runs this node's workers of one round.
type Round struct {
	opts           Options
	deviceWait     context.Context // ends when SkipDeviceWait is called
	skipDeviceWait context.CancelFunc
	followers      sync.WaitGroup

	mu       sync.Mutex
	state    state
	workers  []*worker         // workers that were started
	running  int               // workers that have neither ended nor are known to be dying
	posted   *rendezvous.Cause // of the Failed that was posted; nil: none was
	stopping chan struct{}     // closed by the first stop
	stopAt   time.Time         // time of the first stop
}

// worker is one process and its output.
type worker struct {
	local   int
	rank    int
	proc    Process // nil: it was not started
	out     *logs.Worker
	started time.Time
	cause   *rendezvous.Cause // its failure; nil: none is known
	dying   *process.Exit     // how it will end, if that was known before its end; nil: it was not
	looked  bool              // LookAt looks at it; the round's lock guards it
}

// New returns an idle round.
func New(o Options) *Round {
	r := &Round{opts: o, stopping: make(chan struct{})}
	r.deviceWait, r.skipDeviceWait = context.WithCancel(context.Background())
	return r
}

// applyEvent changes the state by an event. The lock is held.
func (r *Round) applyEvent(e event) (err error) {
	r.state, err = transition(r.state, e)
	return err
}

// Start starts all workers. It posts Failed for the first worker that cannot be
// started. Nothing but the starts lies between the first and the last start, so all
// workers start at about the same time.
func (r *Round) Start() {
	n := r.opts.Plan.Member().Workers
	r.mu.Lock()
	err := cmp.Or(r.applyEvent(eventStart), r.opts.Plan.Err)
	if err == nil {
		r.running = n
	}
	r.mu.Unlock()
	prepared := make([]*worker, n)
	for i := 0; i < n && err == nil; i++ {
		prepared[i] = &worker{local: i, rank: r.opts.Plan.Member().FirstRank + i}
		prepared[i].out, err = r.opts.Open(i)
	}
	if err == nil {
		err = r.startAll(prepared)
	}
	for _, w := range prepared {
		r.follow(w)
	}
	if err != nil {
		c := r.cause(rendezvous.KindStart, nil)
		c.Message, c.ExitCode = err.Error(), startCode(err)
		r.fail(c)
	}
	r.mu.Lock()
	_ = r.applyEvent(eventStarted)
	r.mu.Unlock()
	r.postDone()
}

// startCode returns the exit code of a shell for a program that cannot be started.
func startCode(err error) int {
	switch {
	case errors.Is(err, os.ErrNotExist):
		return 127
	case errors.Is(err, os.ErrPermission), errors.Is(err, syscall.ENOEXEC):
		return 126
	}
	return 1
}

// startAll starts the processes. After a process that cannot be started it starts
// no further one.
func (r *Round) startAll(prepared []*worker) error {
	specs := make([]process.Spec, len(prepared))
	for i, w := range prepared {
		s := r.opts.Plan.process(w.local, w.out.ErrorFile)
		s.Stdout, s.Stderr, s.Session = w.out.Stdout, w.out.Stderr, true
		s.Death = syscall.SIGKILL // in case keeper and agent are killed at the same time
		specs[i] = s
	}
	began := time.Now()
	procs, err := r.opts.Table.StartAll(specs)
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, proc := range procs {
		if proc != nil {
			prepared[i].proc, prepared[i].started = proc, began
			r.workers = append(r.workers, prepared[i])
		}
	}
	return err
}

// follow reads a worker's output and waits for its end.
func (r *Round) follow(w *worker) {
	switch {
	case w == nil || w.out == nil:
	case w.proc == nil:
		_ = w.out.Close()
	default:
		w.out.CloseChildEnds()
		r.followers.Go(func() {
			select {
			case <-w.out.Ended():
				r.lookAt(w)
			case <-w.proc.Done():
			}
			<-w.proc.Done()
			r.workerEnded(w)
		})
	}
}

// workerEnded counts an ended worker. If the worker failed, it finds out why. A worker
// that was seen dying has been counted.
func (r *Round) workerEnded(w *worker) {
	exit := w.proc.Exit()
	r.mu.Lock()
	if w.dying != nil {
		r.mu.Unlock()
		return
	}
	r.running--
	byStop := r.wasStopped() && exit.At.After(r.stopAt)
	failed := !exit.Success() && !byStop
	if failed { // at once: the cause takes time, and meanwhile the last of the others may succeed
		_ = r.applyEvent(eventFailure)
	}
	r.mu.Unlock()
	switch {
	case exit.Success():
		r.postDone()
	case failed:
		r.fail(r.findCause(w, exit))
	}
}

// wasStopped reports whether Stop was called. The lock is held.
func (r *Round) wasStopped() bool { return r.state == stateStopping || r.state == stateStopped }

// postDone posts Done when all workers were started and have ended with 0.
func (r *Round) postDone() {
	r.mu.Lock()
	all := r.state == stateRunning && r.running == 0
	if all {
		_ = r.applyEvent(eventSucceeded)
	}
	r.mu.Unlock()
	if all {
		r.opts.Post(rendezvous.Done{Round: r.opts.Plan.World.Round, Ends: r.ends()})
	}
}

// Signal passes a signal on to every worker's group.
func (r *Round) Signal(sig syscall.Signal) {
	for _, proc := range r.procs() {
		_ = proc.Signal(sig)
	}
}

// Resize gives gorun's window size to the terminal of every worker.
func (r *Round) Resize() {
	for _, w := range r.started() {
		w.out.Resize()
	}
}

// started returns the workers that were started.
func (r *Round) started() []*worker {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.workers
}

// exit returns how a worker ended or, if it is known to be dying, will end; nil: it runs.
// The round's lock is held.
func (w *worker) exit() *process.Exit {
	select {
	case <-w.proc.Done():
		exit := w.proc.Exit()
		return &exit
	default:
		return w.dying
	}
}

func (r *Round) procs() []Process {
	workers := r.started()
	all := make([]Process, len(workers))
	for i, w := range workers {
		all[i] = w.proc
	}
	return all
}

// Worker is the state of a worker at one moment.
type Worker struct {
	Rank, LocalRank, PID int
	Started              time.Time
	Exit                 *process.Exit     // nil: the worker runs; a dying worker has it already
	Cause                *rendezvous.Cause // its failure; nil: none is known
	Stopped              bool              // the worker is being stopped, or the stop ended it
	Output               *logs.Worker
}

// Workers lists the workers that were started, by local rank.
func (r *Round) Workers() []Worker {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make([]Worker, len(r.workers))
	for i, w := range r.workers {
		all[i] = Worker{
			Rank: w.rank, LocalRank: w.local, PID: w.proc.Pid(), Started: w.started,
			Cause: w.cause, Stopped: r.wasStopped(), Output: w.out,
		}
		if exit := w.exit(); exit != nil {
			all[i].Exit = exit
			all[i].Stopped = r.wasStopped() && exit.At.After(r.stopAt)
		}
	}
	return all
}

// ends lists how the ended workers ended.
func (r *Round) ends() []rendezvous.End {
	var all []rendezvous.End
	for _, w := range r.Workers() {
		if w.Exit == nil {
			continue
		}
		all = append(all, rendezvous.End{
			Rank: w.Rank, LocalRank: w.LocalRank, PID: w.PID, ExitCode: max(0, w.Exit.Code), Signal: w.Exit.Signal,
			Started: w.Started, Ended: w.Exit.At,
		})
	}
	return all
}
