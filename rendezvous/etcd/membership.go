package etcd

import (
	"context"
	"slices"
	"time"

	"github.com/gorun/gorun/rendezvous"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// keepRegistered keeps this agent registered, under a new lease where etcd has ended the
// old one. It returns an error only at the first try, if only the user can correct it.
func (e *Etcd) keepRegistered(ctx context.Context) error {
	every := e.cfg.TTL / 3
	for first, wait := true, 50*time.Millisecond; ctx.Err() == nil; {
		id, keeping, err := e.register(ctx)
		if err != nil {
			t := e.explain(err)
			if t.final && first {
				return t
			}
			e.setTrouble(t)
			pause(ctx, wait)
			wait = min(2*wait, time.Second)
			continue
		}
		first, wait = false, 50*time.Millisecond
		if e.keep(keeping, id, every, e.wakes.renew, func(sent time.Duration) { e.confirm(id, sent) }) {
			e.endMembership(id, "etcd at "+e.at()+" has ended this node's membership")
		}
	}
	return nil
}

// register writes this agent's key under a new lease. It writes the coordinator's key
// too if no agent has it and nothing is sealed. keeping ends with the membership.
func (e *Etcd) register(ctx context.Context) (id leaseID, keeping context.Context, err error) {
	sent := e.cfg.Clock()
	if id, err = e.grant(ctx, e.cfg.TTL); err != nil {
		return 0, nil, err
	}
	e.mu.Lock()
	vacated, abstain := e.node.vacated, e.leading || e.unseal.what != nil
	e.mu.Unlock()
	put := []clientv3.Op{clientv3.OpPut(e.keys.self, encode(e.self(vacated)), clientv3.WithLease(id))}
	coordinate := []clientv3.Op{clientv3.OpPut(e.keys.coordinator, encode(e.self(-1)), clientv3.WithLease(id))}
	read := []clientv3.Op{clientv3.OpGet(e.keys.job, clientv3.WithPrefix())}
	if abstain {
		coordinate = nil
	}
	got, err := e.txn(ctx, e.noCoordinator(), slices.Concat(put, coordinate, read), slices.Concat(put, read))
	if err != nil {
		_ = e.revoke(context.WithoutCancel(ctx), id) // the txn may have failed because etcd has no room for more
		return 0, nil, err
	}
	e.applyJobKeys(got.Responses[len(got.Responses)-1].GetResponseRange().Kvs, got.Header.Revision)
	keeping, drop := context.WithCancel(ctx)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.node.lease, e.node.drop, e.node.written, e.node.confirmed = id, drop, vacated, sent
	if e.cfg.Clock()-sent < e.trustTime() && e.node.unconfirmed {
		e.node.unconfirmed = false
		e.post(rendezvous.Unconfirmed{})
	}
	e.wakes.update.wake()
	e.wakes.contest.wake()
	return id, keeping, nil
}

// noCoordinator returns the conditions that no agent has the coordinator's key and that
// no world is sealed.
func (e *Etcd) noCoordinator() []clientv3.Cmp {
	return []clientv3.Cmp{
		clientv3.Compare(clientv3.CreateRevision(e.keys.coordinator), "=", 0),
		clientv3.Compare(clientv3.CreateRevision(e.keys.round), "=", 0),
	}
}

// self returns this agent as its keys describe it.
func (e *Etcd) self(vacated int) agent {
	return agent{ID: e.cfg.ID, Name: clip(e.cfg.Name), Control: e.cfg.Control, Vacated: vacated}
}

// endMembership notes that the membership under a lease has ended, and posts why.
func (e *Etcd) endMembership(id leaseID, why string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.node.lease != id {
		return
	}
	e.postUnconfirmed(why)
	e.node.lease = 0
	e.node.drop()
}

// Vacate implements rendezvous.Fence.
func (e *Etcd) Vacate(round int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.node.vacated = max(e.node.vacated, round)
	e.wakes.update.wake()
}

// Unseal implements rendezvous.Fence. If it is not done when Run's ctx ends, Run still
// tries for leaveLimit.
func (e *Etcd) Unseal(job string, round int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.unseal.what, e.unseal.pending = &rendezvous.Unseal{Job: job, Round: round}, true
	e.wakes.update.wake()
}

// runUpdates does what Vacate and Unseal ask for.
func (e *Etcd) runUpdates(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-e.wakes.update:
		}
		for wait := 50 * time.Millisecond; (!e.writeVacated(ctx) || !e.runUnseal(ctx)) && pause(ctx, wait); wait = min(2*wait, time.Second) {
		}
	}
}

// writeVacated writes the round that Vacate named into this node's key and reports
// whether that is done. An agent that is not registered writes it when it registers.
func (e *Etcd) writeVacated(ctx context.Context) bool {
	e.mu.Lock()
	id, vacated, written := e.node.lease, e.node.vacated, e.node.written
	e.mu.Unlock()
	if id == 0 || written >= vacated {
		return true
	}
	got, err := e.txn(ctx, []clientv3.Cmp{clientv3.Compare(clientv3.LeaseValue(e.keys.self), "=", id)},
		[]clientv3.Op{clientv3.OpPut(e.keys.self, encode(e.self(vacated)), clientv3.WithLease(id))}, nil)
	if err != nil {
		return isLeaseNotFound(err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.node.lease == id && got.Succeeded {
		e.node.written = max(e.node.written, vacated)
		e.wakes.contest.wake()
	}
	return true
}

// removeOwnRound deletes the key of the round that this agent sealed, if the job has
// ended without Unseal and no worker of it can run anywhere. It also ends the lease
// for a key that was never written.
func (e *Etcd) removeOwnRound(ctx context.Context) {
	e.mu.Lock()
	j, r := e.job, e.seen.round
	e.mu.Unlock()
	if j != nil && j.rev == 0 && r.lease != j.id {
		_ = e.revoke(ctx, j.id)
	}
	if j == nil || j.rev == 0 || j.ended || r.lease != j.id || !e.writeVacated(ctx) {
		return
	}
	if why, err := e.stillRunning(ctx, r); why == "" && err == nil {
		_ = e.remove(ctx, r)
	}
}

// runUnseal does what Unseal asks for and reports whether that is done.
func (e *Etcd) runUnseal(ctx context.Context) bool {
	e.mu.Lock()
	over, pending := e.unseal.what, e.unseal.pending
	e.mu.Unlock()
	if !pending {
		return true
	}
	select {
	case <-ctx.Done():
		return false
	case <-e.gates.sealing:
	}
	defer func() { e.gates.sealing <- struct{}{} }()
	e.mu.Lock()
	job := e.job
	e.mu.Unlock()
	if job != nil && job.job == over.Job { // first, because a seal whose answer is missing may still be written
		if e.revoke(ctx, job.id) != nil {
			return false
		}
		e.setJob(nil)
	}
	r, coordinator, err := e.readJob(ctx)
	if err != nil {
		return false
	}
	if v := r.value; v != nil && v.Job == over.Job && v.Round <= over.Round && e.remove(ctx, r) != nil {
		return false
	}
	if coordinator.value != nil && coordinator.value.ID == e.cfg.ID {
		if _, err := e.txn(ctx, []clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(e.keys.coordinator), "=", coordinator.rev)}, []clientv3.Op{clientv3.OpDelete(e.keys.coordinator)}, nil); err != nil {
			return false
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.unseal.pending = e.unseal.what != over
	return !e.unseal.pending
}
