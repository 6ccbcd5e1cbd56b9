package memory_test

import (
	"sync"
	"testing"
	"time"

	"github.com/gorun/gorun/rendezvous"
	"github.com/gorun/gorun/rendezvous/memory"
	"github.com/gorun/gorun/rendezvous/rendezvoustest"
)

const ttl = 2 * time.Second

// fleet of a hub.
type fleet struct {
	*memory.Hub
	fences bool

	mu      sync.Mutex
	members map[rendezvous.NodeID]*memory.Member
}

func newFleet(fences bool) *fleet {
	return &fleet{Hub: memory.NewHub(ttl), fences: fences, members: map[rendezvous.NodeID]*memory.Member{}}
}

func (f *fleet) Traits() rendezvoustest.Traits {
	return rendezvoustest.Traits{Fences: f.fences, Cuts: true, Halts: true, TTL: ttl}
}

func (f *fleet) Open(s rendezvoustest.Seat) (rendezvous.Backend, error) {
	n := s.Node
	if !f.fences && s.Index < s.Endpoints {
		n.Endpoint = s.Index
		if s.OneName {
			n.Endpoint = 0
		}
	}
	c := memory.Config{RunID: n.RunID, OneName: s.OneName, Peer: rendezvous.Peer{ID: n.ID, Name: n.Name(), Control: n.Control, Endpoint: n.Endpoint}}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fences {
		b := f.JoinFenced(c)
		f.members[n.ID] = b.Member
		return b, nil
	}
	f.members[n.ID] = f.Join(c)
	return f.members[n.ID], nil
}

func (f *fleet) Kill(id rendezvous.NodeID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.members[id].Kill()
}

func (f *fleet) Leftovers(runID string) ([]string, error) { return f.Hub.Leftovers(runID), nil }

func TestConformanceInVirtualTime(t *testing.T) {
	t.Run("peers", func(t *testing.T) {
		rendezvoustest.Simulate(t, func() rendezvoustest.Fleet { return newFleet(false) })
	})
	t.Run("fence", func(t *testing.T) {
		rendezvoustest.Simulate(t, func() rendezvoustest.Fleet { return newFleet(true) })
	})
}
