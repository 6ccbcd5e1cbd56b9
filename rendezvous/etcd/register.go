package etcd

import (
	"context"
	"slices"
	"time"

	"github.com/gorun/gorun/rendezvous"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// register keeps this agent registered, under a new lease where etcd has ended
// the old one. An error is one that only the person can mend, at the first try.
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
		if e.keep(keeping, id, every, e.renew, func(sent time.Duration) { e.confirm(id, sent) }) {
			e.expel(id, "etcd at "+e.at()+" has ended this node's membership")
		}
	}
	return nil
}

// enrol writes this agent's key under a new lease, and the coordinator's too if
// nobody has it and nothing is sealed.
func (e *Etcd) enrol(ctx context.Context) (leaseID, context.Context, error) {
	sent, id := e.early.sent, e.early.id
	if e.early = (early{}); id == 0 || e.cfg.Clock()-sent > e.cfg.TTL/4 {
		var err error
		sent = e.cfg.Clock()
		if id, err = e.grant(ctx, e.cl, e.cfg.TTL); err != nil {
			return 0, nil, err
		}
	}
	e.mu.Lock()
	vacated, hold := e.vacated, e.leading || e.over != nil
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
		_ = e.revoke(context.WithoutCancel(ctx), id) // it may have come true; and it may be what has run out
		return 0, nil, err
	}
	c := content{got.Responses[len(got.Responses)-1].GetResponseRange().Kvs, got.Header.Revision}
	e.learn(c.kvs, c.rev)
	select {
	case e.met <- c:
	default: // not the first time
	}
	keeping, drop := context.WithCancel(ctx)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.lease, e.drop, e.told, e.confirmed = id, drop, vacated, sent
	if e.cfg.Clock()-sent < e.trusted() && e.lapsed {
		e.lapsed = false
		e.post(rendezvous.Lapsed{})
	}
	e.chore.wake()
	e.contest.wake()
	return id, keeping, nil
}

// vacant: nobody may form a world yet, and none is sealed.
func (e *Etcd) vacant() []clientv3.Cmp {
	return []clientv3.Cmp{
		clientv3.Compare(clientv3.CreateRevision(e.keys.coordinator), "=", 0),
		clientv3.Compare(clientv3.CreateRevision(e.keys.round), "=", 0),
	}
}

// self is what this agent says of itself.
func (e *Etcd) self(vacated int) agent {
	return agent{ID: e.cfg.ID, Name: clip(e.cfg.Name), Control: e.cfg.Control, Vacated: vacated}
}

// expel takes note that the membership under a lease has ended.
func (e *Etcd) expel(id leaseID, why string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.lease != id {
		return
	}
	e.lapse(why)
	e.lease = 0
	e.drop()
}
