package etcd

import (
	"testing"

	"github.com/gorun/gorun/rendezvous/etcd/etcdtest"
)

// A lease that is fetched for a future world takes nothing from a world that was
// sealed meanwhile. If the lease came first it belongs to that world.
func TestForeseenLease(t *testing.T) {
	c := etcdtest.Start(t, etcdtest.Options{})
	r := start(t, config(1, c.Endpoints()...))
	meet(t, r)
	lease := func(job string) leaseID {
		t.Helper()
		id, err := r.e.jobFor(t.Context(), job)
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	first := lease("")
	if again := lease("j"); again != first || lease("j") != first {
		t.Errorf("job j has lease %x, then %x", first, again)
	}
	if late := lease(""); late != first {
		t.Errorf("the lease %x of job j gave way to %x", first, late)
	}
	if other := lease("k"); other == first {
		t.Error("two jobs have one lease")
	}
}
