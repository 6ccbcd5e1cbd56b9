package etcd

import (
	"context"
	"fmt"
	"time"

	"github.com/gorun/gorun/rendezvous"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// jobLease keeps the round's key, and with it the run id, for a job: longer
// than its agents may run without etcd.
type jobLease struct {
	id        leaseID
	job       string
	confirmed time.Duration // as state.confirmed
	rev       int64         // of the round's key that this agent wrote last under it, 0: none yet
	ended     bool          // the key is not this agent's any more
	deleted   bool          // because it is gone
	told      bool          // Lost was called
}

// jobTTL: until LostTimeout the sealer tries on, then all nodes stop.
func (e *Etcd) jobTTL() time.Duration { return e.cfg.LostTimeout + e.cfg.Grace + 10*time.Second }

// jobFor returns a lease for the round's key of a job.
func (e *Etcd) jobFor(ctx context.Context, job string) (leaseID, error) {
	e.mu.Lock()
	j := e.job
	if j != nil && j.job == job && !j.ended && e.cfg.Clock()-j.confirmed < e.cfg.LostTimeout {
		defer e.mu.Unlock()
		return j.id, nil
	}
	e.mu.Unlock()
	sent := e.cfg.Clock()
	id, err := e.grant(ctx, e.jobTTL())
	if err != nil {
		return 0, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.job = &jobLease{id: id, job: job, confirmed: sent}
	e.hold.wake()
	return id, nil
}

func (e *Etcd) forgetJob(id leaseID) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.job != nil && e.job.id == id {
		e.job = nil
		e.hold.wake()
	}
}

// keepJob keeps the job's lease while this agent is the one who sealed last.
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
		case <-e.hold:
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

// jobEnded: etcd does not know the lease any more, so the key is gone.
func (e *Etcd) jobEnded(id leaseID) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if j := e.job; j != nil && j.id == id && !j.ended {
		j.ended, j.deleted = true, j.rev != 0 && e.over == nil
	}
}

// jobLost says that the job must end, once; with mu held.
func (e *Etcd) jobLost() error {
	j := e.job
	if j == nil || j.rev == 0 || j.told || e.over != nil {
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

// Vacate is that of rendezvous.Fence.
func (e *Etcd) Vacate(round int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.vacated = max(e.vacated, round)
	e.chore.wake()
}

// Unseal is that of rendezvous.Fence. What is not done when Run's ctx ends, Run
// still tries.
func (e *Etcd) Unseal(job string, round int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.over, e.owed = &rendezvous.Unseal{Job: job, Round: round}, true
	e.chore.wake()
}

// chores does what Vacate and Unseal ask for.
func (e *Etcd) chores(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-e.chore:
		}
		for wait := 50 * time.Millisecond; (!e.mark(ctx) || !e.settle(ctx)) && pause(ctx, wait); wait = min(2*wait, time.Second) {
		}
	}
}

// mark writes Vacate's word into this node's key and reports whether it stands
// there; a node that is not registered says it when it registers.
func (e *Etcd) mark(ctx context.Context) bool {
	e.mu.Lock()
	id, vacated, told := e.lease, e.vacated, e.told
	e.mu.Unlock()
	if id == 0 || told >= vacated {
		return true
	}
	got, err := e.txn(ctx, []clientv3.Cmp{clientv3.Compare(clientv3.LeaseValue(e.keys.self), "=", id)},
		[]clientv3.Op{clientv3.OpPut(e.keys.self, encode(e.self(vacated)), clientv3.WithLease(id))}, nil)
	if err != nil {
		return gone(err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.lease == id && got.Succeeded {
		e.told = max(e.told, vacated)
		e.contest.wake()
	}
	return true
}

// clear takes the round's key away that this agent sealed, if the job has ended
// without Unseal and yet no worker of it can live anywhere.
func (e *Etcd) clear(ctx context.Context) {
	e.mu.Lock()
	j, r := e.job, e.seen.round
	e.mu.Unlock()
	if j == nil || j.rev == 0 || j.ended || r.lease != j.id || !e.mark(ctx) {
		return
	}
	if why, err := e.corpse(ctx, r); why == "" && err == nil {
		_ = e.remove(ctx, r)
	}
}

// settle does what Unseal asks for and reports whether nothing is left to do.
func (e *Etcd) settle(ctx context.Context) bool {
	e.mu.Lock()
	over, owed, job := e.over, e.owed, e.job
	e.mu.Unlock()
	if !owed {
		return true
	}
	select {
	case <-ctx.Done():
		return false
	case <-e.sealing:
	}
	defer func() { e.sealing <- struct{}{} }()
	if job != nil && job.job == over.Job { // first: a seal that is still on its way then fails
		if e.revoke(ctx, job.id) != nil {
			return false
		}
		e.forgetJob(job.id)
	}
	s := &seal{Etcd: e}
	r, holder, err := s.read(ctx)
	if err != nil {
		return false
	}
	if v := r.value; v != nil && v.Job == over.Job && v.Round <= over.Round && e.remove(ctx, r) != nil {
		return false
	}
	if holder.value != nil && holder.value.ID == e.cfg.ID {
		if _, err := e.txn(ctx, []clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(e.keys.coordinator), "=", holder.rev)}, []clientv3.Op{clientv3.OpDelete(e.keys.coordinator)}, nil); err != nil {
			return false
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.owed = e.over != over
	return !e.owed
}
