package etcd

import (
	"strings"
	"testing"

	"github.com/gorun/gorun/rendezvous"
	"github.com/gorun/gorun/rendezvous/etcd/etcdtest"
)

// TestAnotherClusterIsRefused checks that an agent uses no answer of a cluster that has
// replaced the first one, not even that a lease is kept.
func TestAnotherClusterIsRefused(t *testing.T) {
	c := etcdtest.Start(t, etcdtest.Options{})
	r := start(t, config(1, c.Endpoints()...))
	meet(t, r)
	first := r.e.session.cluster.Swap(1)
	eventually(t, func() bool {
		return strings.Contains(latest[rendezvous.Peers](r).Trouble, "another etcd cluster") && latest[rendezvous.Unconfirmed](r).On
	}, func() string { return "it uses another cluster: " + latest[rendezvous.Peers](r).Trouble })
	r.e.session.cluster.Store(first)
	eventually(t, func() bool { return latest[rendezvous.Peers](r).Trouble == "" && !latest[rendezvous.Unconfirmed](r).On },
		func() string { return "still in trouble: " + latest[rendezvous.Peers](r).Trouble })
}
