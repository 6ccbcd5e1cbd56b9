package etcd

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/gorun/gorun/rendezvous"
	"github.com/gorun/gorun/rendezvous/etcd/etcdtest"
)

// patience is how long a test waits for an event that must come, on a machine that
// may be overloaded.
const patience = 2 * time.Minute

// rig is one agent and the events that it has posted.
type rig struct {
	t    *testing.T
	e    *Etcd
	id   rendezvous.NodeID
	stop func() error
	done chan error
	lost chan error

	mu     sync.Mutex
	events []rendezvous.Event
}

func config(i int, endpoints ...string) Config {
	return Config{
		ID: rendezvous.NodeID(fmt.Sprintf("id%02d", i)), Name: fmt.Sprintf("node%d", i), RunID: "run", Control: fmt.Sprintf("127.0.0.%d:1", i),
		Endpoints: endpoints, TTL: 2 * time.Second, LostTimeout: 10 * time.Second,
	}
}

func start(t *testing.T, c Config) *rig {
	t.Helper()
	r := &rig{t: t, id: c.ID, done: make(chan error, 1), lost: make(chan error, 1)}
	c.Lost = func(err error) { r.lost <- err }
	e, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	r.e = e
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		r.done <- e.Run(ctx, func(ev rendezvous.Event) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.events = append(r.events, ev)
		})
	}()
	r.stop = sync.OnceValue(func() error {
		cancel()
		select {
		case err := <-r.done:
			return err
		case <-time.After(patience):
			t.Error("Run does not end")
			return nil
		}
	})
	t.Cleanup(func() { _ = r.stop() })
	return r
}

// all returns the events of one kind.
func all[E rendezvous.Event](r *rig) []E {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []E
	for _, ev := range r.events {
		if e, ok := ev.(E); ok {
			out = append(out, e)
		}
	}
	return out
}

func latest[E rendezvous.Event](r *rig) (last E) {
	if a := all[E](r); len(a) > 0 {
		last = a[len(a)-1]
	}
	return last
}

// holder returns the agent that is seen with Endpoint 0, "" if there is none.
func (r *rig) holder() rendezvous.NodeID {
	for _, p := range latest[rendezvous.Peers](r).All {
		if p.Endpoint == 0 {
			return p.ID
		}
	}
	return ""
}

func (r *rig) seal(ctx context.Context, c rendezvous.Seal) chan rendezvous.Sealed {
	out := make(chan rendezvous.Sealed, 1)
	go func() { out <- r.e.Seal(ctx, c) }()
	return out
}

// sealed awaits a seal that must succeed.
func (r *rig) sealed(c rendezvous.Seal) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), patience)
	defer cancel()
	if got := r.e.Seal(ctx, c); !got.OK || got.Refused || got.Serial != c.Serial {
		r.t.Fatalf("%s: %+v", r.id, got)
	}
}

// world makes a world of some agents, in which the first is the coordinator.
func world(job string, round int, rs ...*rig) rendezvous.World {
	w := rendezvous.World{RunID: "run", Job: job, Term: 1, Round: round, Coordinator: rs[0].id}
	for _, r := range rs {
		w.Members = append(w.Members, rendezvous.Member{ID: r.id, Control: r.e.cfg.Control})
	}
	return w
}

func eventually(t testing.TB, ok func() bool, why func() string) {
	t.Helper()
	for end := time.Now().Add(patience); !ok(); <-time.After(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal(why())
		}
	}
}

// meet waits until all see the same agent with Endpoint 0, and returns it.
func meet(t *testing.T, rs ...*rig) *rig {
	t.Helper()
	var holder rendezvous.NodeID
	eventually(t, func() bool {
		holder = rs[0].holder()
		known := slices.ContainsFunc(rs, func(r *rig) bool { return r.id == holder })
		return known && !slices.ContainsFunc(rs, func(r *rig) bool { return r.holder() != holder })
	}, func() string {
		var s string
		for _, r := range rs {
			s += fmt.Sprintf("%s sees %+v\n", r.id, latest[rendezvous.Peers](r))
		}
		return s
	})
	for _, r := range rs {
		if r.id == holder {
			return r
		}
	}
	t.Fatalf("%s is none of them", holder)
	return nil
}

func keysOf(t *testing.T, c *etcdtest.Cluster) []string {
	t.Helper()
	k, err := c.Keys("/")
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func has(t *testing.T, c *etcdtest.Cluster, key string) bool {
	return slices.Contains(keysOf(t, c), key)
}
