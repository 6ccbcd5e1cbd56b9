package arrivals

import (
	"context"
	"net/netip"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gorun/gorun/rendezvous"
	"github.com/gorun/gorun/rendezvous/tcpstore"
)

type store struct {
	clients  []tcpstore.Client
	complete atomic.Bool
}

func (s *store) Clients() []tcpstore.Client { return s.clients }
func (s *store) Complete() bool             { return s.complete.Load() }

func TestMissingNamesWorkers(t *testing.T) {
	client := func(addr string, pid int, requests int64) tcpstore.Client {
		return tcpstore.Client{Remote: netip.AddrPortFrom(netip.MustParseAddr(addr), 4000), PID: pid, Requests: requests}
	}
	two := []rendezvous.Member{
		{Host: "a", Addr: "10.0.0.1", Workers: 2}, {Host: "b", Addr: "10.0.0.2", Workers: 2, FirstRank: 2},
	}
	loop := []rendezvous.Member{
		{Host: "m", Addr: "127.0.0.1", Workers: 1}, {Host: "m", Addr: "127.0.0.2", Workers: 1, FirstRank: 1},
	}
	tests := []struct {
		name    string
		members []rendezvous.Member
		clients []tcpstore.Client
		want    string
	}{
		{"no worker uses the store", two, nil, ""},
		{"all workers", loop, []tcpstore.Client{client("127.0.0.1", 7, 1), client("127.0.0.1", 8, 1)}, ""},
		{
			"a rank of this node", two,
			[]tcpstore.Client{client("10.0.0.1", 100, 3), client("10.0.0.2", 50, 3), client("10.0.0.2", 51, 3)},
			"3 of 4 workers have connected to the store; missing: rank 1",
		},
		{
			"callback connections do not count", two,
			[]tcpstore.Client{client("10.0.0.1", 0, 3), client("10.0.0.1", 0, 0), client("10.0.0.2", 0, 2), client("10.0.0.2", 0, 0)},
			"2 of 4 workers have connected to the store; missing: 1 of 2 workers of a (10.0.0.1), 1 of 2 workers of b (10.0.0.2)",
		},
		{
			"a whole node", two,
			[]tcpstore.Client{client("10.0.0.1", 100, 3), client("10.0.0.1", 101, 3)},
			"2 of 4 workers have connected to the store; missing: all 2 workers of b (10.0.0.2)",
		},
		{
			"nodes at one address cannot be distinguished", loop,
			[]tcpstore.Client{client("127.0.0.1", 0, 1)},
			"1 of 2 workers have connected to the store",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := rendezvous.World{Members: tt.members}
			for _, m := range tt.members {
				w.Size += m.Workers
			}
			r := Round{World: &w, PIDs: func() map[int]int { return map[int]int{100: 0, 101: 1} }, Store: &store{clients: tt.clients}}
			if got := r.Missing(); got != tt.want {
				t.Errorf("got  %q\nwant %q", got, tt.want)
			}
		})
	}
}

// TestWatchReportsEveryHalfMinute checks that the missing workers are named half a minute after the first
// arrival, and then every half minute until all have connected.
func TestWatchReportsEveryHalfMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		start := time.Now()
		s := &store{clients: []tcpstore.Client{{Remote: netip.MustParseAddrPort("10.0.0.1:4000"), Requests: 1, Since: start}}}
		w := rendezvous.World{Size: 2, Members: []rendezvous.Member{{Addr: "10.0.0.1", Workers: 2}}}
		var said []time.Duration
		time.AfterFunc(70*time.Second, func() { s.complete.Store(true) })
		time.AfterFunc(200*time.Second, cancel)
		Round{World: &w, PIDs: func() map[int]int { return nil }, Store: s}.Watch(ctx, func(string) { said = append(said, time.Since(start)) })
		if want := []time.Duration{30 * time.Second, time.Minute}; !slices.Equal(said, want) {
			t.Errorf("said after %v, want %v", said, want)
		}
	})
}
