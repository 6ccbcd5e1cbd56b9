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
	at          int64 // revision of that read: older changes are known
	latest      int64 // revision of their latest change that a watch reported
	coordinator entry[agent]
	round       entry[round]
	whole       bool  // the nodes' keys have been read
	nodesAt     int64 // last revision at which nodes was as in etcd
	nodes       map[string]entry[agent]
	everSeen    map[rendezvous.NodeID]bool // every node that nodes has ever had
}

// complete reports whether a node that the view lacks is certainly no member. It is not
// certain if the view is older than the world that this agent has sealed last, and has
// never had some node of that world: a watch begins 100 ms late, and the network may be
// cut meanwhile. The caller holds mu.
func (e *Etcd) complete() bool {
	v := &e.seen
	if !v.whole || v.nodesAt >= e.sealed.rev {
		return v.whole
	}
	return !slices.ContainsFunc(e.sealed.members, func(id rendezvous.NodeID) bool { return !v.everSeen[id] })
}

// entry is one key. Its value is nil if decode refuses it.
type entry[T any] struct {
	rev   int64 // of its last change; 0: there is no such key
	lease leaseID
	value *T
}

// entryOf makes the entry of a key, an empty one if kv is nil.
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

// applyJobKeys updates the view with all of the job's keys as they were at a revision.
func (e *Etcd) applyJobKeys(kvs []*mvccpb.KeyValue, rev int64) {
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

// applyNodeKeys updates the view with all nodes' keys as they were at a revision.
func (e *Etcd) applyNodeKeys(kvs []*mvccpb.KeyValue, rev int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.seen.whole, e.seen.nodes, e.seen.nodesAt = true, make(map[string]entry[agent], len(kvs)), rev
	for _, kv := range kvs {
		e.setNode(string(kv.Key), kv)
	}
	e.wakes.changed.wake()
}

// confirmNodeKeys notes that the view has the nodes' keys as they were at a revision.
func (e *Etcd) confirmNodeKeys(rev int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.seen.nodesAt = max(e.seen.nodesAt, rev)
	e.wakes.changed.wake()
}

// applyChange updates the view with a change of one of the run's keys. Deleted keys have
// no CreateRevision.
func (e *Etcd) applyChange(kv *mvccpb.KeyValue) {
	e.mu.Lock()
	defer e.mu.Unlock()
	key, now := string(kv.Key), kv
	if kv.CreateRevision == 0 {
		now = nil
	}
	if strings.HasPrefix(key, e.keys.job) {
		if kv.ModRevision <= e.seen.at {
			return // the view has it
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
		if e.seen.everSeen == nil {
			e.seen.everSeen = map[rendezvous.NodeID]bool{}
		}
		e.seen.everSeen[a.value.ID] = true
	} else {
		delete(e.seen.nodes, key)
	}
}

func (e *Etcd) setCoordinator(kv *mvccpb.KeyValue) { e.seen.coordinator = entryOf(kv, decodeAgent) }

// setRound sets the round's key as it was at a revision.
func (e *Etcd) setRound(kv *mvccpb.KeyValue, rev int64) {
	old := e.seen.round.rev
	e.seen.round = entryOf(kv, decodeRound)
	if e.seen.round.rev != old {
		e.postElsewhere(rev)
	}
}

// postElsewhere posts the sealed round after a change at revision rev. It also ends the
// job's lease of this agent if another agent has sealed a world, or if the key was
// deleted. The caller holds mu.
func (e *Etcd) postElsewhere(rev int64) {
	if j := e.job; j != nil && j.rev != 0 && rev > j.rev && e.seen.round.lease != j.id {
		e.endJob(j, e.seen.round.rev == 0)
	}
	if r := e.seen.round.value; r != nil {
		e.checkLease()
		e.post(rendezvous.Elsewhere{Job: r.Job, Term: r.Term, Round: r.Round, Members: r.ids(), Control: r.Control})
	}
}

// publish posts Peers after changes. It pauses after each list of all nodes, so that
// several changes are one event.
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
		if last != nil && last.Complete {
			pause(ctx, 5*time.Millisecond)
		}
	}
}

func same(a, b rendezvous.Peers) bool {
	return a.Trouble == b.Trouble && a.Complete == b.Complete && slices.Equal(a.All, b.All)
}

// peers returns all nodes to an agent that leads. Otherwise it returns this agent and
// the agent that may form the first world. ok is false until this agent has read the
// keys once, or has failed to.
func (e *Etcd) peers() (p rendezvous.Peers, ok bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	agents := map[rendezvous.NodeID]agent{}
	coordinator := e.seen.coordinator.value
	if coordinator != nil {
		agents[coordinator.ID] = *coordinator
	}
	all := e.leading && e.seen.whole
	if all {
		for _, n := range e.seen.nodes {
			agents[n.value.ID] = *n.value
		}
	}
	agents[e.cfg.ID] = e.self(-1)
	p = rendezvous.Peers{Trouble: cmp.Or(e.trouble, e.blocked), Complete: all && e.complete()}
	for id, a := range agents {
		endpoint := -1
		if coordinator != nil && coordinator.ID == id {
			endpoint = 0
		}
		p.All = append(p.All, a.peer(endpoint))
	}
	slices.SortFunc(p.All, func(a, b rendezvous.Peer) int { return cmp.Compare(a.ID, b.ID) })
	return p, e.seen.jobs || e.trouble != ""
}

// setTrouble sets why etcd does not answer, for the user; nil means that it does.
func (e *Etcd) setTrouble(t *trouble) {
	text := ""
	if t != nil {
		text = t.Error()
	}
	e.setText(&e.trouble, text)
}

// setText sets one of the texts that Peers shows.
func (e *Etcd) setText(which *string, text string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if *which != text {
		*which = text
		e.wakes.changed.wake()
	}
}
