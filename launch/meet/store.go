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

// Store serves one store for the workers in advance: the store that this node
// offers for the next round. Each store serves one round and is then thrown away.
// The zero Store serves nothing, because another node has the store.
type Store struct {
	open func() (net.Listener, error) // binds the port of the next store
	addr string                       // host that the workers get
	pool *accept.Pool                 // of their connections
	door door

	mu     sync.Mutex // a round may end at the same time as the agent
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

// Admit admits the workers of a world, and no longer those of the last world.
func (s *Store) Admit(clients []string) { s.door.admit(clients) }

// Next returns the store that this node offers after a round of the world, in which
// it had the group rank. It keeps the last store if no worker has used it, or if no
// worker will use the next store. An elastic job may always have a next round,
// because nodes come and go.
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

// renew ends the present store, if any, and serves an empty one. After end it
// serves nothing.
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
	server := tcpstore.New(tcpstore.Options{MaxBytes: storeBytes(host.MemoryMax()), Allow: s.door.allows, Refused: s.door.turnedAway})
	s.cancel, s.server = cancel, server
	s.offer = net.JoinHostPort(s.addr, portOf(l))
	s.wg.Go(func() { _ = server.Serve(ctx, s.pool.Listen(l)) })
	return nil
}

// storeBytes returns how many bytes a store may hold if a cgroup allows this much
// memory.
func storeBytes(allowed int64) int64 {
	const most = 1 << 30
	if allowed < 0 { // unlimited or unknown
		return most
	}
	return min(max(allowed/4, 1<<20), most)
}

// end stops serving for ever and waits until the store has ended.
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
