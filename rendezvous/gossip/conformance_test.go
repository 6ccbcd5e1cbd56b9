package gossip_test

import (
	"context"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/gorun/gorun/rendezvous"
	"github.com/gorun/gorun/rendezvous/gossip"
	"github.com/gorun/gorun/rendezvous/rendezvoustest"
)

// fleet gives each run endpoints of its own. Two jobs share a machine, not a port.
type fleet struct {
	mu   sync.Mutex
	runs map[string][]*endpoint
}

// endpoint is one endpoint of a run.
type endpoint struct {
	addr string
	free chan struct{} // has a token while no agent serves it
}

// member releases its endpoint when it ends, so that a later job can use it.
type member struct {
	*gossip.Gossip
	at *endpoint // nil: it serves none
}

func (m member) Run(ctx context.Context, post func(rendezvous.Event)) error {
	err := m.Gossip.Run(ctx, func(p rendezvous.Peers) { post(p) })
	if m.at != nil {
		m.at.free <- struct{}{}
	}
	return err
}

func (f *fleet) Traits() rendezvoustest.Traits { return rendezvoustest.Traits{} }

// endpoints returns the endpoints of a run.
func (f *fleet) endpoints(s rendezvoustest.Seat) ([]*endpoint, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	es := f.runs[s.Node.RunID]
	for i := len(es); i < s.Endpoints; i++ {
		l, err := net.Listen("tcp", s.Host(i)+":0")
		if err != nil {
			return nil, err
		}
		_ = l.Close()
		e := &endpoint{l.Addr().String(), make(chan struct{}, 1)}
		e.free <- struct{}{}
		es = append(es, e)
	}
	f.runs[s.Node.RunID] = es
	return es, nil
}

func (f *fleet) Open(s rendezvoustest.Seat) (rendezvous.Backend, error) {
	n := s.Node
	es, err := f.endpoints(s)
	if err != nil {
		return nil, err
	}
	c := gossip.Config{
		ID: n.ID, Name: n.Name(), RunID: n.RunID, Control: n.Control, Bind: n.Addr, Advertise: n.Addr,
		Endpoints: gossip.Endpoints{Serves: -1}, Ports: func() []int { return []int{0} },
	}
	for _, e := range es {
		c.Endpoints.List = append(c.Endpoints.List, e.addr)
	}
	var m member
	if s.Index < len(es) {
		m.at, c.Endpoints.Serves = es[s.Index], s.Index
		select {
		case <-m.at.free:
		case <-time.After(10 * time.Second):
			return nil, fmt.Errorf("the endpoint %s is not released", m.at.addr)
		}
	}
	if m.Gossip, err = gossip.Open(c); err != nil {
		return nil, err
	}
	n.Endpoint = m.Serves()
	return m, nil
}

// Kill does nothing. An agent that is killed here leaves, so that others notice it
// sooner.
func (f *fleet) Kill(rendezvous.NodeID) {}

func (f *fleet) Cut(rendezvous.NodeID, bool) {}

func (f *fleet) Halt(bool) {}

func (f *fleet) Leftovers(string) ([]string, error) { return nil, nil }

func TestConformance(t *testing.T) {
	rendezvoustest.Run(t, &fleet{runs: map[string][]*endpoint{}})
}
