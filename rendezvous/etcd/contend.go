package etcd

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/gorun/gorun/rendezvous"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// contend takes the coordinator's key when no agent has it and nothing is sealed. The
// agent that registered first takes it at once, the others if it does not.
func (e *Etcd) contend(ctx context.Context) error {
	var since time.Time // when this agent began to want it; zero: it does not
	for {
		wait := time.Hour
		if why := e.contested(); why == nil {
			since = time.Time{}
			var text string
			text, wait = e.holderless(ctx)
			e.say(&e.blocked, text)
		} else {
			if since.IsZero() {
				since = time.Now()
			}
			if e.oldest(ctx) || time.Since(since) >= time.Second {
				e.claim(ctx, *why)
				wait = time.Second
			} else {
				wait = time.Second - time.Since(since)
			}
		}
		t := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			t.Stop()
			return nil
		case <-e.wakes.contest:
			t.Stop()
		case <-t.C:
		}
	}
}

// contested returns the sealed round that stands in the way of a first world,
// an empty entry if none does, and nil if this agent has nothing to claim.
func (e *Etcd) contested() *entry[round] {
	e.mu.Lock()
	defer e.mu.Unlock()
	r := e.seen.round
	if !e.seen.jobs || e.seen.coordinator.rev != 0 || e.node.lease == 0 || e.node.lapsed || e.leading || e.unseal.what != nil ||
		r.value != nil && r.value.has(e.cfg.ID) { // its members know how to go on
		return nil
	}
	return &r
}

// holderless says why no agent will form a world though the coordinator's key is
// there, and when to look again. The text is "" if an agent will.
func (e *Etcd) holderless(ctx context.Context) (string, time.Duration) {
	e.mu.Lock()
	c, r := e.seen.coordinator, e.seen.round
	others := c.rev == 0 || e.leading || e.unseal.what != nil || r.value != nil && r.value.has(e.cfg.ID)
	e.mu.Unlock()
	switch {
	case others:
		return "", time.Hour
	case c.value == nil:
		return e.foreign(e.keys.coordinator), time.Hour
	}
	marks, err := e.marks(ctx, []rendezvous.NodeID{c.value.ID})
	if _, there := marks[c.value.ID]; there || err != nil {
		return "", e.lookEvery()
	}
	return fmt.Sprintf("the key %s in etcd at %s names %s (%s), which is not there: delete the key if it stays", e.keys.coordinator, e.at(), cmp.Or(c.value.Name, string(c.value.ID)), c.value.Control), e.lookEvery()
}

// foreign says what to do about a key whose value makes no sense.
func (e *Etcd) foreign(key string) string {
	return fmt.Sprintf("the key %s in etcd at %s was not written by this gorun: delete it, or give another --rdzv-id", key, e.at())
}

// oldest reports whether no other agent has registered before this one.
func (e *Etcd) oldest(ctx context.Context) bool {
	ctx, cancel := call(ctx)
	defer cancel()
	got, err := e.session.cl.Get(ctx, e.keys.nodes, clientv3.WithPrefix(), clientv3.WithKeysOnly(), clientv3.WithLimit(1),
		clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortAscend))
	return err == nil && len(got.Kvs) == 1 && string(got.Kvs[0].Key) == e.keys.self
}

// claim takes the key, or removes what a crashed job has left in its way.
func (e *Etcd) claim(ctx context.Context, r entry[round]) {
	if r.rev != 0 {
		why, err := e.mayLive(ctx, r)
		switch {
		case err != nil:
			e.fail(ctx, err)
			return
		case why != "":
			e.say(&e.blocked, why)
			return
		}
		if err := e.remove(ctx, r); err != nil {
			e.fail(ctx, err)
			return
		}
		e.say(&e.blocked, "")
	}
	id := e.certain()
	if id == 0 {
		return
	}
	_, _ = e.txn(ctx, e.vacant(), []clientv3.Op{clientv3.OpPut(e.keys.coordinator, encode(e.self(-1)), clientv3.WithLease(id))}, nil)
}

// mark is what a node's key says.
type mark struct {
	name    string
	vacated int
	lease   leaseID
}

// marks reads the keys of some nodes. A node without a key is not in the result.
func (e *Etcd) marks(ctx context.Context, ids []rendezvous.NodeID) (map[rendezvous.NodeID]mark, error) {
	const most = 100 // etcd takes 128 operations at a time
	out := map[rendezvous.NodeID]mark{}
	for len(ids) > 0 {
		n := min(most, len(ids))
		var gets []clientv3.Op
		for _, id := range ids[:n] {
			gets = append(gets, clientv3.OpGet(e.keys.node(id)))
		}
		got, err := e.txn(ctx, nil, gets, nil)
		if err != nil {
			return nil, err
		}
		for i, id := range ids[:n] {
			for _, kv := range got.Responses[i].GetResponseRange().Kvs {
				m := mark{name: string(id), vacated: -1, lease: leaseID(kv.Lease)}
				if a, err := decodeAgent(kv.Value); err == nil && a.ID == id {
					m.name, m.vacated = a.Name, a.Vacated
				}
				out[id] = m
			}
		}
		ids = ids[n:]
	}
	return out, nil
}
