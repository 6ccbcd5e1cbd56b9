package etcd_test

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/gorun/gorun/rendezvous"
	"github.com/gorun/gorun/rendezvous/etcd"
	"github.com/gorun/gorun/rendezvous/etcd/etcdtest"
	"github.com/gorun/gorun/rendezvous/rendezvoustest"
)

const ttl = 4 * time.Second // a busy machine stands still for a second or two

// fleet is a set of agents that each reach a cluster through links of their own.
type fleet struct {
	*testing.T
	cluster *etcdtest.Cluster
	members int

	mu    sync.Mutex
	links map[rendezvous.NodeID][]*etcdtest.Proxy
}

func (f *fleet) Traits() rendezvoustest.Traits {
	return rendezvoustest.Traits{Fences: true, Cuts: true, Halts: true, TTL: ttl, Record: 31 * time.Second}
}

func (f *fleet) Open(s rendezvoustest.Seat) (rendezvous.Backend, error) {
	n := s.Node
	c := etcd.Config{ID: n.ID, Name: n.Name(), RunID: n.RunID, Control: n.Control, TTL: ttl, LostTimeout: 20 * time.Second /* and so Record */, Grace: 100 * time.Millisecond}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, e := range f.cluster.Endpoints() {
		p := etcdtest.NewProxy(f, e)
		f.links[n.ID] = append(f.links[n.ID], p)
		c.Endpoints = append(c.Endpoints, p.Addr())
	}
	return etcd.New(c)
}

func (f *fleet) each(id rendezvous.NodeID, do func(*etcdtest.Proxy)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, p := range f.links[id] {
		do(p)
	}
}

func (f *fleet) Kill(id rendezvous.NodeID) { f.each(id, (*etcdtest.Proxy).Close) }

func (f *fleet) Cut(id rendezvous.NodeID, cut bool) {
	if cut {
		f.each(id, (*etcdtest.Proxy).Cut)
	} else {
		f.each(id, (*etcdtest.Proxy).Mend)
	}
}

// Halt freezes a majority.
func (f *fleet) Halt(down bool) {
	do := f.cluster.Cont
	if down {
		do = f.cluster.Stop
	}
	for i := range f.members/2 + 1 {
		if err := do(i); err != nil {
			f.Error(err)
		}
	}
}

func (f *fleet) Leftovers(runID string) ([]string, error) {
	keys, err := f.cluster.Keys("/gorun/" + runID + "/")
	slices.Sort(keys)
	return keys, err
}

func conform(t *testing.T, members int) {
	f := &fleet{T: t, cluster: etcdtest.Start(t, etcdtest.Options{Members: members}), members: members, links: map[rendezvous.NodeID][]*etcdtest.Proxy{}}
	rendezvoustest.Run(t, f)
}

func TestEtcdConformance(t *testing.T) { conform(t, 1) }

func TestEtcdConformanceOfThree(t *testing.T) { conform(t, 3) }
