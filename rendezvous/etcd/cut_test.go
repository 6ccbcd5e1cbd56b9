package etcd

import (
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gorun/gorun/rendezvous"
	"github.com/gorun/gorun/rendezvous/etcd/etcdtest"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// TestCutAgentKnowsFirst checks that an agent that is cut off posts Unconfirmed
// before its key can vanish, and is there again when the link is mended.
func TestCutAgentKnowsFirst(t *testing.T) {
	c := etcdtest.Start(t, etcdtest.Options{})
	link := etcdtest.NewProxy(t, c.Endpoints()[0])
	far := start(t, config(1, link.Addr()))
	near := start(t, config(2, c.Endpoints()...))
	meet(t, far, near)
	far.e.Vacate(4)
	eventually(t, func() bool { return strings.Contains(value(t, c, far.e.keys.self), `"vacated":4`) }, func() string { return "not vacated" })
	vanished := make(chan bool, 1)
	watch := c.Client().Watch(t.Context(), far.e.keys.self)
	go func() {
		for r := range watch {
			for _, ev := range r.Events {
				if ev.Type == clientv3.EventTypeDelete {
					vanished <- latest[rendezvous.Unconfirmed](far).On
					return
				}
			}
		}
	}()
	link.Cut()
	select {
	case knew := <-vanished:
		if !knew {
			t.Error("its key was gone before it knew")
		}
	case <-time.After(patience):
		t.Fatal("the key stays")
	}
	if meet(t, near) != near {
		t.Error("nobody took over")
	}
	link.Mend()
	eventually(t, func() bool { return !latest[rendezvous.Unconfirmed](far).On }, func() string { return "it does not come back" })
	meet(t, near, far)
	if v := value(t, c, far.e.keys.self); !strings.Contains(v, `"vacated":4`) {
		t.Errorf("registered anew as %s", v)
	}
}

func value(t *testing.T, c *etcdtest.Cluster, key string) string {
	t.Helper()
	got, err := c.Client().Get(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	for _, kv := range got.Kvs {
		return string(kv.Value)
	}
	return ""
}

// TestAwakenedAgentKnowsFirst checks that an agent whose clock has jumped, because
// its process was stopped, posts Unconfirmed before any other event, however new that
// is.
func TestAwakenedAgentKnowsFirst(t *testing.T) {
	c := etcdtest.Start(t, etcdtest.Options{})
	var slept atomic.Int64
	conf := config(1, c.Endpoints()...)
	conf.TTL = time.Minute // no request in between confirms it
	conf.Clock = func() time.Duration { return sinceBoot() + time.Duration(slept.Load()) }
	r := start(t, conf)
	meet(t, r)
	r.mu.Lock()
	n := len(r.events)
	slept.Store(int64(time.Hour))
	r.mu.Unlock()
	r.sealed(rendezvous.Seal{World: world("j", 0, r)})
	r.mu.Lock()
	defer r.mu.Unlock()
	after := r.events[n:]
	if l, ok := after[0].(rendezvous.Unconfirmed); !ok || !l.On {
		t.Errorf("first came %+v", after[0])
	}
	if !slices.Contains(after, rendezvous.Event(rendezvous.Unconfirmed{})) {
		t.Errorf("sealed without a membership that is certain: %+v", after)
	}
}

// TestNoMajority checks that without etcd's majority a seal waits and says why, and
// that a running job goes on until LostTimeout.
func TestNoMajority(t *testing.T) {
	c := etcdtest.Start(t, etcdtest.Options{Members: 3})
	conf := config(1, c.Endpoints()...)
	conf.LostTimeout = 4 * time.Second
	r := start(t, conf)
	meet(t, r)
	r.sealed(rendezvous.Seal{Serial: 1, World: world("j", 0, r)})
	c.Kill(0)
	c.Kill(1)
	got := r.seal(t.Context(), rendezvous.Seal{Serial: 2, World: world("j", 1, r)})
	waits(t, r, got, "etcd at ")
	select {
	case err := <-r.lost:
		if !strings.Contains(err.Error(), c.Endpoints()[0]) {
			t.Error(err)
		}
	case <-time.After(patience):
		t.Fatal("the job is not given up")
	}
	if !latest[rendezvous.Unconfirmed](r).On {
		t.Error("a node without etcd is certain of its membership")
	}
	if err := c.Restart(0); err != nil {
		t.Fatal(err)
	}
	if s := answer(t, got); !s.OK {
		t.Errorf("%+v", s)
	}
}

// TestShortLossOfMajority checks that a majority that is back in time has cost
// nothing.
func TestShortLossOfMajority(t *testing.T) {
	c := etcdtest.Start(t, etcdtest.Options{Members: 3})
	a, b := start(t, config(1, c.Endpoints()...)), start(t, config(2, c.Endpoints()...))
	a = meet(t, a, b)
	a.sealed(rendezvous.Seal{Serial: 1, World: world("j", 0, a)})
	for i := range 2 {
		if err := c.Stop(i); err != nil {
			t.Fatal(err)
		}
	}
	got := a.seal(t.Context(), rendezvous.Seal{Serial: 2, World: world("j", 1, a)})
	waits(t, a, got, "")
	eventually(t, func() bool { return latest[rendezvous.Unconfirmed](b).On }, func() string { return "nobody notices" })
	for i := range 2 {
		if err := c.Cont(i); err != nil {
			t.Fatal(err)
		}
	}
	if s := answer(t, got); !s.OK {
		t.Errorf("%+v", s)
	}
	eventually(t, func() bool {
		return !latest[rendezvous.Unconfirmed](b).On && latest[rendezvous.Elsewhere](b).Round == 1
	}, func() string { return "not back" })
	select {
	case err := <-a.lost:
		t.Error(err)
	default:
	}
}

// TestLeaderDies checks that any one of etcd's members may end at any time, the
// leader too.
func TestLeaderDies(t *testing.T) {
	for name, end := range map[string]func(c *etcdtest.Cluster, i int) error{
		"killed":  func(c *etcdtest.Cluster, i int) error { c.Kill(i); return nil },
		"stopped": func(c *etcdtest.Cluster, i int) error { return c.Stop(i) },
	} {
		t.Run(name, func(t *testing.T) {
			c := etcdtest.Start(t, etcdtest.Options{Members: 3})
			confs := []Config{config(1, c.Endpoints()...), config(2, c.Endpoints()...)}
			for i := range confs {
				confs[i].TTL = 5 * time.Second
			}
			a, b := start(t, confs[0]), start(t, confs[1])
			a = meet(t, a, b)
			a.e.Lead()
			a.sealed(rendezvous.Seal{Serial: 1, World: world("j", 0, a)})
			leader := -1
			eventually(t, func() bool { leader = c.Leader(); return leader >= 0 }, func() string { return "etcd has no leader" })
			if err := end(c, leader); err != nil {
				t.Fatal(err)
			}
			a.sealed(rendezvous.Seal{Serial: 2, World: world("j", 1, a)})
			eventually(t, func() bool { return latest[rendezvous.Elsewhere](b).Round == 1 }, func() string { return "not told" })
			third := start(t, config(3, c.Endpoints()...))
			eventually(t, func() bool {
				return slices.ContainsFunc(latest[rendezvous.Peers](a).All, func(p rendezvous.Peer) bool { return p.ID == third.id })
			}, func() string { return "who leads does not see the new one" })
			t.Logf("lapsed meanwhile: %+v", all[rendezvous.Unconfirmed](a))
		})
	}
}

// TestCompaction checks that an agent that was cut off while etcd forgot the past
// sees the present.
func TestCompaction(t *testing.T) {
	c := etcdtest.Start(t, etcdtest.Options{})
	link := etcdtest.NewProxy(t, c.Endpoints()[0])
	far, near := start(t, config(1, link.Addr())), start(t, config(2, c.Endpoints()...))
	a := meet(t, far, near)
	_ = a
	near.sealed(rendezvous.Seal{World: world("j", 0, near, far)})
	eventually(t, func() bool { return len(all[rendezvous.Elsewhere](far)) > 0 }, func() string { return "not told" })
	link.Cut()
	near.sealed(rendezvous.Seal{World: world("j", 1, near, far)})
	near.sealed(rendezvous.Seal{World: world("j", 2, near, far)})
	got, err := c.Client().Get(t.Context(), "x")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Client().Compact(t.Context(), got.Header.Revision, clientv3.WithCompactPhysical()); err != nil {
		t.Fatal(err)
	}
	link.Reset()
	link.Mend()
	eventually(t, func() bool { return latest[rendezvous.Elsewhere](far).Round == 2 }, func() string { return "it lives in the past" })
	near.sealed(rendezvous.Seal{World: world("j", 3, near, far)})
	eventually(t, func() bool { return latest[rendezvous.Elsewhere](far).Round == 3 }, func() string { return "it watches no more" })
}

// TestDeletedKeys checks that each agent notices that a key on which it relies was
// deleted by hand.
func TestDeletedKeys(t *testing.T) {
	c := etcdtest.Start(t, etcdtest.Options{})
	a, b := pair(t, c)
	if _, err := c.Client().Delete(t.Context(), b.e.keys.self); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() bool { l := all[rendezvous.Unconfirmed](b); return len(l) == 2 && l[0].On && !l[1].On }, func() string { return "its key is gone and it does not know" })
	if _, err := c.Client().Delete(t.Context(), a.e.keys.round); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-a.lost:
		if !strings.Contains(err.Error(), "gone from etcd") {
			t.Error(err)
		}
	case <-time.After(patience):
		t.Error("the run id is free and the job goes on")
	}
}
