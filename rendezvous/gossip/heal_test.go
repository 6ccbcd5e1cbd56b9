package gossip

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gorun/gorun/rendezvous"
	"github.com/hashicorp/memberlist"
)

// cutTransport drops what goes to addresses that it does not reach.
type cutTransport struct {
	*transport
	reaches func(addr string) bool
}

func (t cutTransport) WriteTo(b []byte, addr string) (time.Time, error) {
	if !t.reaches(addr) {
		return time.Now(), nil
	}
	return t.transport.WriteTo(b, addr)
}

func (t cutTransport) DialTimeout(addr string, limit time.Duration) (net.Conn, error) {
	if !t.reaches(addr) {
		return nil, errors.New("dial tcp: cut off")
	}
	return t.transport.DialTimeout(addr, limit)
}

// TestHealedNetworkIsOneAgain checks that two parts of a cut network find each other
// when the network heals, although neither has an endpoint's agent and memberlist has
// forgotten the lost agents.
func TestHealedNetworkIsOneAgain(t *testing.T) {
	t.Parallel()
	at := freePort(t, "127.0.0.1")
	var cut atomic.Bool
	member := func(i int) *agent {
		return openTuned(t, config(i, at), func(m *memberlist.Config) {
			m.Transport = cutTransport{m.Transport.(*transport), func(addr string) bool {
				far := strings.HasPrefix(addr, "127.0.0.3:") || strings.HasPrefix(addr, "127.0.0.4:")
				return !cut.Load() || far == (i >= 3)
			}}
			m.ProbeInterval, m.ProbeTimeout, m.SuspicionMult, m.GossipToTheDeadTime = 100*time.Millisecond, 50*time.Millisecond, 1, 0
		})
	}
	first := config(1, at)
	first.Endpoints.Serves = 0
	e, a, b, c := open(t, first), member(2), member(3), member(4)
	meet(t, e, a, b, c)
	e.stop()
	meet(t, a, b, c)
	cut.Store(true)
	forgotten := func(a *agent, known int) bool { return len(a.peers().All) == known && a.g.list.NumMembers() == known }
	eventually(t, 30*time.Second, func() bool { return forgotten(a, 1) && forgotten(b, 2) && forgotten(c, 2) }, func() string {
		return fmt.Sprintf("%+v %+v", a.peers(), b.peers())
	})
	cut.Store(false)
	meet(t, a, b, c)
}

// TestAgentEndsQuicklyWhenTheJobIsOver checks that an agent whose job is over does not
// wait until its leave message has reached the others.
func TestAgentEndsQuicklyWhenTheJobIsOver(t *testing.T) {
	t.Parallel()
	at := freePort(t, "127.0.0.1")
	first := config(1, at)
	first.Endpoints.Serves = 0
	home := open(t, first)
	best := time.Hour
	for i := range 5 { // the machine may be busy
		g, err := Open(config(2+i, at))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		done := make(chan error)
		go func() { done <- g.Run(ctx, func(rendezvous.Peers) {}) }()
		eventually(t, 10*time.Second, func() bool { return home.hasPeer(g.cfg.ID) }, func() string { return fmt.Sprint(home.peers()) })
		began := time.Now()
		cancel(ErrOver)
		<-done
		best = min(best, time.Since(began))
	}
	if best > 150*time.Millisecond { // memberlist gossips each 200 ms
		t.Errorf("the quickest end took %v", best)
	}
}

func (a *agent) hasPeer(id rendezvous.NodeID) bool {
	return slices.ContainsFunc(a.peers().All, func(p rendezvous.Peer) bool { return p.ID == id })
}
