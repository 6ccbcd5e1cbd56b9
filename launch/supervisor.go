package launch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/gorun/gorun/envprop"
	"github.com/gorun/gorun/envprop/ncclenv"
	"github.com/gorun/gorun/internal/environ"
	"github.com/gorun/gorun/launch/arrivals"
	"github.com/gorun/gorun/launch/board"
	"github.com/gorun/gorun/launch/device"
	"github.com/gorun/gorun/launch/gpuwatch"
	"github.com/gorun/gorun/launch/logs"
	"github.com/gorun/gorun/launch/meet"
	"github.com/gorun/gorun/launch/numa"
	"github.com/gorun/gorun/launch/place"
	"github.com/gorun/gorun/launch/process"
	"github.com/gorun/gorun/launch/program"
	"github.com/gorun/gorun/launch/recorder"
	"github.com/gorun/gorun/launch/report"
	"github.com/gorun/gorun/launch/socket"
	"github.com/gorun/gorun/launch/spec/surroundings"
	"github.com/gorun/gorun/launch/stacks"
	"github.com/gorun/gorun/launch/standby"
	"github.com/gorun/gorun/launch/timer"
	"github.com/gorun/gorun/launch/workers"
	"github.com/gorun/gorun/rendezvous"
	"golang.org/x/sys/unix"
)

// supervisor starts and stops this node's workers, one round after the other. Only
// the loop calls its methods.
type supervisor struct {
	*base
	processes workers.Table
	tasks     *standby.Tasks // of the workers, if each runs in a task of the scheduler; else nil
	out       *logs.Console  // prints the workers' output
	output    logs.Output
	socket    *socket.Server
	store     *meet.Store
	placement *place.Placement
	driver    device.Child      // of the GPUs
	current   *round            // nil: no worker was started yet
	gpus      *gpuwatch.Watcher // nil: the workers use none
	killAt    time.Time         // when workers that are being stopped get SIGKILL
	limit     time.Time         // when workers must have ended at the latest; zero: no limit
	showErr   error             // why a dry run shows nothing
}

// round is the round that runs on this node, or the latest that ran.
type round struct {
	plan         *workers.Plan
	confFiles    func() []ncclenv.File // the nccl.conf files as they were at its first call
	workers      *workers.Round
	stopArrivals context.CancelFunc // stops the watch for missing workers; nil: there is none
	stopTimers   context.CancelFunc // ends the server of torch's file timers; nil: there is none
}

func newSupervisor(b *base, out *logs.Console) *supervisor {
	return &supervisor{base: b, processes: workers.Processes(b.table), out: out}
}

// plan returns what this node's workers of a round are started with.
func (s *supervisor) plan(c rendezvous.Start, prog program.Program, env envprop.Base) *workers.Plan {
	folder, err := s.output.Folders.Make(c.World.Restart)
	step := surroundings.Step(func(name string) (string, bool) { return environ.Lookup(s.opts.Env, name) })
	p := &workers.Plan{
		World: c.World, Group: c.Index, Program: prog, Base: env, Places: s.placement.Plan(),
		Folder: folder, Dir: s.opts.Dir, Step: step, Stdin: s.opts.Stdin, Err: err,
		Contact: workers.Contact{Socket: s.socket.Path(), Timers: s.timerFile(), Master: s.store.Master(), Ports: s.opts.Spec.Network.Ports.String()},
	}
	if s.tasks != nil {
		_, set := environ.Lookup(s.opts.Env, "OMP_NUM_THREADS")
		p.Tasks = s.tasks.Workers(!set && s.opts.Spec.Env.OMPCores)
	}
	return p
}

// start starts the workers of a plan and watches them.
func (s *supervisor) start(ctx context.Context, p *workers.Plan) {
	s.socket.Begin(s.boardRound(p))
	if s.gpus == nil {
		s.gpus = s.newWatcher()
	}
	r := &round{plan: p, workers: workers.New(s.options(p)), confFiles: sync.OnceValue(func() []ncclenv.File { return confFiles(ctx, p) })}
	s.current = r
	if timers := s.openTimers(r); timers != nil {
		serving, stop := context.WithCancel(ctx)
		r.stopTimers = stop
		s.wg.Go(func() { timers.Run(serving) })
	}
	r.workers.Start()
	s.wg.Go(func() { r.confFiles() }) // gorun env must show the files as the workers found them, not as they are later
	server := s.store.Server()
	if p.Group == 0 && server != nil { // other nodes' workers use this store, too
		server.Expect(p.World.Size)
	}
	s.watchGPUs(ctx, r)
	if p.Group == 0 && server != nil && !s.opts.leavesJobLinesToFirst() {
		watching, stop := context.WithCancel(ctx)
		r.stopArrivals = stop
		expected := s.arrivals(r)
		s.wg.Go(func() { expected.Watch(watching, s.note) })
	}
}

// boardRound describes a round to the board of this node.
func (s *supervisor) boardRound(p *workers.Plan) board.Round {
	m := p.Member()
	r := board.Round{Number: p.World.Round, FirstRank: m.FirstRank, Ranks: m.Workers, Spin: p.Places.Separates()}
	if s.tasks == nil && s.placement.Divides(p.Places) {
		r.Divide = func() []numa.Set { return place.Divide(os.DirFS("/"), m.Workers) }
	}
	return r
}

// timerFile returns the path of the pipe for torch's file timers, or "" if the user asks
// for none.
func (s *supervisor) timerFile() string {
	path := environ.Get(s.opts.Env, "TORCHELASTIC_TIMER_FILE")
	switch {
	case path == "" && s.servesTimers():
		path = s.opts.Scratch.Timers()
	case path != "" && s.opts.Local != nil && s.opts.Local.Index > 0: // the first node of this machine has it
		path += fmt.Sprintf(".%d", s.opts.Local.Index)
	}
	return path
}

// servesTimers reports whether the user asks for a server of torch's file timers.
func (s *supervisor) servesTimers() bool {
	return environ.Get(s.opts.Env, "TORCHELASTIC_ENABLE_FILE_TIMER") == "1"
}

// openTimers opens the server of the file timers of a round. It returns nil if there is
// none. After an error the workers do not start.
func (s *supervisor) openTimers(r *round) *timer.Server {
	if !s.servesTimers() || r.plan.Err != nil {
		return nil
	}
	isWorkers := func(pid int) bool {
		roots := map[int]bool{os.Getpid(): true} // adopts the processes whose parents have ended
		for _, w := range r.workers.Workers() {
			roots[w.PID] = true
		}
		return pid != os.Getpid() && timer.Below(roots, pid)
	}
	server, err := timer.Open(timer.Options{Path: r.plan.Timers, IsWorkers: isWorkers, Note: s.note})
	if err != nil {
		r.plan.Err = err
		return nil
	}
	return server
}

// options returns what package workers needs for a round.
func (s *supervisor) options(p *workers.Plan) workers.Options {
	m := p.Member()
	var full sync.Once // one line about a full disk, however many files are on it
	onLoss := func(local int, path string, err error) {
		say := func() { s.printLogError(m.FirstRank+local, path, err) }
		if isFull(err) {
			full.Do(say)
		} else {
			say()
		}
	}
	return workers.Options{
		Plan: p, Table: s.processes,
		Open: func(local int) (*logs.Worker, error) {
			console := s.out
			if s.tasks != nil && local > 0 {
				console = s.tasks.Console(local)
			}
			if ranks := s.opts.Spec.Console.LocalRanks; ranks != nil && !slices.Contains(ranks, local) {
				console = nil
			}
			return logs.Open(logs.WorkerOptions{
				LocalRank: local, Dir: p.Folder, Console: console,
				Redirect: s.output.Redirect.For(local), Tee: s.output.Tee.For(local),
				Prefix: linePrefix(s.opts.Spec.Console.LinePrefix, m, local), Filter: s.output.Filter,
				OnLoss: func(path string, err error) { onLoss(local, path, err) },
			})
		},
		ReportedFailure: s.socket.ReportedFailure, Release: s.deviceRelease(p), Post: s.events.post,
	}
}

// linePrefix returns what stands before a worker's line, by torchrun's template.
func linePrefix(template string, m *rendezvous.Member, local int) string {
	return program.Expand(cmp.Or(template, logs.DefaultPrefix), map[string]string{
		"role_name": m.Role, "rank": strconv.Itoa(m.FirstRank + local), "local_rank": strconv.Itoa(local), "hostname": m.Host,
	})
}

// stop ends the workers beside the loop, so that the loop can handle a second
// signal.
func (s *supervisor) stop(c rendezvous.Stop) {
	r := s.current
	if r == nil { // no worker was started
		s.events.post(rendezvous.Over{Round: c.Round, Store: s.node.Store})
		return
	}
	o := process.StopOptions{Signal: c.Signal, Grace: s.opts.Spec.ShutdownTimeout}
	if c.Kill {
		o.Grace = 0
	} else {
		s.console.Announce("%s; stopping the workers", c.Cause.Line())
		for _, line := range report.TorchLog(report.Stop{Cause: &c.Cause, Binary: r.plan.Program.Binary(), Living: r.living(), Signal: cmp.Or(c.Signal, unix.SIGTERM)}) {
			s.console.Announce("%s", line)
		}
	}
	s.killAt = time.Now().Add(o.Grace)
	if s.gpus != nil {
		s.gpus.EndRound()
	}
	if r.stopTimers != nil {
		r.stopTimers()
	}
	if r.stopArrivals != nil {
		r.stopArrivals()
		r.stopArrivals = nil
		if text := s.arrivals(r).Missing(); text != "" {
			s.console.Say("when the round failed, %s", text)
		}
	}
	abort := ranksToAbort(&c.Cause)
	s.wg.Go(func() {
		if c.Cause.Kind != rendezvous.KindStopped { // else who ends the job may have sent the workers a signal, too
			r.workers.LookAtAll()
		}
		if c.Cause.Kind == rendezvous.KindHang && !c.Kill {
			s.dumpCollectives(c.Cause.Ranks)
		}
		s.socket.Abort(c.Cause)
		if c.Kill {
			r.workers.SkipDeviceWait()
		}
		over, ok := r.workers.Stop(o, abort...)
		if !ok { // the first stop posts Over
			return
		}
		s.sayAborted(r, abort)
		for _, w := range r.workers.Workers() {
			if w.Stopped && w.Exit != nil && w.Exit.Signal == unix.SIGKILL {
				s.console.Announce("%s", report.TorchKill(w.PID, cmp.Or(c.Signal, unix.SIGTERM)))
			}
		}
		var err error
		if over.Store, err = s.store.Next(&r.plan.World, r.plan.Group, s.node.Min != s.node.Max); err != nil {
			over.Failures = append(over.Failures, r.workers.AgentFailure(err))
		}
		s.events.post(over)
	})
}

// dumpTime is how long workers that hang have for their last dumps.
const dumpTime = time.Second

// dumpCollectives makes all ranks of the job write what their flight recorders hold, for
// whoever looks for the cause later, and waits for the ranks of this node. The ranks end
// after a dump of this kind, so it comes only when they are being stopped.
func (s *supervisor) dumpCollectives(ranks []int) {
	ctx, cancel := context.WithTimeout(context.Background(), dumpTime)
	defer cancel()
	if server := s.store.Server(); server != nil {
		rank := 0
		if len(ranks) > 0 {
			rank = ranks[0]
		}
		_ = server.Set(recorder.DumpKey, recorder.DumpValue(rank)) // a full store: there are no dumps
	}
	s.recorders.WaitForDumps(ctx)
}

// ranksToAbort returns the ranks that held up a round and whose place is not known because
// their stacks could not be read.
func ranksToAbort(c *rendezvous.Cause) []int {
	if c.Kind != rendezvous.KindHang || stacks.HasLine(c.Where) {
		return nil
	}
	return c.Ranks
}

// sayAborted says where the ranks were that printed their stacks when they were aborted.
func (s *supervisor) sayAborted(r *round, ranks []int) {
	for _, w := range r.workers.Workers() {
		if !slices.Contains(ranks, w.Rank) {
			continue
		}
		at := stacks.Stack{Frames: stacks.ParseFaulthandler(strings.Join(w.Output.Tail(), "\n"))}
		at.Clean()
		if where := at.Where(); where != "" {
			s.console.Announce("rank %d was in %s when it was aborted", w.Rank, where)
		}
	}
}

// killTime returns when workers that are being stopped get SIGKILL, with the limit.
func (s *supervisor) killTime() time.Time {
	if !s.limit.IsZero() && s.limit.Before(s.killAt) {
		return s.limit
	}
	return s.killAt
}

// close kills the processes that successful workers left behind, and prints the
// last output.
func (s *supervisor) close() {
	if s.current == nil {
		return
	}
	s.current.workers.Close()
	if path := s.output.Folders.Path; s.output.Redirect.Any(s.current.plan.Member().Workers) && s.output.Folders.IsFull() {
		s.console.Say("the file system of %s is full: the files of --redirects may lack what the workers printed last", path)
	}
}

// receiveTasks waits for the scheduler's tasks in which the workers will run
// (--srun-tasks=workers).
func (s *supervisor) receiveTasks(ctx context.Context) (err error) {
	around := s.opts.Spec.Surroundings
	count, name := around.Task.Count, around.Name
	if !around.TaskWorkers || count < 2 {
		return nil
	}
	s.tasks, err = standby.Listen(around.Task.Key, count, s.processes, func(local int) {
		s.events.Put(partFailed{rendezvous.KindAgent, fmt.Sprintf("task %d of %s on this node has ended, and the worker of local rank %[1]d with it", local, name)})
	})
	if err != nil {
		return err
	}
	s.tasks.Serve()
	s.processes = s.tasks
	_, err = await(ctx, s.base, fmt.Sprintf("waiting for the other %d tasks of %s on this node", count-1, name), func(ctx context.Context) (struct{}, error) {
		return struct{}{}, s.tasks.Wait(ctx, taskArrival)
	})
	return err
}

// taskArrival bounds the wait for the other tasks of this node.
const taskArrival = time.Minute

// closeTasks ends the connections to the tasks.
func (s *supervisor) closeTasks() {
	if s.tasks != nil {
		s.tasks.Close()
	}
}

// removeFolders removes the log folders that are empty.
func (s *supervisor) removeFolders() {
	if s.output.Folders != nil {
		s.output.Folders.RemoveEmpty()
	}
}

// signal passes a signal on to the workers.
func (s *supervisor) signal(sig syscall.Signal) {
	switch {
	case s.current == nil:
	case sig == unix.SIGWINCH:
		s.current.workers.Resize()
	default:
		s.current.workers.Signal(sig)
	}
}

// reportFailure ends the round with the failure that a worker reported.
func (s *supervisor) reportFailure(r socket.Report) {
	if s.current != nil && s.current.plan.World.Round == r.Round {
		s.current.workers.FailWorker(r.Rank, r.Message)
	}
}

// lookAt finds out whether a worker is dying whose connection has ended.
func (s *supervisor) lookAt(r socket.Report) {
	if s.current != nil && s.current.plan.World.Round == r.Round {
		s.current.workers.LookAt(r.Rank)
	}
}

// listWorkers lists the workers of the round. It also returns the round's number.
func (s *supervisor) listWorkers() (all []workers.Worker, round int) {
	if s.current == nil {
		return nil, 0
	}
	return s.current.workers.Workers(), s.current.plan.World.Round
}

// arrivals finds the workers that have not reached the store that this node serves.
func (s *supervisor) arrivals(r *round) arrivals.Round {
	return arrivals.Round{World: &r.plan.World, Group: r.plan.Group, PIDs: r.pids, Store: s.store.Server()}
}

// living returns the process ids of the workers that run.
func (r *round) living() []int {
	var pids []int
	for _, w := range r.workers.Workers() {
		if w.Exit == nil {
			pids = append(pids, w.PID)
		}
	}
	return pids
}

// pids returns the rank of each worker by its process id.
func (r *round) pids() map[int]int {
	all := map[int]int{}
	for _, w := range r.workers.Workers() {
		all[w.PID] = w.Rank
	}
	return all
}

// printLogError says that a log file does not get what a worker prints. A full disk costs
// the log, not the job.
func (s *supervisor) printLogError(rank int, path string, err error) {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		err = p.Err // the message below names the path
	}
	if isFull(err) {
		s.console.Say("rank %d: cannot write %s: %v; from here on the log files of this node's workers lack output", rank, path, err)
		return
	}
	s.console.Say("rank %d: cannot write %s: %v; its output is no longer kept there", rank, path, err)
}

// isFull reports whether an error concerns the file system, not one file.
func isFull(err error) bool { return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) }
