package etcd

import (
	"testing"
	"time"

	"github.com/gorun/gorun/rendezvous"
	"github.com/gorun/gorun/rendezvous/etcd/etcdtest"
)

// TestOldestAgentCoordinates checks that the oldest of ten agents may form the first
// world, and that another may when it ends.
func TestOldestAgentCoordinates(t *testing.T) {
	c := etcdtest.Start(t, etcdtest.Options{})
	calm := func(i int) Config {
		conf := config(i, c.Endpoints()...)
		conf.TTL = time.Minute // no membership ends on a slow machine
		return conf
	}
	first := start(t, calm(1))
	meet(t, first)
	second := start(t, calm(2))
	eventually(t, func() bool { return has(t, c, second.e.keys.self) }, func() string { return "the second does not register" })
	meet(t, first, second)
	rs := []*rig{first, second}
	for i := 3; i <= 10; i++ {
		rs = append(rs, start(t, calm(i)))
	}
	if h := meet(t, rs...); h != first {
		t.Errorf("%s holds the key, not the first", h.id)
	}
	if p := latest[rendezvous.Peers](rs[5]).All; len(p) != 2 || p[0].Endpoint != 0 || p[0].Control != "127.0.0.1:1" || p[0].Name != "node1" || p[1].Endpoint != -1 || p[1].ID != "id06" {
		t.Errorf("%+v", p)
	}
	first.e.Lead()
	eventually(t, func() bool {
		p := latest[rendezvous.Peers](first)
		return p.Complete && len(p.All) == 10
	}, func() string { return "the coordinator does not see all agents" })
	for _, r := range rs[1:] {
		for _, p := range all[rendezvous.Peers](r) {
			if p.Complete {
				t.Errorf("%s sees all: %+v", r.id, p)
			}
		}
	}
	if err := first.stop(); err != nil {
		t.Error(err)
	}
	meet(t, rs[1:]...) // mostly on the second; after a second, others may be faster
	for _, r := range rs[1:] {
		if got := r.e.oldest(t.Context()); got != (r == second) {
			t.Errorf("%s is the oldest: %v", r.id, got)
		}
	}
	for _, r := range rs {
		if err := r.stop(); err != nil {
			t.Error(err)
		}
	}
	if k := keysOf(t, c); len(k) != 0 {
		t.Errorf("left in etcd: %v", k)
	}
}

// TestRunsAreApart checks that agents of different runs do not see each other, whatever
// characters the run ids have.
func TestRunsAreApart(t *testing.T) {
	c := etcdtest.Start(t, etcdtest.Options{})
	for i, run := range []string{"a", "a/job", "a%2Fjob", "", "..", "\n\x00\xff"} {
		conf := config(i, c.Endpoints()...)
		conf.RunID = run
		r := start(t, conf)
		if meet(t, r) != r {
			t.Errorf("run %q has two agents", run)
		}
	}
}

// TestOneOfManyAgentsCoordinates checks that exactly one of the agents that start at
// once gets the coordinator's key.
func TestOneOfManyAgentsCoordinates(t *testing.T) {
	c := etcdtest.Start(t, etcdtest.Options{Members: 3})
	var rs []*rig
	for i := range 10 {
		conf := config(i, c.Endpoints()[i%3], c.Endpoints()[(i+1)%3])
		conf.TTL = time.Minute
		rs = append(rs, start(t, conf))
	}
	meet(t, rs...)
	seen := map[rendezvous.NodeID]bool{}
	for _, r := range rs {
		for _, p := range all[rendezvous.Peers](r) {
			for _, x := range p.All {
				seen[x.ID] = seen[x.ID] || x.Endpoint == 0
			}
		}
	}
	n := 0
	for _, was := range seen {
		if was {
			n++
		}
	}
	if n != 1 {
		t.Errorf("%d agents held the key", n)
	}
}
