package etcd

import (
	"context"
	"time"

	"github.com/gorun/gorun/rendezvous"
	clientv3 "go.etcd.io/etcd/client/v3"
)

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
// without Unseal and yet no worker of it can live anywhere; or the lease for a
// key that was never written.
func (e *Etcd) clear(ctx context.Context) {
	e.mu.Lock()
	j, r := e.job, e.seen.round
	e.mu.Unlock()
	if j != nil && j.rev == 0 && r.lease != j.id {
		_ = e.revoke(ctx, j.id)
	}
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
