package etcd

import (
	"context"
	"errors"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// gone reports whether etcd does not know the lease.
func gone(err error) bool { return errors.Is(rpctypes.Error(err), rpctypes.ErrLeaseNotFound) }

// keep asks etcd to keep a lease that was just granted every so often until ctx
// ends or etcd does not know the lease (true); at once when now is given. It
// calls confirm with the time at which a granted request was sent. The client's
// own keeper does not tell that time, and its single requests each open a
// stream, for which etcd checks the password anew.
func (e *Etcd) keep(ctx context.Context, id leaseID, every time.Duration, now signal, confirm func(sent time.Duration)) bool {
	var s *stream
	defer func() { s.end() }()
	shortest := every / 3
	patience := shortest
	for await(ctx, now, every); ctx.Err() == nil; {
		var err error
		if s == nil {
			s, err = e.open(ctx, every) // which may take the time of a password's check
		}
		sent := e.cfg.Clock()
		if err == nil {
			err = s.ask(id, patience)
		}
		switch {
		case err == nil:
			confirm(sent)
			took := e.cfg.Clock() - sent
			patience = max(shortest, 2*min(took, every))
			await(ctx, now, max(0, every-took))
		case gone(err):
			return ctx.Err() == nil
		default: // the next stream goes to another member of the cluster
			s.end()
			s = nil
			patience = min(patience*3/2, every)
			pause(ctx, max(shortest/4, 10*time.Millisecond))
		}
	}
	return false
}

// await waits for d, for a signal or for ctx to end.
func await(ctx context.Context, now signal, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-now:
	case <-t.C:
	}
}

// stream is one stream of requests to keep leases.
type stream struct {
	etcdserverpb.Lease_LeaseKeepAliveClient
	halt context.CancelFunc
}

func (e *Etcd) open(ctx context.Context, limit time.Duration) (*stream, error) {
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	defer time.AfterFunc(limit, cancel).Stop()
	s, err := etcdserverpb.NewLeaseClient(e.cl.ActiveConnection()).LeaseKeepAlive(ctx)
	return &stream{s, cancel}, err
}

func (s *stream) end() {
	if s != nil {
		s.halt()
	}
}

// ask sends one request and awaits the answer. After an error the stream is over.
func (s *stream) ask(id leaseID, limit time.Duration) error {
	defer time.AfterFunc(limit, s.halt).Stop()
	if err := s.Send(&etcdserverpb.LeaseKeepAliveRequest{ID: int64(id)}); err != nil {
		return err
	}
	got, err := s.Recv()
	if err != nil {
		return err
	}
	if got.ID != int64(id) || got.TTL <= 0 {
		return rpctypes.ErrLeaseNotFound
	}
	return nil
}
