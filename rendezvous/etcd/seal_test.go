package etcd

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/gorun/gorun/rendezvous"
	"github.com/gorun/gorun/rendezvous/etcd/etcdtest"
)

// pair is a job of two agents whose first round a has sealed.
func pair(t *testing.T, c *etcdtest.Cluster) (a, b *rig) {
	t.Helper()
	a, b = start(t, config(1, c.Endpoints()...)), start(t, config(2, c.Endpoints()...))
	if meet(t, a, b) == b {
		a, b = b, a
	}
	a.e.Lead()
	a.sealed(rendezvous.Seal{Serial: 1, World: world("j", 0, a, b)})
	return a, b
}

// waits checks that a seal goes on and posts what it waits for.
func waits(t *testing.T, r *rig, got chan rendezvous.Sealed, what string) {
	t.Helper()
	eventually(t, func() bool { return strings.Contains(latest[rendezvous.Waiting](r).Text, what) },
		func() string { return "no " + what + " in " + latest[rendezvous.Waiting](r).Text })
	select {
	case s := <-got:
		t.Fatalf("it did not wait: %+v", s)
	default:
	}
}

func answer(t *testing.T, got chan rendezvous.Sealed) rendezvous.Sealed {
	t.Helper()
	select {
	case s := <-got:
		return s
	case <-time.After(patience):
		t.Fatal("no answer")
	}
	return rendezvous.Sealed{}
}

func TestSealReachesAllAgents(t *testing.T) {
	c := etcdtest.Start(t, etcdtest.Options{})
	a, b := pair(t, c)
	for _, r := range []*rig{a, b} {
		eventually(t, func() bool {
			e := latest[rendezvous.Elsewhere](r)
			return e.Job == "j" && e.Round == 0 && e.Term == 1 && len(e.Members) == 2 && e.Control == a.e.cfg.Control
		}, func() string { return "no Elsewhere" })
	}
	a.sealed(rendezvous.Seal{Serial: 2, World: world("j", 1, a, b)})
	eventually(t, func() bool { return latest[rendezvous.Elsewhere](b).Round == 1 }, func() string { return "no Elsewhere of round 1" })
}

// TestSealOfAReplacedCoordinatorFails checks two coordinators that both seal.
func TestSealOfAReplacedCoordinatorFails(t *testing.T) {
	c := etcdtest.Start(t, etcdtest.Options{})
	a, b := pair(t, c)
	b.e.Lead()
	got := b.seal(t.Context(), rendezvous.Seal{Serial: 1, World: world("j", 1, b)})
	waits(t, b, got, a.e.cfg.Name)
	a.sealed(rendezvous.Seal{Serial: 2, World: world("j", 2, a, b)})
	if s := answer(t, got); !s.Refused || s.OK {
		t.Errorf("%+v", s)
	}
	if s := answer(t, b.seal(t.Context(), rendezvous.Seal{Serial: 2, World: world("j", 2, b, a)})); !s.Refused {
		t.Errorf("the same round again: %+v", s)
	}
	b.sealed(rendezvous.Seal{Serial: 3, World: world("j", 3, b, a)}) // a follows b now
	if s := answer(t, a.seal(t.Context(), rendezvous.Seal{Serial: 3, World: world("j", 3, a, b)})); !s.Refused {
		t.Errorf("a round that the other has sealed: %+v", s)
	}
}

// TestSealWaitsForMembersThatItLeavesOut checks that a seal waits for each member of
// the last sealed world that it leaves out, until that member certainly runs no worker.
func TestSealWaitsForMembersThatItLeavesOut(t *testing.T) {
	tests := []struct {
		name string
		free func(t *testing.T, b *rig)
		edit func(s *rendezvous.Seal, b *rig)
	}{
		{"it vacates", func(_ *testing.T, b *rig) { b.e.Vacate(0) }, nil},
		{"it leaves", func(t *testing.T, b *rig) {
			if err := b.stop(); err != nil {
				t.Error(err)
			}
		}, nil},
		{"it answers and is idle", nil, func(s *rendezvous.Seal, b *rig) { s.Here = append(s.Here, b.id) }},
		{"it is lost", nil, func(s *rendezvous.Seal, b *rig) { s.Lost = append(s.Lost, b.id) }},
	}
	c := etcdtest.Start(t, etcdtest.Options{})
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a, b := pair(t, c)
			s := rendezvous.Seal{Serial: 2, World: world("j", 1, a)}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			got := a.seal(ctx, s)
			waits(t, a, got, b.e.cfg.Name)
			if tt.free != nil {
				tt.free(t, b)
			} else {
				cancel()
				if s := answer(t, got); s.OK || s.Refused || s.Text == "" {
					t.Errorf("ended without an answer: %+v", s)
				}
				tt.edit(&s, b)
				got = a.seal(t.Context(), s)
			}
			if s := answer(t, got); !s.OK {
				t.Errorf("%+v", s)
			}
			a.e.Unseal("j", 1)
		})
	}
}

// TestEtcdIsEmptyAfterTheJob checks that etcd is empty after a job's end, whichever agent
// coordinated it.
func TestEtcdIsEmptyAfterTheJob(t *testing.T) {
	c := etcdtest.Start(t, etcdtest.Options{})
	a, b := pair(t, c)
	const last = 20 // many rounds leave no leases either
	for n := range last {
		a.sealed(rendezvous.Seal{World: world("j", n+1, a, b)})
	}
	b.sealed(rendezvous.Seal{World: world("j", last+1, b, a)})
	b.e.Unseal("j", last+1)
	for _, r := range []*rig{a, b} {
		if err := r.stop(); err != nil {
			t.Error(err)
		}
	}
	if k := keysOf(t, c); len(k) != 0 {
		t.Errorf("keys: %v", k)
	}
	if got, err := c.Client().Leases(t.Context()); err != nil || len(got.Leases) != 0 {
		t.Errorf("leases: %v %v", got, err)
	}
}

// TestUnsealSparesLaterRounds checks that an Unseal of an earlier coordinator does not
// delete the key of a later one.
func TestUnsealSparesLaterRounds(t *testing.T) {
	c := etcdtest.Start(t, etcdtest.Options{})
	a, b := pair(t, c)
	b.sealed(rendezvous.Seal{World: world("j", 1, b, a)})
	a.e.Unseal("j", 0)
	if err := a.stop(); err != nil {
		t.Error(err)
	}
	if !has(t, c, a.e.keys.round) {
		t.Error("the later round's key was deleted")
	}
}

// TestCrashedJobFreesItsRunID checks that the key of a crashed job does not keep the run
// id, and that the key of a job whose nodes have only lost etcd does.
func TestCrashedJobFreesItsRunID(t *testing.T) {
	c := etcdtest.Start(t, etcdtest.Options{})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	conf := config(1, c.Endpoints()...)
	conf.Control = l.Addr().String()
	old := start(t, conf)
	meet(t, old)
	old.sealed(rendezvous.Seal{World: world("old", 0, old)})
	if err := old.stop(); err != nil { // without Unseal: as if it had crashed
		t.Error(err)
	}
	next := start(t, config(2, c.Endpoints()...))
	eventually(t, func() bool {
		return strings.Contains(latest[rendezvous.Peers](next).Trouble, conf.Control+" still answers")
	},
		func() string { return "it says: " + latest[rendezvous.Peers](next).Trouble })
	next.e.Lead() // as a machine would ask for
	got := next.seal(t.Context(), rendezvous.Seal{Serial: 1, World: world("new", 0, next)})
	waits(t, next, got, conf.Control)
	l.Close()
	if s := answer(t, got); !s.OK {
		t.Errorf("%+v", s)
	}
	if err := next.stop(); err != nil {
		t.Error(err)
	}
	last := start(t, config(3, c.Endpoints()...)) // does not seal
	meet(t, last)
	if has(t, c, last.e.keys.round) {
		t.Error("the crashed job's key is still there")
	}
}

// TestCrashedJobsAddressIsReused checks that an agent of a new job may have the address that
// one of a crashed job had.
func TestCrashedJobsAddressIsReused(t *testing.T) {
	for name, reuser := range map[string]int{"the sealer": 2, "another node": 3} {
		t.Run(name, func(t *testing.T) {
			c := etcdtest.Start(t, etcdtest.Options{})
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			reused := func(n int) Config {
				conf := config(n, c.Endpoints()...)
				if n == 1 || n == reuser {
					conf.Control = l.Addr().String()
				}
				return conf
			}
			old := start(t, reused(1))
			meet(t, old)
			old.sealed(rendezvous.Seal{World: world("old", 0, old)})
			if err := old.stop(); err != nil { // without Unseal: as if it had crashed
				t.Error(err)
			}
			next := start(t, reused(2))
			next.e.Lead()
			eventually(t, func() bool { return has(t, c, next.e.keys.self) }, func() string { return "the sealer does not come" })
			start(t, reused(3))
			if s := answer(t, next.seal(t.Context(), rendezvous.Seal{Serial: 1, World: world("new", 0, next)})); !s.OK {
				t.Errorf("%+v", s)
			}
		})
	}
}

// TestSealEndsLostMemberships checks that a seal removes a node that is known to be lost
// from etcd.
func TestSealEndsLostMemberships(t *testing.T) {
	c := etcdtest.Start(t, etcdtest.Options{})
	a, b := pair(t, c)
	a.sealed(rendezvous.Seal{World: world("j", 1, a), Lost: []rendezvous.NodeID{b.id}})
	eventually(t, func() bool { return len(all[rendezvous.Unconfirmed](b)) >= 2 }, func() string { return "the removed agent does not notice" })
	if l := all[rendezvous.Unconfirmed](b); !l[0].On || l[0].Text == "" || l[1].On {
		t.Errorf("%+v", l)
	}
	a.sealed(rendezvous.Seal{World: world("j", 2, a), Here: []rendezvous.NodeID{b.id}})
}

// TestJobBelongsToItsMembersAfterTheFirstSeal checks a coordinator that crashed after
// its first seal and before any worker started. No other agent may form a world before
// the members' memberships have ended, whatever they have vacated.
func TestJobBelongsToItsMembersAfterTheFirstSeal(t *testing.T) {
	c := etcdtest.Start(t, etcdtest.Options{})
	a, b := pair(t, c)
	other := start(t, config(3, c.Endpoints()...))
	meet(t, a, b, other)
	if err := a.stop(); err != nil {
		t.Error(err)
	}
	eventually(t, func() bool { return strings.Contains(latest[rendezvous.Peers](other).Trouble, "waiting for its end") },
		func() string { return "it says: " + latest[rendezvous.Peers](other).Trouble })
	if h := b.holder(); h != "" {
		t.Errorf("%s may form a world while node b may run one", h)
	}
	b.e.Vacate(0)
	if err := b.stop(); err != nil {
		t.Error(err)
	}
	meet(t, other)
	eventually(t, func() bool { return latest[rendezvous.Peers](other).Trouble == "" }, func() string { return "still in trouble" })
}

// TestEndOfTheJobIsNoLossForAnEarlierSealer checks that an agent that has sealed an
// earlier round does not report the run id as lost when the last sealer deletes the
// round's key.
func TestEndOfTheJobIsNoLossForAnEarlierSealer(t *testing.T) {
	c := etcdtest.Start(t, etcdtest.Options{})
	a, b := pair(t, c)
	b.sealed(rendezvous.Seal{World: world("j", 1, b, a)})
	eventually(t, func() bool { return latest[rendezvous.Elsewhere](a).Round == 1 }, func() string { return "no Elsewhere of round 1" })
	b.e.Unseal("j", 1)
	var lost error
	eventually(t, func() bool {
		a.e.mu.Lock()
		defer a.e.mu.Unlock()
		lost = a.e.reportJobLost()
		return a.e.seen.round.rev == 0
	}, func() string { return "it does not see the deletion" })
	select {
	case lost = <-a.lost:
	default:
	}
	if lost != nil {
		t.Error(lost)
	}
}
