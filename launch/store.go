package launch

import (
	"context"
	"fmt"
	"net"
	"sync"

	"github.com/gorun/gorun/internal/accept"
	"github.com/gorun/gorun/rendezvous/preflight/host"
	"github.com/gorun/gorun/rendezvous/tcpstore"
)

// stores keeps one bound and served store ahead: the one that this node offers
// for the next round. A store is used for one round and then thrown away.
type stores struct {
	open func() (net.Listener, error) // binds the next one
	addr string                       // address that the others reach
	pool *accept.Pool                 // of their connections
	door storeDoor                    // to whom it answers

	mu     sync.Mutex // of renew and end: a round may end while the agent does
	over   bool
	wg     sync.WaitGroup
	cancel context.CancelFunc
	offer  string
	server *tcpstore.Server
}

// renew ends the store that was served, if any, and serves an empty one; the
// result is its host:port. After end nothing is served any more.
func (s *stores) renew(ctx context.Context) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over || s.open == nil {
		return s.offer, nil
	}
	s.stop()
	l, err := s.open()
	if err != nil {
		return "", err
	}
	ctx, s.cancel = context.WithCancel(ctx)
	s.server = tcpstore.New(tcpstore.Options{MaxBytes: storeBytes(host.MemoryMax()), Allow: s.door.allows, TurnedAway: s.door.turnedAway})
	s.offer = net.JoinHostPort(s.addr, portOf(l))
	srv := s.server
	s.wg.Go(func() { _ = srv.Serve(ctx, s.pool.Listen(l)) })
	return s.offer, nil
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
func (s *stores) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
	s.stop()
}

func (s *stores) stop() {
	if s.cancel != nil {
		s.cancel()
		s.wg.Wait()
	}
}

// nextStore is the store that this node offers after a round. The one of before
// will do if nobody has used it, or nobody will.
func (a *agent) nextStore(ctx context.Context, w *workers) (string, error) {
	host, _, _ := net.SplitHostPort(w.world.Store)
	last := w.world.Restart >= w.world.MaxRestarts && a.node.Min == a.node.Max // an elastic job goes on when nodes come and go
	if w.group != 0 || host == "" || last {
		return a.stores.offer, nil
	}
	next, err := a.stores.renew(context.WithoutCancel(ctx))
	if err != nil {
		return "", fmt.Errorf("cannot open a store for the next round: %w", err)
	}
	return next, nil
}
