package meet

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"sync"

	"github.com/gorun/gorun/internal/accept"
	"github.com/gorun/gorun/rendezvous"
	"github.com/gorun/gorun/rendezvous/preflight/host"
	"github.com/gorun/gorun/rendezvous/tcpstore"
)

// Store serves one workers' store ahead: the one that this node offers for the next
// round. A store is used for one round and then thrown away. The zero Store serves
// nothing: another node has the store.
type Store struct {
	open func() (net.Listener, error) // binds the next one
	addr string                       // host that the workers are given
	pool *accept.Pool                 // of their connections
	door door

	mu     sync.Mutex // a round may end while the agent does
	over   bool
	wg     sync.WaitGroup
	cancel context.CancelFunc
	offer  string
	server *tcpstore.Server
}

// newStore binds the first store; workers reach it at addr.
func (s *Session) newStore(addr string, open func() (net.Listener, error)) (*Store, error) {
	st := &Store{open: open, addr: addr, pool: s.opts.Pool}
	st.door.open = s.opts.Network.StoreOpen
	st.door.turnedAway = func(ip netip.Addr) {
		s.opts.Note("store", fmt.Sprintf("the workers' store turned a connection from %s away, which is no address of this job's nodes; if a worker has it, give every node --store-open", ip))
	}
	return st, st.renew()
}

// Offer is the host:port of the store for the next round, "" if there is none.
func (s *Store) Offer() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.offer
}

// Server is the store that is served now, nil if there is none.
func (s *Store) Server() *tcpstore.Server {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.server
}

// Admit lets the workers of a world in, those of the last world no more.
func (s *Store) Admit(clients []string) { s.door.admit(clients) }

// Next is the store that this node offers after a round of the world, in which it
// had that group rank. The last store will do if no worker has used it, or none
// will use the next one: an elastic job goes on when nodes come and go.
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

// renew ends the store that was served, if any, and serves an empty one. After end
// nothing is served any more.
func (s *Store) renew() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over || s.open == nil {
		return nil
	}
	s.stop()
	l, err := s.open()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	server := tcpstore.New(tcpstore.Options{MaxBytes: storeBytes(host.MemoryMax()), Allow: s.door.allows, TurnedAway: s.door.turnedAway})
	s.cancel, s.server = cancel, server
	s.offer = net.JoinHostPort(s.addr, portOf(l))
	s.wg.Go(func() { _ = server.Serve(ctx, s.pool.Listen(l)) })
	return nil
}

// storeBytes is how much a store may hold where a cgroup allows that much memory.
func storeBytes(allowed int64) int64 {
	const most = 1 << 30
	if allowed < 0 { // unlimited, or unknown
		return most
	}
	return min(max(allowed/4, 1<<20), most)
}

// end stops serving for good and waits for it.
func (s *Store) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
	s.stop()
}

func (s *Store) stop() {
	if s.cancel != nil {
		s.cancel()
		s.wg.Wait()
	}
}
