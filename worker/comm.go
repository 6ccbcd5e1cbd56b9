package worker

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/gorun/gorun/worker/collective"
	"github.com/gorun/gorun/worker/store"
	"github.com/gorun/gorun/worker/tcp"
)

// causeTime is how long a call that failed because of a peer waits for the agent's
// abort, which has the cause.
const causeTime = 50 * time.Millisecond

// backend runs collectives. Over TCP it is a collective.Group. A library with its own
// algorithms, such as NCCL, would be another backend.
type backend interface {
	AllReduce(ctx context.Context, b collective.Buffer, op collective.Op) error
	Broadcast(ctx context.Context, b collective.Buffer, root int) error
	Send(ctx context.Context, b collective.Buffer, to int) error
	Recv(ctx context.Context, b collective.Buffer, from int) error
	SendRecv(ctx context.Context, out collective.Buffer, to int, in collective.Buffer, from int) error
	Barrier(ctx context.Context) error
	Close() error
}

// Comm is a communicator of all ranks of a world. All ranks must make the same
// collective calls (AllReduce, Broadcast, Barrier) on it in the same order, one at a
// time. If a call fails for another reason than its arguments, such as the end of its
// context, the communicator is broken on all ranks and every later call fails.
//
// Send and Recv may run beside a collective, but at most one of each at a time
// for one peer.
type Comm struct {
	w *World
	b backend
	// unwatch stops the watch of the world's context. The end of that context breaks b.
	unwatch func() bool
}

// Comm returns the world's communicator. The first call announces this rank in the
// store. It does not wait for the other ranks, because connections are made when they
// are first needed. It waits for rank 0 only if the launcher gives no token.
func (w *World) Comm(ctx context.Context) (*Comm, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ctx.Err() != nil {
		return nil, context.Cause(w.ctx)
	}
	if w.comm != nil {
		return w.comm, nil
	}
	if w.set.Size == 1 {
		w.comm = &Comm{w: w, b: collective.New(nil, 0, 1)}
		return w.comm, nil
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(w.ctx, func() { cancel(context.Cause(w.ctx)) })()
	mesh, err := w.mesh(ctx)
	if err != nil {
		if w.ctx.Err() != nil {
			return nil, context.Cause(w.ctx)
		}
		return nil, fmt.Errorf("gorun: rank %d cannot join the others: %w", w.set.Rank, err)
	}
	w.comm = &Comm{
		w:       w,
		b:       collective.New(mesh, w.set.Rank, w.set.Size),
		unwatch: context.AfterFunc(w.ctx, func() { mesh.Break(context.Cause(w.ctx)) }),
	}
	return w.comm, nil
}

// mesh opens this rank's part of the TCP mesh.
func (w *World) mesh(ctx context.Context) (*tcp.Mesh, error) {
	if w.set.Store == "" {
		return nil, errors.New("MASTER_ADDR and MASTER_PORT are not set, so this rank has no store; gorun and torchrun set them")
	}
	c, err := store.Dial(ctx, w.set.Store)
	if err != nil {
		return nil, fmt.Errorf("%w (gorun and torchrun serve it at MASTER_ADDR:MASTER_PORT)", err)
	}
	defer c.Close()
	d := directory{
		addr: w.set.Store,
		// A store may outlive a round, so keys of an earlier round need another name.
		prefix: fmt.Sprintf("gorun/worker/%d.%d/", w.set.Round, w.set.RestartCount),
	}
	cfg := tcp.Config{Rank: w.set.Rank, Size: w.set.Size, Token: w.set.Token, Host: w.set.NodeAddr, Directory: d}
	if cfg.Token == "" {
		if cfg.Token, err = d.token(ctx, c, w.set.Rank); err != nil {
			return nil, err
		}
	}
	if cfg.Host == "" {
		if cfg.Host, _, err = net.SplitHostPort(c.LocalAddr().String()); err != nil {
			return nil, err
		}
	}
	return tcp.Open(ctx, cfg)
}

// directory is a tcp.Directory in the store. Each lookup has its own connection,
// because a lookup may have to wait for a rank that starts late.
type directory struct{ addr, prefix string }

func (d directory) key(rank int) string { return fmt.Sprintf("%saddr/%d", d.prefix, rank) }

func (d directory) Publish(ctx context.Context, rank int, addr string) error {
	c, err := store.Dial(ctx, d.addr)
	if err != nil {
		return err
	}
	defer c.Close()
	got, err := c.CompareSet(ctx, d.key(rank), nil, []byte(addr))
	if err == nil && string(got) != addr {
		err = fmt.Errorf("another process, at %q, is registered as rank %d: do two processes have the same RANK?", got, rank)
	}
	return err
}

func (d directory) Lookup(ctx context.Context, rank int) (string, error) {
	c, err := store.Dial(ctx, d.addr)
	if err != nil {
		return "", err
	}
	defer c.Close()
	addr, err := c.Get(ctx, d.key(rank))
	return string(addr), err
}

// token returns the secret that rank 0 puts into the store.
func (d directory) token(ctx context.Context, c *store.Client, rank int) (string, error) {
	key := d.prefix + "token"
	if rank == 0 {
		token, err := c.CompareSet(ctx, key, nil, []byte(rand.Text()))
		return string(token), err
	}
	token, err := c.Get(ctx, key)
	return string(token), err
}

// close closes the connections to the other ranks.
func (c *Comm) close() error {
	if c.unwatch != nil {
		c.unwatch()
	}
	return c.b.Close()
}

// outcome returns the error of a call from the backend's err. If there is an abort, or
// an abort comes within causeTime, outcome returns the abort, because the abort has the
// cause and err is its consequence.
func (c *Comm) outcome(err error) error {
	if err == nil {
		return nil
	}
	if abort, ok := errors.AsType[*AbortError](err); ok {
		return abort
	}
	if abort := c.w.boardAbort(); abort != nil {
		return abort
	}
	if _, ok := errors.AsType[*PeerError](err); ok && c.w.agent != nil {
		select {
		case <-c.w.ctx.Done():
		case <-time.After(causeTime):
		}
	}
	if abort, ok := errors.AsType[*AbortError](context.Cause(c.w.ctx)); ok {
		return abort
	}
	return fmt.Errorf("gorun: %w", err)
}
