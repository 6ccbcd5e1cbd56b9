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

// gone reports whether an error says that etcd does not know the lease.
func gone(err error) bool { return errors.Is(rpctypes.Error(err), rpctypes.ErrLeaseNotFound) }

// keep asks etcd to keep a lease that was just granted every so often until ctx ends
// or etcd does not know the lease (true). It asks at once when now is given. It calls
// confirm with the time at which a granted request was sent. The client's own keeper
// does not report that time, and its single requests each open a stream, for which
// etcd checks the password anew.
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
	s, err := etcdserverpb.NewLeaseClient(e.session.cl.ActiveConnection()).LeaseKeepAlive(ctx)
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

// sinceBoot returns a time that goes on while the machine sleeps, as etcd's time
// does.
func sinceBoot() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t); err != nil {
		panic("etcd: the machine has no clock: " + err.Error())
	}
	return time.Duration(t.Nano())
}

// trusted returns how long a membership that etcd granted counts as certain. The rest
// of its time is for saying so.
func (e *Etcd) trusted() time.Duration { return e.cfg.TTL * 4 / 5 }

// emit posts an event, after Unconfirmed if it is time for that.
func (e *Etcd) emit(ev rendezvous.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.checkLease()
	e.post(ev)
}

// checkLease posts Unconfirmed if the membership is not certain any more. mu is held.
func (e *Etcd) checkLease() {
	if e.node.lease == 0 || e.node.lapsed {
		return
	}
	if since := e.cfg.Clock() - e.node.confirmed; since >= e.trusted() {
		e.lapse(fmt.Sprintf("etcd at %s has not confirmed this node for %v", e.at(), since.Round(100*time.Millisecond)))
	}
}

// lapse posts Unconfirmed. mu is held.
func (e *Etcd) lapse(why string) {
	if !e.node.lapsed {
		e.node.lapsed = true
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
	if e.node.lapsed && e.cfg.Clock()-e.node.confirmed < e.trusted() {
		e.node.lapsed = false
		e.post(rendezvous.Unconfirmed{})
		e.wakes.contest.wake()
	}
}

// certain returns the lease of a membership that is certain now, else 0.
func (e *Etcd) certain() leaseID {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.checkLease()
	if e.node.lapsed {
		return 0
	}
	return e.node.lease
}

// tick checks the lease as time passes.
func (e *Etcd) tick(ctx context.Context) error {
	for {
		e.mu.Lock()
		e.checkLease()
		wait := e.trusted() / 8
		if e.node.lease != 0 && !e.node.lapsed {
			wait = min(wait, e.node.confirmed+e.trusted()-e.cfg.Clock())
		}
		err := e.jobLost()
		e.mu.Unlock()
		if err != nil && e.cfg.Lost != nil {
			e.cfg.Lost(err)
		}
		if !pause(ctx, max(wait, 5*time.Millisecond)) {
			return nil
		}
	}
}

// pause reports whether d has passed before ctx ended.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
