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
	keeping   context.Context // ends with the keeping of the lease
	drop      func()          // ends keeping
	confirmed time.Duration   // when the last request was sent that etcd granted
	rev       int64           // of the round's key that this agent wrote last under it; 0: none yet
	ended     bool            // the key is not this agent's any more
	deleted   bool            // ended because the key is deleted
	reported  bool            // Config.Lost was called
}

// jobTTL returns the lease's time. The sealer tries to renew it for LostTimeout, and
// then all nodes stop.
func (e *Etcd) jobTTL() time.Duration { return e.cfg.LostTimeout + e.cfg.Grace + 10*time.Second }

// leaseFor returns a lease for the round's key of a job. Only a Seal calls it.
func (e *Etcd) leaseFor(ctx context.Context, job string) (leaseID, error) {
	e.mu.Lock()
	j := e.job
	usable := j != nil && j.job == job && !j.ended && e.cfg.Clock()-j.confirmed < e.cfg.LostTimeout
	e.mu.Unlock()
	if usable {
		return j.id, nil
	}
	sent := e.cfg.Clock()
	id, err := e.grant(ctx, e.jobTTL())
	if err != nil {
		return 0, err
	}
	e.setJob(&jobLease{id: id, job: job, confirmed: sent})
	return id, nil
}

// setJob makes keepJob keep another lease, or none.
func (e *Etcd) setJob(j *jobLease) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.job != nil {
		e.job.drop()
	}
	if e.job = j; j != nil {
		j.keeping, j.drop = context.WithCancel(e.session.running)
		e.wakes.job.wake()
	}
}

// keepJob keeps the job's lease while this agent is the last sealer.
func (e *Etcd) keepJob(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-e.wakes.job:
		}
		e.mu.Lock()
		j := e.job
		e.mu.Unlock()
		if j == nil {
			continue
		}
		confirm := func(sent time.Duration) {
			e.mu.Lock()
			defer e.mu.Unlock()
			j.confirmed = max(j.confirmed, sent)
		}
		if e.keep(j.keeping, j.id, min(e.jobTTL()/10, 5*time.Second), nil, confirm) {
			e.mu.Lock()
			e.endJob(j, true) // etcd deletes the key with the lease
			e.mu.Unlock()
		}
	}
}

// endJob notes that the round's key is not this agent's any more, because it was
// deleted or because another agent has sealed a world. The caller holds mu.
func (e *Etcd) endJob(j *jobLease, deleted bool) {
	if !j.ended {
		j.ended, j.deleted = true, deleted && j.rev != 0 && e.unseal.what == nil
		j.drop()
	}
}

// reportJobLost returns, once, why the job must end. The caller holds mu.
func (e *Etcd) reportJobLost() error {
	j := e.job
	if j == nil || j.rev == 0 || j.reported || e.unseal.what != nil {
		return nil
	}
	since := e.cfg.Clock() - j.confirmed
	switch {
	case j.deleted:
		j.reported = true
		return fmt.Errorf("the key %s was deleted in etcd at %s; the job ends, because another job can take its run id now", e.keys.round, e.at())
	case !j.ended && since >= e.cfg.LostTimeout:
		j.reported = true
		return fmt.Errorf("etcd at %s has not answered for %v; the job ends, because another job can take its run id soon", e.at(), since.Round(time.Second))
	}
	return nil
}
