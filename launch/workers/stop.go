package workers

import (
	"context"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/gorun/gorun/launch/diagnose"
	"github.com/gorun/gorun/launch/process"
	"github.com/gorun/gorun/rendezvous"
	"golang.org/x/sys/unix"
)

// maxWitnesses bounds the witnesses of one node. All ranks that a failure concerns
// mostly print the same explanation.
const maxWitnesses = 2

// Stop ends the workers. It returns when all their processes have ended, and
// reports how and why they ended. The caller adds the next round's store. A second
// Stop shortens the grace period of the first and returns ok = false; the first one
// returns the report. Python workers of the ranks to abort first print their stacks.
func (r *Round) Stop(o process.StopOptions, abort ...int) (over rendezvous.Over, ok bool) {
	over.Round = r.opts.Plan.World.Round
	r.waitForSiblings(o)
	first, err := r.beginStop()
	switch {
	case err != nil:
		over.Failures = []rendezvous.Cause{r.AgentFailure(err)}
		return over, true
	case !first:
		_ = r.opts.Table.Stop(o, r.procs()) // the first Stop reports the error
		return over, false
	}
	last := r.lastOutput() // a worker that is being stopped prints nothing that explains a failure
	if o.Grace > 0 {
		r.abort(abort)
	}
	err = r.end(o)
	r.waitForDevices()
	for _, w := range r.Workers() {
		if w.Cause != nil {
			over.Failures = append(over.Failures, *w.Cause)
		}
	}
	over.Ends = r.ends()
	over.Failures = append(over.Failures, r.witnesses(last)...)
	if err != nil {
		over.Failures = append(over.Failures, r.AgentFailure(err))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	_ = r.applyEvent(eventOver)
	return over, true
}

// abortTime is how long aborted workers have to print their stacks.
const abortTime = 300 * time.Millisecond

// abort sends SIGABRT to the Python workers of ranks, which makes them print where they are
// (PYTHONFAULTHANDLER), and waits for their ends. They leave no core file: that of a
// trainer may be larger than the disk.
func (r *Round) abort(ranks []int) {
	if r.opts.Plan.Program.Interpreter == "" {
		return
	}
	timer := time.NewTimer(abortTime)
	defer timer.Stop()
	var aborted []*worker
	for _, w := range r.started() {
		select {
		case <-w.proc.Done():
			continue // its pid may be another process's
		default:
		}
		if slices.Contains(ranks, w.rank) {
			// One byte is too few for a file, and means to the kernel that no program gets
			// the core, either.
			_ = unix.Prlimit(w.proc.Pid(), unix.RLIMIT_CORE, &unix.Rlimit{Cur: 1, Max: 1}, nil)
			_ = w.proc.Signal(syscall.SIGABRT) // r.end notices a process that lives on
			aborted = append(aborted, w)
		}
	}
	for _, w := range aborted {
		select {
		case <-w.proc.Done():
		case <-timer.C:
			return
		}
	}
}

// SkipDeviceWait ends the wait of a Stop for the workers' devices.
func (r *Round) SkipDeviceWait() { r.skipDeviceWait() }

// Close kills what is left of the workers, for example processes that successful
// workers left behind, and reads their last output.
func (r *Round) Close() {
	r.skipDeviceWait()
	_, _ = r.beginStop() // the round may already be stopped
	_ = r.end(process.StopOptions{})
}

// waitForSiblings leaves the other workers a moment to fail too, if one of this node's
// Python workers has just ended with a failure. It does not wait if the failure came over
// the worker socket: the others of such a job hear of the abort at once.
func (r *Round) waitForSiblings(o process.StopOptions) {
	r.mu.Lock()
	first, running := r.posted, r.running
	r.mu.Unlock()
	if first == nil || running == 0 || o.Grace == 0 || r.opts.Plan.Program.Interpreter == "" {
		return
	}
	if first.Kind != rendezvous.KindExit && first.Kind != rendezvous.KindSignal {
		return
	}
	timer := time.NewTimer(time.Until(first.Time.Add(siblingTime)))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-r.stopping: // a second stop
	}
}

// beginStop records that the workers are being stopped from now on.
func (r *Round) beginStop() (first bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	first = !r.wasStopped()
	if err := r.applyEvent(eventStop); err != nil {
		return first, err
	}
	if first {
		r.stopAt = time.Now()
		close(r.stopping)
	}
	return first, nil
}

// end ends the workers, waits until every worker's end has been handled, and reads
// the last output. After an error it waits only for a moment, because a process
// that hangs in the kernel may never end.
func (r *Round) end(o process.StopOptions) error {
	err := r.opts.Table.Stop(o, r.procs())
	ended := make(chan struct{})
	go func() {
		r.followers.Wait()
		close(ended)
	}()
	var limit <-chan time.Time
	if err != nil {
		limit = time.After(outputTimeout)
	}
	select {
	case <-ended:
	case <-limit:
	}
	ctx, cancel := context.WithTimeout(context.Background(), outputTimeout)
	defer cancel()
	for _, w := range r.started() {
		_ = w.out.Wait(ctx)
	}
	return err
}

// waitForDevices waits until the workers' devices are free or SkipDeviceWait is
// called.
func (r *Round) waitForDevices() {
	var pids []int
	for _, proc := range r.procs() {
		pids = append(pids, proc.Pid())
	}
	if r.opts.Release != nil && len(pids) > 0 && r.deviceWait.Err() == nil {
		r.opts.Release(r.deviceWait, pids)
	}
}

// lastOutput returns the last lines that each worker has written.
func (r *Round) lastOutput() map[*worker][]string {
	last := map[*worker][]string{}
	for _, w := range r.started() {
		last[w] = w.out.Tail()
	}
	return last
}

// witnesses returns workers that did not fail but were stopped, and whose output
// explains the failure of another worker. For example two ranks share a GPU, one of
// them ends because its peers closed their connections, and NCCL's warning stands
// in the output of a third rank.
func (r *Round) witnesses(last map[*worker][]string) []rendezvous.Cause {
	var all []rendezvous.Cause
	for _, w := range r.started() {
		tail := last[w]
		if w.cause != nil || len(tail) == 0 || len(all) == maxWitnesses {
			continue
		}
		c := r.cause(rendezvous.KindWitness, w)
		c.Tail, c.Consequence = tail, true
		s := diagnose.NewScanner()
		s.ReadStderr(c.Rank, c.LocalRank, c.Host, strings.Join(tail, "\n"))
		if found := s.Findings(); len(found) > 0 && found[0].Severity == diagnose.SeverityCause {
			all = append(all, c)
		}
	}
	return all
}
