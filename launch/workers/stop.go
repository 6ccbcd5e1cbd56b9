package workers

import (
	"context"
	"strings"
	"time"

	"github.com/gorun/gorun/launch/diagnose"
	"github.com/gorun/gorun/launch/process"
	"github.com/gorun/gorun/rendezvous"
)

// maxWitnesses bounds the witnesses of one node: what explains a failure is mostly
// said by all ranks that it concerns.
const maxWitnesses = 2

// Stop ends the workers. It returns when nothing of them is left and tells how
// they ended and why; the next round's store is the caller's to add. A second Stop
// shortens the grace of the first and returns ok = false: the first one tells.
func (r *Round) Stop(o process.StopOptions) (over rendezvous.Over, ok bool) {
	over.Round = r.opts.World.Round
	first, err := r.beginStop()
	switch {
	case err != nil:
		over.Failures = []rendezvous.Cause{r.AgentFailure(err)}
		return over, true
	case !first:
		_ = r.opts.Table.Stop(o, r.procs()) // the first one tells the error
		return over, false
	}
	last := r.lastOutput() // a worker that is being stopped says nothing that explains a failure
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
	_ = r.take(eventOver)
	return over, true
}

// SkipDeviceWait ends the wait of a Stop for the workers' devices.
func (r *Round) SkipDeviceWait() { r.skipDeviceWait() }

// Close kills what is left of the workers, as what they left behind after they
// succeeded, and takes their last output.
func (r *Round) Close() {
	r.skipDeviceWait()
	_, _ = r.beginStop() // it may have been stopped before
	_ = r.end(process.StopOptions{})
}

// beginStop notes that the workers are being stopped from now on.
func (r *Round) beginStop() (first bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	first = !r.wasStopped()
	if err := r.take(eventStop); err != nil {
		return first, err
	}
	if first {
		r.stopAt = time.Now()
		close(r.stopping)
	}
	return first, nil
}

// end ends the workers, waits until every worker's end has been looked at and
// takes the last output. After an error it waits only for a moment: what is stuck
// in the kernel may never end.
func (r *Round) end(o process.StopOptions) error {
	err := r.opts.Table.Stop(o, r.procs())
	ended := make(chan struct{})
	go func() {
		r.follows.Wait()
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

// waitForDevices waits until the workers' devices are free, or SkipDeviceWait.
func (r *Round) waitForDevices() {
	var pids []int
	for _, proc := range r.procs() {
		pids = append(pids, proc.Pid())
	}
	if r.opts.Release != nil && len(pids) > 0 && r.deviceWait.Err() == nil {
		r.opts.Release(r.deviceWait, pids)
	}
}

// lastOutput is the end of what each worker has written.
func (r *Round) lastOutput() map[*worker][]string {
	last := map[*worker][]string{}
	for _, w := range r.started() {
		last[w] = w.out.Tail()
	}
	return last
}

// witnesses are workers that were stopped, not failed, but had written what
// explains the failure of another one: two ranks share a GPU, say, one of them
// ends because its peers closed their connections, and NCCL's warning stands in
// the output of a third.
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
		// Neither the reader nor this context fails.
		_ = s.Read(context.Background(), diagnose.Stderr(c.Rank, c.LocalRank, c.Host), strings.NewReader(strings.Join(tail, "\n")+"\n"))
		if found := s.Findings(); len(found) > 0 && found[0].Severity == diagnose.SeverityCause {
			all = append(all, c)
		}
	}
	return all
}
