package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"runtime/debug"
	"sync"
	"time"

	"github.com/gorun/gorun/rendezvous"
	"github.com/gorun/gorun/rendezvous/etcd"
	"github.com/gorun/gorun/rendezvous/gossip"
	"golang.org/x/sys/unix"
)

// fleets measures the time in which N simulated agents seal their first round. All run
// in this process, each with a state machine, control streams over loopback and a
// backend of its own. Only the workers and the check of the nodes are missing.
func fleets(quick bool) []scenario {
	sizes := []int{100, 300, 1000}
	if quick {
		sizes = sizes[:1]
	}
	var all []scenario
	for _, n := range sizes {
		for _, one := range []bool{true, false} {
			name := fmt.Sprintf("N = %d, all at once", n)
			if one {
				name = fmt.Sprintf("N = %d, the last joins", n)
			}
			all = append(all, scenario{
				measure: "fleet", name: name, only: []string{nameGorun, nameEtcd},
				run: func(ctx context.Context, l *lab, p *peer) ([]reading, error) {
					return sealFleet(ctx, l, p, n, one)
				},
			})
		}
	}
	return all
}

// fleetBound is the time for all agents to start, and for all to have a world.
const fleetBound = 2 * time.Minute

// sealFleet starts n agents and measures from the start of the last one. With late, it
// starts the last agent when all others wait for it, else together with them.
func sealFleet(ctx context.Context, l *lab, p *peer, n int, late bool) ([]reading, error) {
	if err := raiseFiles(); err != nil {
		return nil, err
	}
	f, err := newFleet(l, p, n)
	if err != nil {
		return nil, err
	}
	// The heap of a thousand agents is no agent's heap. Its collection must not count.
	defer debug.SetGCPercent(debug.SetGCPercent(400))
	debug.FreeOSMemory()
	before, err := readRollup(unix.Getpid())
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, fleetBound)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()

	var agents []*simulant
	var begin int64
	for i := range n {
		if late && i == n-1 {
			if err := agents[0].waitForNodes(ctx, n-1); err != nil {
				return nil, err
			}
		}
		begin = monotonic()
		a, err := f.agent(i)
		if err != nil {
			return nil, err
		}
		agents = append(agents, a)
		running.Go(func() { a.run(ctx) })
	}
	var last int64
	for i, a := range agents {
		at, err := a.world(ctx)
		if err != nil {
			return nil, fmt.Errorf("agent %d of %d has no world: %w", i, n, err)
		}
		last = max(last, at)
	}
	debug.FreeOSMemory()
	after, err := readRollup(unix.Getpid())
	if err != nil {
		return nil, err
	}
	return []reading{
		{metric: "all have the world", value: ms(last - begin), unit: "ms"},
		{metric: "memory of an agent", value: mib(after.rss-before.rss) / float64(n), unit: "MiB"},
	}, nil
}

// fleet makes the agents of one run.
type fleet struct {
	n        int
	run      string
	net      int      // the agents' addresses are 127.net.*.*
	etcd     []string // etcd's endpoints; nil: the agents meet by gossip
	endpoint string   // where they meet by gossip: the first agent's endpoint
}

func newFleet(l *lab, p *peer, n int) (*fleet, error) {
	l.runs++
	f := &fleet{n: n, run: l.runID(), net: 64 + rand.IntN(128)}
	if p.name == nameEtcd {
		f.etcd = l.etcd.endpoints
		return f, nil
	}
	var err error
	f.endpoint, err = freePort(f.ip(0))
	return f, err
}

func (f *fleet) ip(i int) string { return fmt.Sprintf("127.%d.%d.%d", f.net, i/250, 1+i%250) }

// agent makes the i-th agent and opens its ports, as gorun does with its defaults.
func (f *fleet) agent(i int) (*simulant, error) {
	ip := f.ip(i)
	l, err := net.Listen("tcp", ip+":0")
	if err != nil {
		return nil, err
	}
	n := rendezvous.Node{
		ID: rendezvous.NodeID(fmt.Sprintf("%s-%04d", f.run, i)), RunID: f.run, Protocol: rendezvous.Protocol, Version: "bench",
		Host: fmt.Sprint("node", i), Addr: ip, Control: l.Addr().String(), Store: ip + ":1", Workers: 1,
		NodeRank: -1, Endpoint: -1, Min: f.n, Max: f.n,
	}
	b, err := f.backend(&n, i)
	if err != nil {
		l.Close()
		return nil, err
	}
	return newSimulant(n, b, l), nil
}

func (f *fleet) backend(n *rendezvous.Node, i int) (rendezvous.Backend, error) {
	if f.etcd != nil {
		return etcd.New(etcd.Config{ID: n.ID, Name: n.Name(), RunID: n.RunID, Control: n.Control, Endpoints: f.etcd, TTL: leaseTTL})
	}
	serves := -1
	if i == 0 {
		serves = 0
	}
	g, err := gossip.Open(gossip.Config{
		ID: n.ID, Name: n.Name(), RunID: n.RunID, Control: n.Control, Bind: n.Addr, Advertise: n.Addr,
		Endpoints: gossip.Endpoints{List: []string{f.endpoint}, Serves: serves}, Ports: func() []int { return []int{0} },
	})
	if err != nil {
		return nil, err
	}
	n.Endpoint = g.Serves()
	return gossipBackend{g}, nil
}

// gossipBackend makes a rendezvous.Backend of gossip.
type gossipBackend struct{ *gossip.Gossip }

func (g gossipBackend) Run(ctx context.Context, post func(rendezvous.Event)) error {
	return g.Gossip.Run(ctx, func(p rendezvous.Peers) { post(p) })
}

// raiseFiles allows as many open files as the system lets this process have.
func raiseFiles() error {
	var lim unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &lim); err != nil {
		return err
	}
	lim.Cur = lim.Max
	return unix.Setrlimit(unix.RLIMIT_NOFILE, &lim)
}
