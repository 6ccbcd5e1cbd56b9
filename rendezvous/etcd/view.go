package etcd

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/gorun/gorun/rendezvous"
	"go.etcd.io/etcd/api/v3/mvccpb"
)

// view is what this agent has seen of the run's keys.
type view struct {
	jobs        bool // the job's keys have been read
	coordinator entry[agent]
	round       entry[round]
	whole       bool // the nodes' keys have been read
	nodes       map[string]entry[agent]
}

// entry is one key. A value that makes no sense is nil, and the key is there all
// the same.
type entry[T any] struct {
	rev   int64 // of its last change, 0: there is no such key
	lease leaseID
	value *T
}

func entryOf[T any](kv *mvccpb.KeyValue, decode func([]byte) (*T, error)) entry[T] {
	e := entry[T]{rev: kv.ModRevision, lease: leaseID(kv.Lease)}
	if v, err := decode(kv.Value); err == nil {
		e.value = v
	}
	return e
}

// see takes one of the run's keys into the view; deleted ones have no CreateRevision.
func (e *Etcd) see(kv *mvccpb.KeyValue) {
	e.mu.Lock()
	defer e.mu.Unlock()
	there := kv.CreateRevision != 0
	switch key := string(kv.Key); key {
	case e.keys.coordinator:
		e.seen.coordinator = entry[agent]{}
		if there {
			e.seen.coordinator = entryOf(kv, decodeAgent)
		}
	case e.keys.round:
		old := e.seen.round.rev
		e.seen.round = entry[round]{}
		if there {
			e.seen.round = entryOf(kv, decodeRound)
		}
		if e.seen.round.rev != old {
			e.elsewhere(kv.ModRevision)
		}
	default:
		if a := entryOf(kv, decodeAgent); there && a.value != nil && e.keys.node(a.value.ID) == key {
			e.seen.nodes[key] = a
		} else {
			delete(e.seen.nodes, key)
		}
		e.changed.wake()
		return
	}
	e.changed.wake()
	e.contest.wake()
}

// elsewhere posts what was sealed, with mu held, and compares it with what this
// agent has sealed itself: rev is the revision of the change.
func (e *Etcd) elsewhere(rev int64) {
	if j := e.job; j != nil && j.rev != 0 && rev > j.rev && e.seen.round.lease != j.id {
		j.ended = true // by another's seal, or by whoever has deleted it
		j.deleted = e.seen.round.rev == 0 && e.over == nil
		e.hold.wake()
	}
	if r := e.seen.round.value; r != nil {
		e.judge()
		e.post(rendezvous.Elsewhere{Job: r.Job, Term: r.Term, Round: r.Round, Members: r.ids(), Control: r.Control})
	}
}

// publish posts Peers at changes: everyone at most every few milliseconds.
func (e *Etcd) publish(ctx context.Context) error {
	var last *rendezvous.Peers
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-e.changed:
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

// peers is everyone to one who leads, else this agent and who may form the
// first world. It has nothing to say before it has read the keys once, or failed to.
func (e *Etcd) peers() (rendezvous.Peers, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	p := rendezvous.Peers{Trouble: cmp.Or(e.trouble, e.blocked), Whole: e.leading && e.seen.whole}
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
	if p.Whole {
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

// report keeps why etcd cannot be asked, for the one who waits; nil: it can.
func (e *Etcd) report(t *trouble) {
	text := ""
	if t != nil {
		text = t.Error()
	}
	e.say(&e.trouble, text)
}

// say sets one of the texts that Peers carries.
func (e *Etcd) say(which *string, text string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if *which != text {
		*which = text
		e.changed.wake()
	}
}
