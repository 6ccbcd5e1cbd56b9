package etcd

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gorun/gorun/rendezvous"
	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"
)

type leaseID = clientv3.LeaseID

var _ rendezvous.Fence = (*Etcd)(nil)

// state is what changes while an agent runs.
type state struct {
	session session
	gates   gates
	wakes   wakes

	mu      sync.Mutex // guards everything below
	post    func(rendezvous.Event)
	leading bool
	trouble string // why etcd cannot be asked
	blocked string // why this agent cannot form the first world
	node    membership
	unseal  unsealing
	seen    view
	job     *jobLease
	sealed  sealed
}

// session is what connect learns before gates.started is closed.
type session struct {
	cl      *clientv3.Client
	cluster atomic.Uint64   // the cluster that answered first; 0: none yet
	early   early           // only register reads it
	running context.Context // Run's
}

// gates are the channels at which Run's goroutines and the machine wait.
type gates struct {
	started  chan struct{} // is closed when etcd has answered
	led      chan struct{} // is closed by Lead
	met      chan content  // the job's keys, as they were when this agent registered
	doomed   chan error    // what ends Run
	sealing  chan struct{} // holds a token while the round's key is not being written
	granting chan struct{} // holds a token while no job's lease is asked for
}

// wakes each wake one goroutine of Run.
type wakes struct {
	changed signal // there is something new for Peers
	contest signal // an agent may have to take the coordinator's key
	chore   signal // Vacate or Unseal is to be done
	hold    signal // there is a job's lease to keep
	renew   signal // the node's lease is to be confirmed at once
}

// membership is this agent's own key in etcd.
type membership struct {
	lease     leaseID       // of the key; 0: not registered
	drop      func()        // ends the keeping of lease
	confirmed time.Duration // when the last request was sent that etcd granted
	lapsed    bool          // rendezvous.Unconfirmed was posted
	vacated   int           // the round that Vacate named
	written   int           // the round that the key names
}

// unsealing is what Unseal asked for.
type unsealing struct {
	what *rendezvous.Unseal
	owed bool // it is not done yet
}

// sealed is what this agent has sealed last.
type sealed struct {
	rev     int64
	members []rendezvous.NodeID
}

// early is a lease that etcd granted while connect was still asking the endpoints.
type early struct {
	id   leaseID
	sent time.Duration // when it was asked for
}

// prepare makes what Run and the machine's calls need before Run.
func (s *state) prepare() {
	s.gates = gates{
		started: make(chan struct{}), led: make(chan struct{}), met: make(chan content, 1),
		doomed: make(chan error, 1), sealing: make(chan struct{}, 1), granting: make(chan struct{}, 1),
	}
	s.gates.sealing <- struct{}{}
	s.gates.granting <- struct{}{}
	s.wakes = wakes{newSignal(), newSignal(), newSignal(), newSignal(), newSignal()}
	s.post = func(rendezvous.Event) {}
	s.node.vacated, s.node.written = -1, -1
}

// signal wakes one goroutine. Several signals before it looks are one.
type signal chan struct{}

func newSignal() signal { return make(signal, 1) }

func (s signal) wake() {
	select {
	case s <- struct{}{}:
	default:
	}
}

// Run implements rendezvous.Backend. It may be called once. While etcd cannot be
// reached it waits and says so in Peers.Trouble. What only the user can mend ends it:
// TLS, password, permission, an address of something else, a world that etcd has no
// room for.
func (e *Etcd) Run(ctx context.Context, post func(rendezvous.Event)) error {
	e.mu.Lock()
	e.post = post
	e.mu.Unlock()
	err := e.connect(ctx)
	if e.session.cl != nil {
		defer e.session.cl.Close()
	}
	if err != nil || ctx.Err() != nil {
		return err
	}
	defer e.leave()
	g, ctx := errgroup.WithContext(ctx)
	e.session.running = ctx
	close(e.gates.started)
	for _, f := range []func(context.Context) error{e.register, e.tick, e.publish, e.followJob, e.followNodes, e.contend, e.chores, e.keepJob, e.foresee} {
		g.Go(func() error { return f(ctx) })
	}
	g.Go(func() error {
		select {
		case <-ctx.Done():
			return nil
		case err := <-e.gates.doomed:
			return err
		}
	})
	return g.Wait()
}

// Lead implements rendezvous.Fence.
func (e *Etcd) Lead() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.leading {
		e.leading = true
		close(e.gates.led)
	}
}

// call bounds one request. Without a leader, etcd must say so at once.
func call(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(clientv3.WithRequireLeader(ctx), callLimit)
}

// txn commits a transaction: cmps, then the operations if all hold, otherwise the
// others.
func (e *Etcd) txn(ctx context.Context, cmps []clientv3.Cmp, then, otherwise []clientv3.Op) (*clientv3.TxnResponse, error) {
	ctx, cancel := call(ctx)
	defer cancel()
	return e.session.cl.Txn(ctx).If(cmps...).Then(then...).Else(otherwise...).Commit()
}

func (e *Etcd) revoke(ctx context.Context, id leaseID) error {
	ctx, cancel := call(ctx)
	defer cancel()
	if _, err := e.session.cl.Revoke(ctx, id); err != nil && !gone(err) {
		return err
	}
	return nil
}

func (e *Etcd) grant(ctx context.Context, cl *clientv3.Client, ttl time.Duration) (leaseID, error) {
	ctx, cancel := call(ctx)
	defer cancel()
	got, err := cl.Grant(ctx, seconds(ttl))
	if err != nil {
		return 0, err
	}
	return got.ID, nil
}

// seconds rounds up: etcd counts leases in whole seconds.
func seconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }

// leaveLimit is the time for taking this agent's keys away. A cluster may choose a
// new leader within it. What then remains ends with its lease.
const leaveLimit = 5 * time.Second

// leave deletes this agent's keys.
func (e *Etcd) leave() {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(e.session.running), leaveLimit)
	defer cancel()
	for !e.settle(ctx) && pause(ctx, 50*time.Millisecond) {
	}
	e.clear(ctx)
	e.mu.Lock()
	id := e.node.lease
	e.mu.Unlock()
	for id != 0 && e.revoke(ctx, id) != nil && pause(ctx, 50*time.Millisecond) {
	}
}
