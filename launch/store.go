package launch

import (
	"context"
	"net"
	"sync"

	"github.com/gorun/gorun/rendezvous/tcpstore"
)

// stores keeps one bound and served store ahead: the one that this node offers
// for the next round. A store is used for one round and then thrown away.
type stores struct {
	open func() (net.Listener, error) // binds the next one
	addr string                       // address that the others reach

	wg     sync.WaitGroup
	cancel context.CancelFunc
	offer  string
	server *tcpstore.Server
}

// renew ends the store that was served, if any, and serves an empty one; the
// result is its host:port.
func (s *stores) renew(ctx context.Context) (string, error) {
	s.end()
	l, err := s.open()
	if err != nil {
		return "", err
	}
	ctx, s.cancel = context.WithCancel(ctx)
	s.server = tcpstore.New(tcpstore.Options{})
	s.offer = net.JoinHostPort(s.addr, portOf(l))
	srv := s.server
	s.wg.Go(func() { _ = srv.Serve(ctx, l) })
	return s.offer, nil
}

// end stops serving and waits for it.
func (s *stores) end() {
	if s.cancel != nil {
		s.cancel()
		s.wg.Wait()
	}
}
