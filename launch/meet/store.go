package meet

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"sync"

	"github.com/gorun/gorun/internal/accept"
	"github.com/gorun/gorun/launch/spec"
	"github.com/gorun/gorun/rendezvous"
	"github.com/gorun/gorun/rendezvous/preflight/host"
	"github.com/gorun/gorun/rendezvous/tcpstore"
)

// Store serves the store that this node offers to the workers of the next round. Each
// round gets a new store. The zero Store serves nothing, because another node has the
// store.
type Store struct {
	open   func() (net.Listener, error) // binds the port of the next store
	addr   string                       // host of the store for workers
	pool   *accept.Pool                 // counts the workers' connections
	filter clientFilter

	held *heldPort // where the worker with rank 0 opens a store of its own; nil: it uses this one

	mu     sync.Mutex // a round may end at the same time as the agent
	closed bool
	wg     sync.WaitGroup
	cancel context.CancelFunc
	offer  string
	server *tcpstore.Server
}

// newStore binds the first store; workers reach it at addr.
func (s *Session) newStore(addr string, open func() (net.Listener, error)) (*Store, error) {
	st := &Store{open: open, addr: addr, pool: s.opts.Pool}
	st.filter.open = s.opts.Network.StoreOpen
	st.filter.onRefused = func(ip netip.Addr) {
		s.opts.Note("store", fmt.Sprintf("the workers' store refused a connection from %s, which is not an address of this job's nodes; if a worker has this address, give every node --store-open", ip))
	}
	if s.opts.Network.StoreOwner == spec.RankZero {
		var err error
		if st.held, err = holdPort(s.opts.Network.Ports); err != nil {
			return nil, err
		}
	}
	return st, st.renew()
}

// Master returns the host:port at which the worker with rank 0 opens the workers' store,
// or "" if this one is theirs.
func (s *Store) Master() string {
	if s.held == nil {
		return ""
	}
	return net.JoinHostPort(s.addr, strconv.Itoa(s.held.port))
}

// Offer returns the host:port of the store for the next round, "" if there is none.
func (s *Store) Offer() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.offer
}

// Server returns the store that is served now, nil if there is none.
func (s *Store) Server() *tcpstore.Server {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.server
}

// AllowClients lets the workers of a world connect. The workers of the last world can
// no longer connect.
func (s *Store) AllowClients(clients []string) { s.filter.setClients(clients) }

// Next returns the store that this node offers after a round of the world, in which
// it had the group rank. It keeps the last store if no worker has used it, or if there
// is no next round. An elastic job may always have a next round.
func (s *Store) Next(w *rendezvous.World, group int, elastic bool) (string, error) {
	host, _, _ := net.SplitHostPort(w.Store)
	last := w.Restart >= w.MaxRestarts && !elastic
	if group == 0 && host != "" && !last {
		if err := s.renew(); err != nil {
			return "", fmt.Errorf("cannot open a store for the next round: %w", err)
		}
	}
	return s.Offer(), nil
}

// renew ends the present store, if any, and serves an empty one. After close it
// serves nothing.
func (s *Store) renew() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.open == nil {
		return nil
	}
	s.stop()
	l, err := s.open()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	server := tcpstore.New(tcpstore.Options{MaxBytes: storeBytes(host.MemoryMax()), Allow: s.filter.isAllowed, Refused: s.filter.onRefused})
	s.cancel, s.server = cancel, server
	s.offer = net.JoinHostPort(s.addr, portOf(l))
	s.wg.Go(func() { _ = server.Serve(ctx, s.pool.Listen(l)) })
	return nil
}

// storeBytes returns how many bytes a store may hold if a cgroup allows this many
// bytes of memory.
func storeBytes(allowed int64) int64 {
	const limit = 1 << 30
	if allowed < 0 { // unlimited or unknown
		return limit
	}
	return min(max(allowed/4, 1<<20), limit)
}

// close ends the store for ever and waits for its end.
func (s *Store) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held != nil && !s.closed {
		s.held.close()
	}
	s.closed = true
	s.stop()
}

func (s *Store) stop() {
	if s.cancel != nil {
		s.cancel()
		s.wg.Wait()
	}
}
