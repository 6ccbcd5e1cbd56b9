package collective_test

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/gorun/gorun/worker/collective"
)

// simulatedNet is a network of ranks in memory. It never loses or reorders a message; a
// rank may be killed at one of its operations.
type simulatedNet struct {
	mu      sync.Mutex
	changed sync.Cond
	queues  map[route][]packet
	posted  map[route]packet // messages of Post, by number
	broken  error            // the first reason, for every rank
	victim  int              // the rank that dies
	left    int              // operations until it does; negative: it lives

	nodes   []uint64 // the node of each rank; nil: all are on one
	between int      // bytes of collectives that went from a node to another
}

// route is where a message goes; the numbers of ranks are those of the world.
type route struct {
	comm     uint64
	from, to int
	tag      int32
	seq      uint64 // 0 for collectives
}

type packet struct {
	call collective.Call
	data []byte
}

var errKilled = errors.New("killed")

// simulate returns the groups of size ranks, of which victim dies at its operation number
// at; a negative number lets it live.
func simulate(size, victim, at int) []*collective.Group {
	return newSimulatedNet(victim, at).groups(size)
}

// groups returns the groups of size ranks of the network.
func (n *simulatedNet) groups(size int) []*collective.Group {
	world := make([]int, size)
	for r := range world {
		world[r] = r
	}
	gs := make([]*collective.Group, size)
	for r := range gs {
		t := &simulatedRank{n: n, me: r, world: world}
		gs[r] = collective.New(collective.NewMessages(t, r, size), r, size, collective.Options{})
	}
	return gs
}

func newSimulatedNet(victim, at int) *simulatedNet {
	n := &simulatedNet{queues: map[route][]packet{}, posted: map[route]packet{}, victim: victim, left: at}
	n.changed.L = &n.mu
	return n
}

// simulatedRank is a collective.Transport.
type simulatedRank struct {
	n     *simulatedNet
	comm  uint64
	me    int // in the world
	world []int
}

// alive counts an operation and returns why the rank can do nothing any more; n.mu is held.
func (t *simulatedRank) alive() error {
	if t.me == t.n.victim && t.n.left > 0 {
		t.n.left--
		if t.n.left == 0 {
			t.n.break_(&collective.PeerError{Rank: t.me, Err: errors.New("is gone")})
		}
	}
	return t.end()
}

// end returns why the rank has ended; n.mu is held.
func (t *simulatedRank) end() error {
	if t.me == t.n.victim && t.n.left == 0 {
		return errKilled
	}
	return t.n.broken
}

func (n *simulatedNet) break_(why error) {
	if n.broken == nil {
		n.broken = why
	}
	n.changed.Broadcast()
}

func (t *simulatedRank) Put(to int, call *collective.Call, payload []byte) error {
	t.n.mu.Lock()
	defer t.n.mu.Unlock()
	if err := t.alive(); err != nil {
		return err
	}
	k := route{comm: t.comm, from: t.me, to: t.world[to]}
	if t.n.nodes != nil && t.n.nodes[k.from] != t.n.nodes[k.to] {
		t.n.between += len(payload)
	}
	t.n.queues[k] = append(t.n.queues[k], packet{*call, append([]byte(nil), payload...)})
	t.n.changed.Broadcast()
	return nil
}

func (t *simulatedRank) Get(from int, call *collective.Call, into []byte) error {
	t.n.mu.Lock()
	defer t.n.mu.Unlock()
	k := route{comm: t.comm, from: t.world[from], to: t.me}
	err := t.alive()
	for err == nil && len(t.n.queues[k]) == 0 {
		t.n.changed.Wait()
		err = t.end()
	}
	if err != nil {
		return err
	}
	p := t.n.queues[k][0]
	t.n.queues[k] = t.n.queues[k][1:]
	return t.fill(p, call, from, into)
}

func (t *simulatedRank) fill(p packet, want *collective.Call, from int, into []byte) error {
	if p.call != *want || len(p.data) != len(into) {
		t.n.break_(&collective.MismatchError{Rank: t.me, Mine: *want, Peer: from, Theirs: p.call})
		return t.n.broken
	}
	copy(into, p.data)
	return nil
}

func (t *simulatedRank) Flush() error { return nil }

func (t *simulatedRank) route(m *collective.Message) route {
	k := route{t.comm, t.world[m.Peer], t.me, m.Call.Tag, m.Call.Seq}
	if m.Send {
		k.from, k.to = k.to, k.from
	}
	return k
}

func (t *simulatedRank) Post(m *collective.Message) {
	t.n.mu.Lock()
	defer t.n.mu.Unlock()
	m.State = t.alive()
	if m.Send && m.State == nil {
		t.n.posted[t.route(m)] = packet{m.Call, append([]byte(nil), m.Buf.Data...)}
		t.n.changed.Broadcast()
	}
}

func (t *simulatedRank) Wait(_ context.Context, m *collective.Message) error {
	t.n.mu.Lock()
	defer t.n.mu.Unlock()
	err, _ := m.State.(error)
	if m.Send || err != nil {
		return err
	}
	k := t.route(m)
	for {
		if p, ok := t.n.posted[k]; ok {
			delete(t.n.posted, k)
			return t.fill(p, &m.Call, m.Peer, m.Buf.Data)
		}
		if err := t.end(); err != nil {
			return err
		}
		t.n.changed.Wait()
	}
}

func (t *simulatedRank) Split(comm uint64, ranks []int) (collective.Transport, error) {
	world := make([]int, len(ranks))
	for i, r := range ranks {
		world[i] = t.world[r]
	}
	return &simulatedRank{n: t.n, comm: comm, me: t.me, world: world}, nil
}

func (t *simulatedRank) Break(why error) {
	t.n.mu.Lock()
	defer t.n.mu.Unlock()
	t.n.break_(fmt.Errorf("rank %d gave up: %w", t.me, why))
}

func (t *simulatedRank) Close() error { return nil }
