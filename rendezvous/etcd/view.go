package etcd

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/gorun/gorun/rendezvous"
	"go.etcd.io/etcd/api/v3/mvccpb"
)

// view is what this agent has seen of the run's keys.
type view struct {
	jobs        bool  // the job's keys have been read
	at          int64 // the revision at which that was done last: older changes are known
	latest      int64 // their latest change that a watch reported
	coordinator entry[agent]
	round       entry[round]
	whole       bool  // the nodes' keys have been read
	nodesAt     int64 // the revision at which that was done, or found to be right, last
	nodes       map[string]entry[agent]
	shown       map[rendezvous.NodeID]bool // every node that it has ever had
}

// complete reports whether a node that is not in the view is certainly no member any
// more. It is not certain while the view is older than the world that this agent has
// sealed last and has not shown all of that world: a watch begins 100 ms behind, and
// a network may be cut meanwhile. mu is held.
func (e *Etcd) complete() bool {
	v := &e.seen
	if !v.whole || v.nodesAt >= e.sealed.rev {
		return v.whole
	}
	return !slices.ContainsFunc(e.sealed.members, func(id rendezvous.NodeID) bool { return !v.shown[id] })
}

// entry is one key. Its value is nil if it makes no sense, though the key is there.
type entry[T any] struct {
	rev   int64 // of its last change, 0: there is no such key
	lease leaseID
	value *T
}

// entryOf makes an entry of a key, an empty one of nil.
func entryOf[T any](kv *mvccpb.KeyValue, decode func([]byte) (*T, error)) entry[T] {
	if kv == nil {
		return entry[T]{}
	}
	e := entry[T]{rev: kv.ModRevision, lease: leaseID(kv.Lease)}
	if v, err := decode(kv.Value); err == nil {
		e.value = v
	}
	return e
}

// learn takes the job's keys into the view, all of them as they were at a revision.
// An agent that has written to etcd need not wait for a watch.
func (e *Etcd) learn(kvs []*mvccpb.KeyValue, rev int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if rev < e.seen.latest || rev <= e.seen.at {
		return
	}
	e.seen.jobs, e.seen.at = true, rev
	byKey := map[string]*mvccpb.KeyValue{}
	for _, kv := range kvs {
		byKey[string(kv.Key)] = kv
	}
	e.setCoordinator(byKey[e.keys.coordinator])
	e.setRound(byKey[e.keys.round], rev)
	e.wakes.changed.wake()
	e.wakes.contest.wake()
}

// learnNodes takes all nodes' keys into the view.
func (e *Etcd) learnNodes(kvs []*mvccpb.KeyValue, rev int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.seen.whole, e.seen.nodes, e.seen.nodesAt = true, make(map[string]entry[agent], len(kvs)), rev
	for _, kv := range kvs {
		e.setNode(string(kv.Key), kv)
	}
	e.wakes.changed.wake()
}

// confirmNodes notes that the nodes' keys are in etcd, at a revision, as in the view.
func (e *Etcd) confirmNodes(rev int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.seen.nodesAt = max(e.seen.nodesAt, rev)
	e.wakes.changed.wake()
}

// see takes a change of one of the run's keys into the view. Deleted keys have no
// CreateRevision.
func (e *Etcd) see(kv *mvccpb.KeyValue) {
	e.mu.Lock()
	defer e.mu.Unlock()
	key, now := string(kv.Key), kv
	if kv.CreateRevision == 0 {
		now = nil
	}
	if strings.HasPrefix(key, e.keys.job) {
		if kv.ModRevision <= e.seen.at {
			return // that view had it
		}
		e.seen.latest = max(e.seen.latest, kv.ModRevision)
		switch key {
		case e.keys.coordinator:
			e.setCoordinator(now)
		case e.keys.round:
			e.setRound(now, kv.ModRevision)
		}
		e.wakes.contest.wake()
	} else {
		e.setNode(key, now)
	}
	e.wakes.changed.wake()
}

func (e *Etcd) setNode(key string, kv *mvccpb.KeyValue) {
	if a := entryOf(kv, decodeAgent); a.value != nil && e.keys.node(a.value.ID) == key {
		e.seen.nodes[key] = a
		if e.seen.shown == nil {
			e.seen.shown = map[rendezvous.NodeID]bool{}
		}
		e.seen.shown[a.value.ID] = true
	} else {
		delete(e.seen.nodes, key)
	}
}

func (e *Etcd) setCoordinator(kv *mvccpb.KeyValue) { e.seen.coordinator = entryOf(kv, decodeAgent) }

// setRound takes the round's key as it was at a revision.
func (e *Etcd) setRound(kv *mvccpb.KeyValue, rev int64) {
	old := e.seen.round.rev
	e.seen.round = entryOf(kv, decodeRound)
	if e.seen.round.rev != old {
		e.elsewhere(rev)
	}
}

// elsewhere posts what was sealed, with mu held, and compares it with what this
// agent has sealed itself: rev is the revision of the change.
func (e *Etcd) elsewhere(rev int64) {
	if j := e.job; j != nil && j.rev != 0 && rev > j.rev && e.seen.round.lease != j.id {
		j.ended = true // by another agent's seal, or by a deletion
		j.deleted = e.seen.round.rev == 0 && e.unseal.what == nil
		e.wakes.hold.wake()
	}
	if r := e.seen.round.value; r != nil {
		e.checkLease()
		e.post(rendezvous.Elsewhere{Job: r.Job, Term: r.Term, Round: r.Round, Members: r.ids(), Control: r.Control})
	}
}

// publish posts Peers at changes, all nodes at most every few milliseconds.
func (e *Etcd) publish(ctx context.Context) error {
	var last *rendezvous.Peers
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-e.wakes.changed:
		}
		if p, ok := e.peers(); ok && (last == nil || !same(*last, p)) {
			last = &p
			e.emit(p)
		}
		if last != nil && last.Whole {
			pause(ctx, 5*time.Millisecond)
		}
	}
}

func same(a, b rendezvous.Peers) bool {
	return a.Trouble == b.Trouble && a.Whole == b.Whole && slices.Equal(a.All, b.All)
}

// peers returns all nodes to an agent that leads. Otherwise it returns this agent and
// the agent that may form the first world. It has nothing to say before it has read
// the keys once, or failed to.
func (e *Etcd) peers() (rendezvous.Peers, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	all := e.leading && e.seen.whole
	p := rendezvous.Peers{Trouble: cmp.Or(e.trouble, e.blocked), Whole: all && e.complete()}
	holder := e.seen.coordinator.value
	add := func(a agent) {
		endpoint := -1
		if holder != nil && holder.ID == a.ID {
			endpoint = 0
		}
		p.All = append(p.All, a.peer(endpoint))
	}
	add(e.self(-1))
	met := map[rendezvous.NodeID]bool{e.cfg.ID: true}
	if all {
		for _, n := range e.seen.nodes {
			if !met[n.value.ID] {
				met[n.value.ID] = true
				add(*n.value)
			}
		}
	}
	if holder != nil && !met[holder.ID] {
		add(*holder)
	}
	slices.SortFunc(p.All, func(a, b rendezvous.Peer) int { return cmp.Compare(a.ID, b.ID) })
	return p, e.seen.jobs || e.trouble != ""
}

// report keeps why etcd cannot be asked, for the user. nil means that it can.
func (e *Etcd) report(t *trouble) {
	text := ""
	if t != nil {
		text = t.Error()
	}
	e.say(&e.trouble, text)
}

// say sets one of the texts that Peers shows.
func (e *Etcd) say(which *string, text string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if *which != text {
		*which = text
		e.wakes.changed.wake()
	}
}
