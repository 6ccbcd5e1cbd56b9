package etcd

import (
	"context"
	"maps"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// part is a group of keys that an agent follows.
type part struct {
	prefix string
	learn  func(all []*mvccpb.KeyValue, rev int64) // takes all keys as read at a revision
	right  func(rev int64)                         // takes a revision at which they were found to be as known; may be nil
	known  map[string]int64
}

// content is what a part had at a revision.
type content struct {
	kvs []*mvccpb.KeyValue
	rev int64
}

func (p *part) take(c content) {
	p.known = make(map[string]int64, len(c.kvs))
	for _, kv := range c.kvs {
		p.known[string(kv.Key)] = kv.ModRevision
	}
	p.learn(c.kvs, c.rev)
}

// followJob follows the coordinator's and the round's key. An agent that has just
// registered knows them already and leaves the machine to newcomers.
func (e *Etcd) followJob(ctx context.Context) error {
	p := &part{prefix: e.keys.job, learn: e.learn}
	select {
	case <-ctx.Done():
	case c := <-e.gates.met:
		p.take(c)
		e.report(nil)
		pause(ctx, 100*time.Millisecond)
		e.watch(ctx, p, c.rev+1)
	case <-time.After(time.Second):
	}
	return e.follow(ctx, p)
}

// followNodes follows all nodes' keys, once this agent leads.
func (e *Etcd) followNodes(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-e.gates.led:
	}
	return e.follow(ctx, &part{prefix: e.keys.nodes, learn: e.learnNodes, right: e.confirmNodes})
}

// follow reads the keys of a part, watches them from there on, and begins anew
// when the watch breaks, or when a look at the revisions shows that it has
// missed something.
func (e *Etcd) follow(ctx context.Context, p *part) error {
	for ctx.Err() == nil {
		c, err := e.load(ctx, p)
		if err != nil {
			e.fail(ctx, err)
			pause(ctx, 100*time.Millisecond)
			continue
		}
		p.take(c)
		e.report(nil)
		e.watch(ctx, p, c.rev+1)
	}
	return nil
}

// fail reports an error of a request, unless the error only means that Run ends.
func (e *Etcd) fail(ctx context.Context, err error) {
	if ctx.Err() == nil {
		e.report(e.explain(err))
	}
}

// load reads a part.
func (e *Etcd) load(ctx context.Context, p *part) (content, error) {
	ctx, cancel := call(ctx)
	defer cancel()
	got, err := e.session.cl.Get(ctx, p.prefix, clientv3.WithPrefix())
	if err != nil {
		return content{}, err
	}
	return content{got.Kvs, got.Header.Revision}, nil
}

// watch follows a part from a revision until that does not work any more.
func (e *Etcd) watch(ctx context.Context, p *part, rev int64) {
	wctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	defer cancel()
	events := e.session.cl.Watch(wctx, p.prefix, clientv3.WithPrefix(), clientv3.WithRev(rev))
	look := time.NewTicker(e.lookEvery())
	defer look.Stop()
	for {
		select {
		case got, ok := <-events:
			if !ok || got.Err() != nil {
				return
			}
			for _, ev := range got.Events {
				if ev.Type == clientv3.EventTypeDelete {
					delete(p.known, string(ev.Kv.Key))
				} else {
					p.known[string(ev.Kv.Key)] = ev.Kv.ModRevision
				}
				e.see(ev.Kv)
			}
		case <-look.C:
			if !e.look(ctx, p) {
				return
			}
		}
	}
}

// lookEvery is how long a change may stay unseen if the watch is silent.
func (e *Etcd) lookEvery() time.Duration { return min(max(e.cfg.TTL/3, time.Second), 5*time.Second) }

// look compares revisions. A watch may be behind for a moment, which costs a needless
// load. It also checks that this agent's own key is still there.
func (e *Etcd) look(ctx context.Context, p *part) bool {
	e.mu.Lock()
	id := e.node.lease
	e.mu.Unlock()
	got, err := e.txn(ctx, nil, []clientv3.Op{
		clientv3.OpGet(p.prefix, clientv3.WithPrefix(), clientv3.WithKeysOnly()),
		clientv3.OpGet(e.keys.self, clientv3.WithKeysOnly()),
	}, nil)
	if err != nil {
		e.fail(ctx, err)
		return ctx.Err() == nil // the watch may be sound
	}
	e.report(nil)
	if len(got.Responses[1].GetResponseRange().Kvs) == 0 && id != 0 {
		e.expel(id, "somebody has deleted this node's key in etcd")
	}
	now := map[string]int64{}
	for _, kv := range got.Responses[0].GetResponseRange().Kvs {
		now[string(kv.Key)] = kv.ModRevision
	}
	if !maps.Equal(now, p.known) {
		return false
	}
	if p.right != nil {
		p.right(got.Header.Revision)
	}
	return true
}
