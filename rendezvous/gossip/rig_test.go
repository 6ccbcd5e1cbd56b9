package gossip

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/porttest"
	"github.com/gorun/gorun/rendezvous"
	"github.com/hashicorp/memberlist"
)

// agent is a running Gossip and what it saw last.
type agent struct {
	t    *testing.T
	g    *Gossip
	id   rendezvous.NodeID
	stop func()
	done chan error

	mu   sync.Mutex
	seen rendezvous.Peers
}

// config returns the Config of agent i, which serves no endpoint.
func config(i int, endpoints ...string) Config {
	addr := fmt.Sprintf("127.0.0.%d", i)
	return Config{
		ID: rendezvous.NewIdentity().ID(), Name: "node" + addr, RunID: "run", Control: addr + ":1", Bind: addr, Advertise: addr,
		Endpoints: Endpoints{List: endpoints, Serves: -1}, Ports: func() []int { return []int{0} },
	}
}

func open(t *testing.T, c Config) *agent { return openTuned(t, c, nil) }

func openTuned(t *testing.T, c Config, tune func(*memberlist.Config)) *agent {
	t.Helper()
	g, err := openAs(c, variant{rendezvous.Protocol, tune})
	if err != nil {
		t.Fatal(err)
	}
	a := &agent{t: t, g: g, id: c.ID, done: make(chan error, 1)}
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		a.done <- g.Run(ctx, func(p rendezvous.Peers) {
			a.mu.Lock()
			defer a.mu.Unlock()
			a.seen = p
		})
	}()
	a.stop = sync.OnceFunc(func() {
		cancel()
		select {
		case <-a.done:
		case <-time.After(10 * time.Second):
			t.Error("Run does not end")
		}
	})
	t.Cleanup(a.stop)
	return a
}

func (a *agent) peers() rendezvous.Peers {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.seen
}

func (a *agent) sees(ids ...rendezvous.NodeID) bool {
	p := a.peers().All
	for _, id := range ids {
		found := false
		for _, x := range p {
			found = found || x.ID == id
		}
		if !found {
			return false
		}
	}
	return len(p) == len(ids)
}

func eventually(t testing.TB, limit time.Duration, ok func() bool, why func() string) {
	t.Helper()
	for end := time.Now().Add(limit); !ok(); <-time.After(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal(why())
		}
	}
}

// meet waits until all agents see exactly each other.
func meet(t *testing.T, as ...*agent) {
	t.Helper()
	var ids []rendezvous.NodeID
	for _, a := range as {
		ids = append(ids, a.id)
	}
	for _, a := range as {
		eventually(t, 10*time.Second, func() bool { return a.sees(ids...) }, func() string { return fmt.Sprintf("%s sees %+v, not %v", a.id, a.peers(), ids) })
	}
}

// freePort returns an address at which nothing listens, over TCP or UDP.
func freePort(t testing.TB, host string) string {
	t.Helper()
	return net.JoinHostPort(host, strconv.Itoa(porttest.Free(t, host)))
}
