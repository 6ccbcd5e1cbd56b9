package etcd

import (
	"context"
	"fmt"
	"time"
)

// jobLease keeps the round's key, and with it the run id, for a job. It lasts longer
// than the job's agents may run without etcd.
type jobLease struct {
	id        leaseID
	job       string
	confirmed time.Duration // as state.confirmed
	rev       int64         // of the round's key that this agent wrote last under it, 0: none yet
	ended     bool          // the key is not this agent's any more
	deleted   bool          // because the key is deleted
	told      bool          // Lost was called
}

// jobTTL returns the lease's time. Until LostTimeout the sealer tries on, then all
// nodes stop.
func (e *Etcd) jobTTL() time.Duration { return e.cfg.LostTimeout + e.cfg.Grace + 10*time.Second }

// jobFor returns a lease for the round's key of a job. job is "" while the job has no
// name yet.
func (e *Etcd) jobFor(ctx context.Context, job string) (leaseID, error) {
	select {
	case <-ctx.Done():
		return 0, ctx.Err()
	case <-e.gates.granting:
	}
	defer func() { e.gates.granting <- struct{}{} }()
	if id := e.jobHas(job); id != 0 {
		return id, nil
	}
	sent := e.cfg.Clock()
	id, err := e.grant(ctx, e.session.cl, e.jobTTL())
	if err != nil {
		return 0, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.job = &jobLease{id: id, job: job, confirmed: sent}
	e.wakes.hold.wake()
	return id, nil
}

// jobHas returns the lease of a job, 0 if it has none. A lease without a job becomes
// the lease of this job.
func (e *Etcd) jobHas(job string) leaseID {
	e.mu.Lock()
	defer e.mu.Unlock()
	j := e.job
	switch {
	case j == nil:
		return 0
	case job == "": // a Seal was quicker
		return j.id
	case j.job != "" && j.job != job || j.ended || e.cfg.Clock()-j.confirmed >= e.cfg.LostTimeout:
		return 0
	}
	j.job = job
	return j.id
}

// foresee gets the lease of the first world's key while other agents still come.
func (e *Etcd) foresee(ctx context.Context) error {
	select {
	case <-ctx.Done():
	case <-e.gates.led:
		_, _ = e.jobFor(ctx, "") // a Seal asks again
	}
	return nil
}

func (e *Etcd) forgetJob(id leaseID) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.job != nil && e.job.id == id {
		e.job = nil
		e.wakes.hold.wake()
	}
}

// keepJob keeps the job's lease while this agent is the last sealer.
func (e *Etcd) keepJob(ctx context.Context) error {
	var kept leaseID
	stop, done := func() {}, make(chan struct{})
	close(done)
	for {
		select {
		case <-ctx.Done():
			stop()
			<-done
			return nil
		case <-e.wakes.hold:
		}
		e.mu.Lock()
		var id leaseID
		if j := e.job; j != nil && !j.ended {
			id = j.id
		}
		e.mu.Unlock()
		if id == kept {
			continue
		}
		stop()
		<-done
		kept, done = id, make(chan struct{})
		if id == 0 {
			close(done)
			continue
		}
		var kctx context.Context
		kctx, stop = context.WithCancel(ctx)
		go func() {
			defer close(done)
			if e.keep(kctx, id, min(e.jobTTL()/10, 5*time.Second), nil, func(sent time.Duration) { e.confirmJob(id, sent) }) {
				e.jobEnded(id)
			}
		}()
	}
}

func (e *Etcd) confirmJob(id leaseID, sent time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.job != nil && e.job.id == id {
		e.job.confirmed = max(e.job.confirmed, sent)
	}
}

// jobEnded notes that etcd does not know the lease any more, so the key is deleted.
func (e *Etcd) jobEnded(id leaseID) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if j := e.job; j != nil && j.id == id && !j.ended {
		j.ended, j.deleted = true, j.rev != 0 && e.unseal.what == nil
	}
}

// jobLost says, once, that the job must end. mu is held.
func (e *Etcd) jobLost() error {
	j := e.job
	if j == nil || j.rev == 0 || j.told || e.unseal.what != nil {
		return nil
	}
	since := e.cfg.Clock() - j.confirmed
	switch {
	case j.deleted:
		j.told = true
		return fmt.Errorf("the key %s is gone from etcd at %s; the job ends, since others may take its run id now", e.keys.round, e.at())
	case !j.ended && since >= e.cfg.LostTimeout:
		j.told = true
		return fmt.Errorf("etcd at %s has not answered for %v; the job ends, since others may take its run id soon", e.at(), since.Round(time.Second))
	}
	return nil
}
