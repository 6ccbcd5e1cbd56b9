package etcd

import (
	"context"
	"slices"
	"time"

	"github.com/gorun/gorun/rendezvous"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// register keeps this agent registered, under a new lease where etcd has ended the
// old one. It returns an error only at the first try, if only the user can mend it.
func (e *Etcd) register(ctx context.Context) error {
	every := e.cfg.TTL / 3
	for first, wait := true, 50*time.Millisecond; ctx.Err() == nil; {
		id, keeping, err := e.enrol(ctx)
		if err != nil {
			t := e.explain(err)
			if t.final && first {
				return t
			}
			e.report(t)
			pause(ctx, wait)
			wait = min(2*wait, time.Second)
			continue
		}
		first, wait = false, 50*time.Millisecond
		if e.keep(keeping, id, every, e.wakes.renew, func(sent time.Duration) { e.confirm(id, sent) }) {
			e.expel(id, "etcd at "+e.at()+" has ended this node's membership")
		}
	}
	return nil
}

// enrol writes this agent's key under a new lease. It writes the coordinator's key
// too if no agent has it and nothing is sealed.
func (e *Etcd) enrol(ctx context.Context) (leaseID, context.Context, error) {
	sent, id := e.session.early.sent, e.session.early.id
	if e.session.early = (early{}); id == 0 || e.cfg.Clock()-sent > e.cfg.TTL/4 {
		var err error
		sent = e.cfg.Clock()
		if id, err = e.grant(ctx, e.session.cl, e.cfg.TTL); err != nil {
			return 0, nil, err
		}
	}
	e.mu.Lock()
	vacated, hold := e.node.vacated, e.leading || e.unseal.what != nil
	e.mu.Unlock()
	put := []clientv3.Op{clientv3.OpPut(e.keys.self, encode(e.self(vacated)), clientv3.WithLease(id))}
	coordinate := []clientv3.Op{clientv3.OpPut(e.keys.coordinator, encode(e.self(-1)), clientv3.WithLease(id))}
	look := []clientv3.Op{clientv3.OpGet(e.keys.job, clientv3.WithPrefix())}
	then := slices.Concat(put, coordinate, look)
	if hold {
		then = slices.Concat(put, look)
	}
	got, err := e.txn(ctx, e.vacant(), then, slices.Concat(put, look))
	if err != nil {
		_ = e.revoke(context.WithoutCancel(ctx), id) // it may have been granted, and leases may be what has run out
		return 0, nil, err
	}
	c := content{got.Responses[len(got.Responses)-1].GetResponseRange().Kvs, got.Header.Revision}
	e.learn(c.kvs, c.rev)
	select {
	case e.gates.met <- c:
	default: // not the first time
	}
	keeping, drop := context.WithCancel(ctx)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.node.lease, e.node.drop, e.node.written, e.node.confirmed = id, drop, vacated, sent
	if e.cfg.Clock()-sent < e.trusted() && e.node.lapsed {
		e.node.lapsed = false
		e.post(rendezvous.Unconfirmed{})
	}
	e.wakes.chore.wake()
	e.wakes.contest.wake()
	return id, keeping, nil
}

// vacant returns the conditions that no agent may form a world yet and that no world
// is sealed.
func (e *Etcd) vacant() []clientv3.Cmp {
	return []clientv3.Cmp{
		clientv3.Compare(clientv3.CreateRevision(e.keys.coordinator), "=", 0),
		clientv3.Compare(clientv3.CreateRevision(e.keys.round), "=", 0),
	}
}

// self returns what this agent says of itself.
func (e *Etcd) self(vacated int) agent {
	return agent{ID: e.cfg.ID, Name: clip(e.cfg.Name), Control: e.cfg.Control, Vacated: vacated}
}

// expel notes that the membership under a lease has ended.
func (e *Etcd) expel(id leaseID, why string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.node.lease != id {
		return
	}
	e.lapse(why)
	e.node.lease = 0
	e.node.drop()
}

// Vacate implements rendezvous.Fence.
func (e *Etcd) Vacate(round int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.node.vacated = max(e.node.vacated, round)
	e.wakes.chore.wake()
}

// Unseal implements rendezvous.Fence. Run still tries what is not done when its ctx
// ends.
func (e *Etcd) Unseal(job string, round int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.unseal.what, e.unseal.owed = &rendezvous.Unseal{Job: job, Round: round}, true
	e.wakes.chore.wake()
}

// chores does what Vacate and Unseal ask for.
func (e *Etcd) chores(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-e.wakes.chore:
		}
		for wait := 50 * time.Millisecond; (!e.mark(ctx) || !e.settle(ctx)) && pause(ctx, wait); wait = min(2*wait, time.Second) {
		}
	}
}

// mark writes the round that Vacate named into this node's key and reports whether it
// stands there. A node that is not registered writes it when it registers.
func (e *Etcd) mark(ctx context.Context) bool {
	e.mu.Lock()
	id, vacated, told := e.node.lease, e.node.vacated, e.node.written
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
	if e.node.lease == id && got.Succeeded {
		e.node.written = max(e.node.written, vacated)
		e.wakes.contest.wake()
	}
	return true
}

// clear deletes the key of the round that this agent sealed, if the job has ended
// without Unseal and yet no worker of it can live anywhere. It also ends the lease
// for a key that was never written.
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
	if why, err := e.mayLive(ctx, r); why == "" && err == nil {
		_ = e.remove(ctx, r)
	}
}

// settle does what Unseal asks for and reports whether nothing is left to do.
func (e *Etcd) settle(ctx context.Context) bool {
	e.mu.Lock()
	over, owed, job := e.unseal.what, e.unseal.owed, e.job
	e.mu.Unlock()
	if !owed {
		return true
	}
	select {
	case <-ctx.Done():
		return false
	case <-e.gates.sealing:
	}
	defer func() { e.gates.sealing <- struct{}{} }()
	if job != nil && job.job == over.Job { // first, so that a seal that is still on its way fails
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
	e.unseal.owed = e.unseal.what != over
	return !e.unseal.owed
}
