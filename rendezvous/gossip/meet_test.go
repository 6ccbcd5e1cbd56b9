package gossip

import (
	"fmt"
	"net"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gorun/gorun/rendezvous"
)

func TestAgentsSeeEachOther(t *testing.T) {
	for _, n := range []int{1, 2, 5} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			at := freePort(t, "127.0.0.1")
			var as []*agent
			for i := range n {
				c := config(1+i, at)
				if i == 0 {
					c.Endpoints.Serves = 0
				}
				as = append(as, open(t, c))
			}
			meet(t, as...)
			for _, p := range as[n-1].peers().All {
				want := -1
				if p.ID == as[0].id {
					want = 0
				}
				if p.Endpoint != want || p.Control == "" || !strings.HasPrefix(p.Name, "node127.") {
					t.Errorf("%+v, want endpoint %d", p, want)
				}
			}
			if got := net.JoinHostPort("127.0.0.1", fmt.Sprint(as[0].g.Port())); got != at || as[0].g.Serves() != 0 {
				t.Errorf("the endpoint's agent listens at %s (serves %d), not %s", got, as[0].g.Serves(), at)
			}
			if n > 1 { // one leaves
				as[1].stop()
				meet(t, append(as[:1:1], as[2:]...)...)
			}
		})
	}
}

// TestOneOfManyOnAHostServesTheEndpoint checks agents that start at once with the same
// endpoint and address: one gets its port, the others get free ports.
func TestOneOfManyOnAHostServesTheEndpoint(t *testing.T) {
	const n = 6
	at := freePort(t, "127.0.0.1")
	as := make([]*agent, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			c := config(1, at)
			c.Endpoints.Serves = 0
			as[i] = open(t, c)
		})
	}
	wg.Wait()
	meet(t, as...)
	serve := 0
	for _, a := range as {
		if a.g.Serves() == 0 {
			serve++
		}
	}
	if serve != 1 {
		t.Errorf("%d agents serve the endpoint", serve)
	}
}

// TestNewEndpointAgentFindsTheOthers checks an endpoint whose agent is replaced.
func TestNewEndpointAgentFindsTheOthers(t *testing.T) {
	at := freePort(t, "127.0.0.1")
	first := config(1, at)
	first.Endpoints.Serves = 0
	a, b, c := open(t, first), open(t, config(2, at)), open(t, config(3, at))
	meet(t, a, b, c)
	a.stop()
	meet(t, b, c)
	again := config(1, at)
	again.Endpoints.Serves = 0
	meet(t, b, c, open(t, again))
}

// TestEndpointAgentsKnowAll checks that an agent that serves an endpoint knows all, and that the
// others know it and some of each other.
func TestEndpointAgentsKnowAll(t *testing.T) {
	const n = minKnown + 14
	one, two := freePort(t, "127.0.0.1"), freePort(t, "127.0.0.2")
	var as []*agent
	for i := range n {
		c := config(1+i, one, two)
		if i < 2 {
			c.Endpoints.Serves = i
		}
		as = append(as, open(t, c))
	}
	for i, a := range as {
		eventually(t, 20*time.Second, func() bool {
			servedEndpoints := 0
			for _, p := range a.peers().All {
				if p.Endpoint >= 0 {
					servedEndpoints++
				}
			}
			all := len(a.peers().All)
			return servedEndpoints == 2 && (i < 2 && all == n || i >= 2 && all > minKnown && all <= minKnown+3)
		}, func() string { return fmt.Sprintf("%d sees %+v", i, a.peers()) })
	}
}

func TestAgentsOfTwoEndpointsSeeEachOther(t *testing.T) {
	one, two := freePort(t, "127.0.0.1"), freePort(t, "127.0.0.2")
	var as []*agent
	for i := range 2 {
		c := config(1+i, one, two)
		c.Endpoints.Serves = i
		as = append(as, open(t, c))
	}
	as = append(as, open(t, config(3, one, two)))
	meet(t, as...)
}

func TestGossipPortIsOneOfTheGiven(t *testing.T) {
	t.Run("one of the range", func(t *testing.T) {
		used := open(t, config(1))
		free := freePort(t, "127.0.0.1")
		_, p, _ := net.SplitHostPort(free)
		c := config(1)
		var port int
		_, _ = fmt.Sscan(p, &port)
		c.Ports = func() []int { return []int{used.g.Port(), port} }
		if a := open(t, c); a.g.Port() != port {
			t.Errorf("port %d, not %d", a.g.Port(), port)
		}
	})
	t.Run("all taken", func(t *testing.T) {
		used := open(t, config(1))
		c := config(1)
		c.Ports = func() []int { return []int{used.g.Port()} }
		if _, err := Open(c); err == nil || !strings.Contains(err.Error(), "cannot open a gossip port on 127.0.0.1") {
			t.Errorf("%v", err)
		}
	})
	t.Run("no such address", func(t *testing.T) {
		c := config(1)
		c.Bind = "192.0.2.1"
		if _, err := Open(c); err == nil || !strings.Contains(err.Error(), syscall.EADDRNOTAVAIL.Error()) {
			t.Errorf("%v", err)
		}
	})
}

// TestEndpointIsJoinedAgain checks joins at an endpoint that a seen agent serves. That
// agent may be lost and already replaced. Each of few agents joins again, of many none
// does.
func TestEndpointIsJoinedAgain(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	joined := make(chan bool, 1024)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			c.Close()
			joined <- true
		}
	}()
	a := open(t, config(2, l.Addr().String()))
	<-joined
	see := func(n int) {
		a.g.mu.Lock()
		defer a.g.mu.Unlock()
		for i := range n {
			id := rendezvous.NodeID(fmt.Sprint("seen", i))
			a.g.seen.peers[id] = rendezvous.Peer{ID: id, Endpoint: i - 1}
		}
	}
	see(2) // the second one serves the endpoint
	for len(joined) > 0 {
		<-joined
	}
	for range 2 { // one may have been on its way
		select {
		case <-joined:
		case <-time.After(2 * rejoinInterval):
			t.Fatal("the agent does not join again")
		}
	}
	if served, few := a.g.servedEndpoints(); !served[0] || !few {
		t.Errorf("serving %v, few: %v", served, few)
	}
	see(2 * minKnown)
	if _, few := a.g.servedEndpoints(); few {
		t.Error("many agents count as few")
	}
}
