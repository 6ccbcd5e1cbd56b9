package etcd

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gorun/gorun/rendezvous"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sys/unix"
)

// isLeaseNotFound reports whether a request failed because etcd does not know the lease.
func isLeaseNotFound(err error) bool {
	return errors.Is(rpctypes.Error(err), rpctypes.ErrLeaseNotFound)
}

// keep renews a lease that was just granted, every so often and when now signals, until
// ctx ends or etcd does not know the lease (true). It calls confirm with the time at
// which each granted request was sent. The etcd client's own keeper does not report
// that time. Its single requests each open a stream, for which etcd checks the password
// again.
func (e *Etcd) keep(ctx context.Context, id leaseID, every time.Duration, now signal, confirm func(sent time.Duration)) bool {
	var s *stream
	defer func() { s.end() }()
	shortest := every / 3
	limit := shortest // of one request
	for await(ctx, now, every); ctx.Err() == nil; {
		var err error
		if s == nil {
			s, err = e.open(ctx, every) // may take as long as the check of a password
		}
		sent := e.cfg.Clock()
		if err == nil {
			err = s.renew(id, limit)
		}
		switch {
		case err == nil:
			confirm(sent)
			took := e.cfg.Clock() - sent
			limit = max(shortest, 2*min(took, every))
			await(ctx, now, max(0, every-took))
		case isLeaseNotFound(err):
			return ctx.Err() == nil
		default: // the next stream goes to another member of the cluster
			s.end()
			s = nil
			limit = min(limit*3/2, every)
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
	s, err := etcdserverpb.NewLeaseClient(e.session.cl.ActiveConnection()).LeaseKeepAlive(ctx)
	return &stream{s, cancel}, err
}

func (s *stream) end() {
	if s != nil {
		s.halt()
	}
}

// renew sends one request and waits for the answer. After an error the stream is over.
func (s *stream) renew(id leaseID, limit time.Duration) error {
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

// sinceBoot returns a time that goes on while the machine sleeps, as etcd's time
// does.
func sinceBoot() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t); err != nil {
		panic("etcd: the machine has no clock: " + err.Error())
	}
	return time.Duration(t.Nano())
}

// trustTime returns how long a membership counts as confirmed after etcd granted it. The
// rest of its time is for stopping the workers.
func (e *Etcd) trustTime() time.Duration { return e.cfg.TTL * 4 / 5 }

// emit posts an event. It posts Unconfirmed first if that is due.
func (e *Etcd) emit(ev rendezvous.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.checkLease()
	e.post(ev)
}

// checkLease posts Unconfirmed if the membership is not confirmed any more. The caller
// holds mu.
func (e *Etcd) checkLease() {
	if e.node.lease == 0 || e.node.unconfirmed {
		return
	}
	if since := e.cfg.Clock() - e.node.confirmed; since >= e.trustTime() {
		e.postUnconfirmed(fmt.Sprintf("etcd at %s has not confirmed this node for %v", e.at(), since.Round(100*time.Millisecond)))
	}
}

// postUnconfirmed posts Unconfirmed once. The caller holds mu.
func (e *Etcd) postUnconfirmed(why string) {
	if !e.node.unconfirmed {
		e.node.unconfirmed = true
		e.post(rendezvous.Unconfirmed{On: true, Text: why})
		e.wakes.renew.wake()
	}
}

// confirm notes that etcd has granted what was asked at the time sent.
func (e *Etcd) confirm(id leaseID, sent time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.node.lease != id {
		return
	}
	e.checkLease() // the process may have been stopped until now
	e.node.confirmed = max(e.node.confirmed, sent)
	if e.node.unconfirmed && e.cfg.Clock()-e.node.confirmed < e.trustTime() {
		e.node.unconfirmed = false
		e.post(rendezvous.Unconfirmed{})
		e.wakes.contest.wake()
	}
}

// confirmedLease returns the lease of a membership that is confirmed now, else 0.
func (e *Etcd) confirmedLease() leaseID {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.checkLease()
	if e.node.unconfirmed {
		return 0
	}
	return e.node.lease
}

// tick checks the node's and the job's lease as time passes.
func (e *Etcd) tick(ctx context.Context) error {
	for {
		e.mu.Lock()
		e.checkLease()
		wait := e.trustTime() / 8
		if e.node.lease != 0 && !e.node.unconfirmed {
			wait = min(wait, e.node.confirmed+e.trustTime()-e.cfg.Clock())
		}
		err := e.reportJobLost()
		e.mu.Unlock()
		if err != nil && e.cfg.Lost != nil {
			e.cfg.Lost(err)
		}
		if !pause(ctx, max(wait, 5*time.Millisecond)) {
			return nil
		}
	}
}

// pause waits for d and reports whether ctx goes on.
func pause(ctx context.Context, d time.Duration) bool {
	await(ctx, nil, d)
	return ctx.Err() == nil
}
