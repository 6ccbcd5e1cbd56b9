package etcd

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/gorun/gorun/rendezvous"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// contend takes the coordinator's key when no agent has it and nothing is sealed. The
// agent that registered first takes it at once, the others after a second.
func (e *Etcd) contend(ctx context.Context) error {
	var since time.Time // when this agent could first take the key; zero: it cannot
	for ctx.Err() == nil {
		wait := time.Hour
		if r := e.roundToReplace(); r == nil {
			since = time.Time{}
			var text string
			text, wait = e.absentCoordinator(ctx)
			e.setText(&e.blocked, text)
		} else {
			if since.IsZero() {
				since = time.Now()
			}
			if wait = time.Second - time.Since(since); wait <= 0 || e.oldest(ctx) {
				e.claim(ctx, *r)
				wait = time.Second
			}
		}
		await(ctx, e.wakes.contest, wait)
	}
	return nil
}

// roundToReplace returns the sealed round that a first world replaces, an empty entry if
// nothing is sealed, and nil if this agent must not take the coordinator's key.
func (e *Etcd) roundToReplace() *entry[round] {
	e.mu.Lock()
	defer e.mu.Unlock()
	r := e.seen.round
	if !e.seen.jobs || e.seen.coordinator.rev != 0 || e.node.lease == 0 || e.node.unconfirmed || e.leading || e.unseal.what != nil ||
		r.value != nil && r.value.has(e.cfg.ID) { // its members choose their next coordinator
		return nil
	}
	return &r
}

// absentCoordinator says that the agent in the coordinator's key is not registered, so
// that no agent will form a world, and when to check again. The text is "" if all is
// well.
func (e *Etcd) absentCoordinator(ctx context.Context) (text string, next time.Duration) {
	e.mu.Lock()
	c, r := e.seen.coordinator, e.seen.round
	irrelevant := c.rev == 0 || e.leading || e.unseal.what != nil || r.value != nil && r.value.has(e.cfg.ID)
	e.mu.Unlock()
	switch {
	case irrelevant:
		return "", time.Hour
	case c.value == nil:
		return e.foreignKey(e.keys.coordinator), time.Hour
	}
	nodes, err := e.readNodes(ctx, []rendezvous.NodeID{c.value.ID})
	if _, found := nodes[c.value.ID]; found || err != nil {
		return "", e.compareEvery()
	}
	return fmt.Sprintf("the key %s in etcd at %s names %s (%s), which is not there: delete the key if it stays", e.keys.coordinator, e.at(), cmp.Or(c.value.Name, string(c.value.ID)), c.value.Control), e.compareEvery()
}

// foreignKey is the text about a key that decode refuses.
func (e *Etcd) foreignKey(key string) string {
	return fmt.Sprintf("the key %s in etcd at %s was not written by this gorun: delete it, or give another --rdzv-id", key, e.at())
}

// oldest reports whether no other agent has registered before this agent.
func (e *Etcd) oldest(ctx context.Context) bool {
	ctx, cancel := call(ctx)
	defer cancel()
	got, err := e.session.cl.Get(ctx, e.keys.nodes, clientv3.WithPrefix(), clientv3.WithKeysOnly(), clientv3.WithLimit(1),
		clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortAscend))
	return err == nil && len(got.Kvs) == 1 && string(got.Kvs[0].Key) == e.keys.self
}

// claim takes the coordinator's key. It first removes the round of a crashed job.
func (e *Etcd) claim(ctx context.Context, r entry[round]) {
	if r.rev != 0 {
		why, err := e.stillRunning(ctx, r)
		if err == nil && why != "" {
			e.setText(&e.blocked, why)
			return
		}
		if err == nil {
			err = e.remove(ctx, r)
		}
		if err != nil {
			e.reportError(ctx, err)
			return
		}
		e.setText(&e.blocked, "")
	}
	if id := e.confirmedLease(); id != 0 {
		_, _ = e.txn(ctx, e.noCoordinator(), []clientv3.Op{clientv3.OpPut(e.keys.coordinator, encode(e.self(-1)), clientv3.WithLease(id))}, nil)
	}
}

// nodeKey is what a node's key says.
type nodeKey struct {
	name    string
	vacated int
	lease   leaseID
}

// readNodes reads the keys of some nodes. The result lacks a node that has no key.
func (e *Etcd) readNodes(ctx context.Context, ids []rendezvous.NodeID) (map[rendezvous.NodeID]nodeKey, error) {
	out := map[rendezvous.NodeID]nodeKey{}
	for some := range slices.Chunk(ids, 100) { // etcd takes 128 operations at a time
		var gets []clientv3.Op
		for _, id := range some {
			gets = append(gets, clientv3.OpGet(e.keys.node(id)))
		}
		got, err := e.txn(ctx, nil, gets, nil)
		if err != nil {
			return nil, err
		}
		for i, id := range some {
			for _, kv := range got.Responses[i].GetResponseRange().Kvs {
				n := nodeKey{name: string(id), vacated: -1, lease: leaseID(kv.Lease)}
				if a, err := decodeAgent(kv.Value); err == nil && a.ID == id {
					n.name, n.vacated = a.Name, a.Vacated
				}
				out[id] = n
			}
		}
	}
	return out, nil
}
