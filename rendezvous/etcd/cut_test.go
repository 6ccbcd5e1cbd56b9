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

// TestCutAgentPostsUnconfirmedFirst checks that an agent that is cut off posts
// Unconfirmed before its key expires, and registers again when the link works again.
func TestCutAgentPostsUnconfirmedFirst(t *testing.T) {
	c := etcdtest.Start(t, etcdtest.Options{})
	link := etcdtest.NewProxy(t, c.Endpoints()[0])
	far := start(t, config(1, link.Addr()))
	near := start(t, config(2, c.Endpoints()...))
	meet(t, far, near)
	far.e.Vacate(4)
	eventually(t, func() bool { return strings.Contains(value(t, c, far.e.keys.self), `"vacated":4`) }, func() string { return "not vacated" })
	unconfirmed := make(chan bool, 1)
	watch := c.Client().Watch(t.Context(), far.e.keys.self)
	go func() {
		for r := range watch {
			for _, ev := range r.Events {
				if ev.Type == clientv3.EventTypeDelete {
					unconfirmed <- latest[rendezvous.Unconfirmed](far).On
					return
				}
			}
		}
	}()
	link.Cut()
	select {
	case ok := <-unconfirmed:
		if !ok {
			t.Error("its key expired before it posted Unconfirmed")
		}
	case <-time.After(patience):
		t.Fatal("the key stays")
	}
	if meet(t, near) != near {
		t.Error("the other agent does not take the coordinator's key")
	}
	link.Mend()
	eventually(t, func() bool { return !latest[rendezvous.Unconfirmed](far).On }, func() string { return "it stays unconfirmed" })
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

// TestAgentPostsUnconfirmedFirstAfterSleep checks that an agent whose clock has jumped,
// because its process was stopped, posts Unconfirmed before any other event.
func TestAgentPostsUnconfirmedFirstAfterSleep(t *testing.T) {
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
		t.Errorf("the first event is %+v", after[0])
	}
	if !slices.Contains(after, rendezvous.Event(rendezvous.Unconfirmed{})) {
		t.Errorf("sealed without a confirmed membership: %+v", after)
	}
}

// TestJobEndsAfterLostTimeoutWithoutMajority checks that without etcd's majority a seal
// waits and says why, and that a running job goes on until LostTimeout.
func TestJobEndsAfterLostTimeoutWithoutMajority(t *testing.T) {
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
		t.Fatal("Config.Lost is not called")
	}
	if !latest[rendezvous.Unconfirmed](r).On {
		t.Error("a node without etcd has a confirmed membership")
	}
	if err := c.Restart(0); err != nil {
		t.Fatal(err)
	}
	if s := answer(t, got); !s.OK {
		t.Errorf("%+v", s)
	}
}

// TestJobSurvivesShortLossOfMajority checks a majority that is back before LostTimeout.
func TestJobSurvivesShortLossOfMajority(t *testing.T) {
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
	eventually(t, func() bool { return latest[rendezvous.Unconfirmed](b).On }, func() string { return "not unconfirmed" })
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

// TestJobSurvivesLossOfEtcdsLeader checks that etcd's leader may end at any time.
func TestJobSurvivesLossOfEtcdsLeader(t *testing.T) {
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
			eventually(t, func() bool { return latest[rendezvous.Elsewhere](b).Round == 1 }, func() string { return "no Elsewhere" })
			newcomer := start(t, config(3, c.Endpoints()...))
			eventually(t, func() bool {
				return slices.ContainsFunc(latest[rendezvous.Peers](a).All, func(p rendezvous.Peer) bool { return p.ID == newcomer.id })
			}, func() string { return "the coordinator does not see the new agent" })
			t.Logf("unconfirmed meanwhile: %+v", all[rendezvous.Unconfirmed](a))
		})
	}
}

// TestCompactionHidesNoSeal checks that an agent that was cut off while etcd compacted
// its history sees the newest seal.
func TestCompactionHidesNoSeal(t *testing.T) {
	c := etcdtest.Start(t, etcdtest.Options{})
	link := etcdtest.NewProxy(t, c.Endpoints()[0])
	far, near := start(t, config(1, link.Addr())), start(t, config(2, c.Endpoints()...))
	meet(t, far, near)
	near.sealed(rendezvous.Seal{World: world("j", 0, near, far)})
	eventually(t, func() bool { return len(all[rendezvous.Elsewhere](far)) > 0 }, func() string { return "no Elsewhere" })
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
	eventually(t, func() bool { return latest[rendezvous.Elsewhere](far).Round == 2 }, func() string { return "it does not see round 2" })
	near.sealed(rendezvous.Seal{World: world("j", 3, near, far)})
	eventually(t, func() bool { return latest[rendezvous.Elsewhere](far).Round == 3 }, func() string { return "it does not see round 3" })
}

// TestDeletedKeysAreNoticed checks that each agent notices that a key on which it relies
// was deleted by hand.
func TestDeletedKeysAreNoticed(t *testing.T) {
	c := etcdtest.Start(t, etcdtest.Options{})
	a, b := pair(t, c)
	if _, err := c.Client().Delete(t.Context(), b.e.keys.self); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() bool { l := all[rendezvous.Unconfirmed](b); return len(l) == 2 && l[0].On && !l[1].On }, func() string { return "it does not notice that its key was deleted" })
	if _, err := c.Client().Delete(t.Context(), a.e.keys.round); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-a.lost:
		if !strings.Contains(err.Error(), a.e.keys.round+" was deleted") {
			t.Error(err)
		}
	case <-time.After(patience):
		t.Error("Config.Lost is not called")
	}
}
