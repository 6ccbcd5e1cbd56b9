package etcd

import (
	"context"
	"maps"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// keyGroup is a group of keys that an agent follows.
type keyGroup struct {
	prefix  string
	apply   func(all []*mvccpb.KeyValue, rev int64) // takes all keys as they were at a revision
	confirm func(rev int64)                         // takes a later revision at which they were the same; may be nil
	known   map[string]int64                        // ModRevision of each key
}

// followJob follows the coordinator's and the round's key.
func (e *Etcd) followJob(ctx context.Context) error {
	return e.follow(ctx, &keyGroup{prefix: e.keys.job, apply: e.applyJobKeys})
}

// followNodes follows all nodes' keys, once this agent leads.
func (e *Etcd) followNodes(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-e.gates.led:
	}
	return e.follow(ctx, &keyGroup{prefix: e.keys.nodes, apply: e.applyNodeKeys, confirm: e.confirmNodeKeys})
}

// follow reads the keys of a group and watches them. It begins again when the watch
// breaks, or when a comparison of revisions shows that the watch has missed a change.
func (e *Etcd) follow(ctx context.Context, g *keyGroup) error {
	for ctx.Err() == nil {
		rev, err := e.load(ctx, g)
		if err != nil {
			e.reportError(ctx, err)
			pause(ctx, 100*time.Millisecond)
			continue
		}
		e.setTrouble(nil)
		e.watch(ctx, g, rev+1)
	}
	return nil
}

// reportError shows the error of a request, unless the error only means that Run ends.
func (e *Etcd) reportError(ctx context.Context, err error) {
	if ctx.Err() == nil {
		e.setTrouble(e.explain(err))
	}
}

// load reads a group and returns its revision.
func (e *Etcd) load(ctx context.Context, g *keyGroup) (rev int64, err error) {
	ctx, cancel := call(ctx)
	defer cancel()
	got, err := e.session.cl.Get(ctx, g.prefix, clientv3.WithPrefix())
	if err != nil {
		return 0, err
	}
	g.known = make(map[string]int64, len(got.Kvs))
	for _, kv := range got.Kvs {
		g.known[string(kv.Key)] = kv.ModRevision
	}
	g.apply(got.Kvs, got.Header.Revision)
	return got.Header.Revision, nil
}

// watch follows a group from a revision until the watch breaks.
func (e *Etcd) watch(ctx context.Context, g *keyGroup, rev int64) {
	wctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	defer cancel()
	events := e.session.cl.Watch(wctx, g.prefix, clientv3.WithPrefix(), clientv3.WithRev(rev))
	compare := time.NewTicker(e.compareEvery())
	defer compare.Stop()
	for {
		select {
		case got, ok := <-events:
			if !ok || got.Err() != nil {
				return
			}
			for _, ev := range got.Events {
				if ev.Type == clientv3.EventTypeDelete {
					delete(g.known, string(ev.Kv.Key))
				} else {
					g.known[string(ev.Kv.Key)] = ev.Kv.ModRevision
				}
				e.applyChange(ev.Kv)
			}
		case <-compare.C:
			if !e.compareRevisions(ctx, g) {
				return
			}
		}
	}
}

// compareEvery is how long a change may stay unseen if the watch is silent.
func (e *Etcd) compareEvery() time.Duration {
	return min(max(e.cfg.TTL/3, time.Second), 5*time.Second)
}

// compareRevisions reports whether etcd has a group's keys as the watch has shown them.
// If the watch is only late, the keys are loaded once without need. compareRevisions also checks that
// this agent's own key is still there.
func (e *Etcd) compareRevisions(ctx context.Context, g *keyGroup) bool {
	e.mu.Lock()
	id := e.node.lease
	e.mu.Unlock()
	got, err := e.txn(ctx, nil, []clientv3.Op{
		clientv3.OpGet(g.prefix, clientv3.WithPrefix(), clientv3.WithKeysOnly()),
		clientv3.OpGet(e.keys.self, clientv3.WithKeysOnly()),
	}, nil)
	if err != nil {
		e.reportError(ctx, err)
		return ctx.Err() == nil // the watch may still work
	}
	e.setTrouble(nil)
	if len(got.Responses[1].GetResponseRange().Kvs) == 0 && id != 0 {
		e.endMembership(id, "this node's key "+e.keys.self+" was deleted in etcd at "+e.at())
	}
	now := map[string]int64{}
	for _, kv := range got.Responses[0].GetResponseRange().Kvs {
		now[string(kv.Key)] = kv.ModRevision
	}
	if !maps.Equal(now, g.known) {
		return false
	}
	if g.confirm != nil {
		g.confirm(got.Header.Revision)
	}
	return true
}
