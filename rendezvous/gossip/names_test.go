package gossip

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/gorun/gorun/rendezvous"
)

// zone is a name that grows.
type zone struct {
	mu    sync.Mutex
	addrs []netip.AddrPort
}

func (z *zone) add(at string) {
	z.mu.Lock()
	defer z.mu.Unlock()
	z.addrs = append(z.addrs, netip.MustParseAddrPort(at))
	slices.SortFunc(z.addrs, netip.AddrPort.Compare)
}

func (z *zone) lookup(_ context.Context, endpoint string) (Found, error) {
	z.mu.Lock()
	defer z.mu.Unlock()
	if endpoint != "pods:7" {
		return Found{}, fmt.Errorf("%s is not this name", endpoint)
	}
	if len(z.addrs) == 0 {
		return Found{}, errors.New("no such host")
	}
	return Found{slices.Clone(z.addrs), true}, nil
}

// TestNameGrows checks that agents find each other under a name that learns their
// addresses one after the other, after the agents have started.
func TestNameGrows(t *testing.T) {
	z := &zone{}
	var as []*agent
	_, port, err := net.SplitHostPort(freePort(t, "127.0.0.1"))
	if err != nil {
		t.Fatal(err)
	}
	for i := 1; i <= 3; i++ {
		c := config(i, "pods:7")
		c.Endpoints.Lookup, c.Endpoints.Nodes, c.Endpoints.Growth = z.lookup, 9, time.Minute
		as = append(as, open(t, c))
	}
	for i := 3; i >= 1; i-- {
		z.add(fmt.Sprintf("127.0.0.%d:%s", i, port))
		eventually(t, 10*time.Second, func() bool { return as[i-1].g.Serves() == 0 }, func() string { return "an agent does not serve its name" })
	}
	meet(t, as...)
	for _, a := range as {
		eventually(t, 10*time.Second, func() bool {
			p := a.peers()
			return p.Candidates == 3 && !slices.ContainsFunc(p.All, func(p rendezvous.Peer) bool { return p.Endpoint != 0 })
		}, func() string { return fmt.Sprintf("%s sees %+v", a.id, a.peers()) })
	}
}

// TestSlowNameServer checks that agents meet whose look-ups take longer than the first of
// them may.
func TestSlowNameServer(t *testing.T) {
	t.Parallel()
	at := freePort(t, "127.0.0.1")
	a := config(1, at)
	a.Endpoints.Serves = 0
	b := config(2, "head:7")
	b.Endpoints.Lookup = func(ctx context.Context, _ string) (Found, error) {
		select {
		case <-ctx.Done():
			return Found{}, ctx.Err()
		case <-time.After(minLookup + minLookup/2):
			return Found{Addrs: []netip.AddrPort{netip.MustParseAddrPort(at)}}, nil
		}
	}
	meet(t, open(t, a), open(t, b))
}

// TestCandidates checks how many nodes endpoints stand for.
func TestCandidates(t *testing.T) {
	one, three := Found{Addrs: make([]netip.AddrPort, 2)}, Found{Addrs: make([]netip.AddrPort, 3), Several: true}
	for _, tt := range []struct {
		found []lookup
		want  int
	}{
		{[]lookup{{one, true, 0}}, 0},
		{[]lookup{{one, false, 0}}, 1},
		{[]lookup{{three, true, 0}}, 3},
		{[]lookup{{one, true, 0}, {three, true, 0}}, 4},
		{[]lookup{{Found{}, true, 0}, {one, true, 0}}, 0},
	} {
		n := names{found: tt.found}
		if got := n.candidates(); got != tt.want {
			t.Errorf("%+v: %d, want %d", tt.found, got, tt.want)
		}
	}
}
