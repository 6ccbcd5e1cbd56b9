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
	trouble string // why etcd does not answer
	blocked string // why this agent cannot form the first world
	node    membership
	unseal  unsealing
	seen    view
	job     *jobLease
	sealed  sealed
	secret  heldSecret
}

// session is what connect sets before gates.started is closed.
type session struct {
	cl      *clientv3.Client
	cluster atomic.Uint64   // id of the cluster that answered first; 0: none yet
	running context.Context // Run's
}

// gates are the channels at which Run's goroutines and the calls of Fence wait.
type gates struct {
	started chan struct{} // is closed when etcd has answered
	led     chan struct{} // is closed by Lead
	fatal   chan error    // has the error that ends Run
	sealing chan struct{} // has a token while nothing writes the round's key
}

// wakes each wake one goroutine of Run.
type wakes struct {
	changed signal // publish: Peers may have changed
	contest signal // contend: the coordinator's key may be free
	update  signal // runUpdates: Vacate or Unseal was called
	job     signal // keepJob: the job's lease is another one
	renew   signal // keepRegistered: the node's lease is to be confirmed at once
}

// membership is this agent's own key in etcd.
type membership struct {
	lease       leaseID       // of the key; 0: not registered
	drop        func()        // ends the keeping of lease
	confirmed   time.Duration // when the last request was sent that etcd granted
	unconfirmed bool          // rendezvous.Unconfirmed was posted
	vacated     int           // the round that Vacate named
	written     int           // the round that the key names
}

// unsealing is the last call of Unseal.
type unsealing struct {
	what    *rendezvous.Unseal
	pending bool // it is not done yet
}

// sealed is the world that this agent has sealed last.
type sealed struct {
	rev     int64 // of the round's key
	members []rendezvous.NodeID
}

// prepare makes the channels, before Run and the calls of Fence.
func (s *state) prepare() {
	s.gates = gates{make(chan struct{}), make(chan struct{}), make(chan error, 1), make(chan struct{}, 1)}
	s.gates.sealing <- struct{}{}
	s.wakes = wakes{newSignal(), newSignal(), newSignal(), newSignal(), newSignal()}
	s.post = func(rendezvous.Event) {}
	s.node.vacated, s.node.written = -1, -1
}

// signal wakes one goroutine. Several signals before it receives one are one.
type signal chan struct{}

func newSignal() signal { return make(signal, 1) }

func (s signal) wake() {
	select {
	case s <- struct{}{}:
	default:
	}
}

// Run implements rendezvous.Backend. It may be called once. While it cannot reach etcd
// it waits and posts the reason in Peers.Trouble. It returns an error for what only the
// user can correct: TLS, password, permission, the address of another program, a world
// that is too large for etcd.
func (e *Etcd) Run(ctx context.Context, post func(rendezvous.Event)) error {
	e.mu.Lock()
	e.post = post
	e.mu.Unlock()
	var err error
	if e.session.cl == nil { // else Secret has connected
		err = e.connect(ctx)
	}
	if e.session.cl != nil {
		defer e.session.cl.Close()
	}
	if err != nil {
		return err
	}
	if ctx.Err() != nil {
		e.leaveSecret(ctx)
		return nil
	}
	defer e.leave()
	g, ctx := errgroup.WithContext(ctx)
	e.session.running = ctx
	close(e.gates.started)
	for _, f := range []func(context.Context) error{e.keepRegistered, e.tick, e.publish, e.followJob, e.followNodes, e.contend, e.runUpdates, e.keepJob, e.keepSecret} {
		g.Go(func() error { return f(ctx) })
	}
	g.Go(func() error {
		select {
		case <-ctx.Done():
			return nil
		case err := <-e.gates.fatal:
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

// call bounds one request. A cluster without a leader must refuse it at once.
func call(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(clientv3.WithRequireLeader(ctx), callLimit)
}

// txn commits a transaction: then if all cmps hold, otherwise if not.
func (e *Etcd) txn(ctx context.Context, cmps []clientv3.Cmp, then, otherwise []clientv3.Op) (*clientv3.TxnResponse, error) {
	ctx, cancel := call(ctx)
	defer cancel()
	return e.session.cl.Txn(ctx).If(cmps...).Then(then...).Else(otherwise...).Commit()
}

func (e *Etcd) revoke(ctx context.Context, id leaseID) error {
	ctx, cancel := call(ctx)
	defer cancel()
	if _, err := e.session.cl.Revoke(ctx, id); err != nil && !isLeaseNotFound(err) {
		return err
	}
	return nil
}

func (e *Etcd) grant(ctx context.Context, ttl time.Duration) (leaseID, error) {
	ctx, cancel := call(ctx)
	defer cancel()
	got, err := e.session.cl.Grant(ctx, seconds(ttl))
	if err != nil {
		return 0, err
	}
	return got.ID, nil
}

// seconds rounds up: etcd counts leases in whole seconds.
func seconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }

// leaveLimit bounds the deletion of this agent's keys. It is long enough for a cluster
// to choose a new leader. Keys that remain are deleted with their leases.
const leaveLimit = 5 * time.Second

// leave deletes this agent's keys.
func (e *Etcd) leave() {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(e.session.running), leaveLimit)
	defer cancel()
	for !e.runUnseal(ctx) && pause(ctx, 50*time.Millisecond) {
	}
	e.removeOwnRound(ctx)
	e.mu.Lock()
	id := e.node.lease
	e.mu.Unlock()
	for id != 0 && e.revoke(ctx, id) != nil && pause(ctx, 50*time.Millisecond) {
	}
	e.leaveSecret(ctx)
}

// leaveSecret releases the secret, also after ctx has ended.
func (e *Etcd) leaveSecret(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveLimit)
	defer cancel()
	for e.releaseSecret(ctx) != nil && pause(ctx, 50*time.Millisecond) {
	}
}
