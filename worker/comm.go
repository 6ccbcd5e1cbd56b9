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

// Comm is a communicator: some ranks of a world, or all, in an order of its own. All its
// ranks must make the same collective calls on it in the same order, one at a time. If a
// call fails for another reason than its arguments, such as the end of its context, every
// communicator of the world is broken on all ranks and every later call fails.
//
// Messages (Send, Recv and their kin) may go beside a collective, from any goroutine.
type Comm struct {
	w *World
	g *collective.Group
}

// Rank is this process's number in the communicator, -1 if c is nil.
func (c *Comm) Rank() int {
	if c == nil {
		return -1
	}
	return c.g.Rank()
}

// Size is the number of ranks of the communicator, 0 if c is nil.
func (c *Comm) Size() int {
	if c == nil {
		return 0
	}
	return c.g.Size()
}

// Split divides the communicator: ranks that give the same color become a communicator,
// ordered by key and, for equal keys, by their rank in c. The result is nil for a rank
// with a negative color. All ranks of c must call Split.
func (c *Comm) Split(ctx context.Context, color, key int) (*Comm, error) {
	if c == nil {
		return nil, errNoComm
	}
	ctx, cancel := c.w.deadline(ctx)
	defer cancel()
	g, err := c.g.Split(ctx, color, key)
	if err != nil {
		return nil, c.outcome(err)
	}
	if g == nil {
		return nil, nil
	}
	c.w.mu.Lock()
	c.w.links.split = append(c.w.links.split, g)
	c.w.mu.Unlock()
	return &Comm{w: c.w, g: g}, nil
}

// errNoComm is the error of calls with a nil Comm.
var errNoComm = errors.New("gorun: the communicator is nil: this rank is not a member, or World.Comm or Split failed")

// Comm returns the world's communicator. The first call announces this rank in the
// store. It does not wait for the other ranks, because connections are made when they
// are first needed. It waits for rank 0 only if the launcher gives no token,
// and for the first rank of this node only if the launcher gives no board. After a
// failure the error says why the communicator is broken; the next round has a new one.
func (w *World) Comm(ctx context.Context) (*Comm, error) {
	ctx, leave, err := w.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	w.mu.Lock()
	links := w.links
	w.mu.Unlock()
	if links.comm != nil {
		if err := links.broken(); err != nil {
			return nil, fmt.Errorf("gorun: the communicator is broken until the next round: %w", err)
		}
		return links.comm, nil
	}
	links, err = w.connect(ctx)
	if err != nil {
		if why := w.gate.Err(); why != nil {
			return nil, why
		}
		return nil, fmt.Errorf("gorun: rank %d cannot %w", w.set.Rank, err)
	}
	w.mu.Lock()
	w.links = links
	w.mu.Unlock()
	return links.comm, nil
}

// enter waits until no other goroutine connects this rank to the others, which may take a
// minute.
func (w *World) enter(ctx context.Context) (inside context.Context, leave func(), err error) {
	inside, leave, err = w.gate.Enter(ctx)
	if err != nil && w.gate.Err() == nil {
		err = fmt.Errorf("gorun: another goroutine still connects rank %d to the others: %w", w.set.Rank, err)
	}
	return inside, leave, err
}

// connect makes links to all ranks of the world.
func (w *World) connect(ctx context.Context) (links, error) {
	if w.set.Size == 1 {
		return links{comm: &Comm{w: w, g: collective.New(nil, 0, 1, collective.Options{})}}, nil
	}
	mesh, err := w.mesh(ctx)
	if err != nil {
		return links{}, fmt.Errorf("join the others: %w", err)
	}
	engine := w.newEngine(mesh)
	return links{
		mesh:    mesh,
		engine:  engine,
		comm:    &Comm{w: w, g: collective.New(engine, w.set.Rank, w.set.Size, collective.Options{Positions: w.positions})},
		unwatch: context.AfterFunc(w.ctx, func() { mesh.Break(context.Cause(w.ctx)) }),
	}, nil
}

// links is what connects a world to its other ranks.
type links struct {
	mesh   *tcp.Mesh         // nil in a world of one
	engine collective.Engine // likewise
	comm   *Comm
	// split has the groups of the communicators made from comm.
	split []*collective.Group
	// unwatch stops the watch of the world's context. The end of that context breaks mesh.
	unwatch func() bool
}

// broken returns why the connections are broken, or nil.
func (l *links) broken() error {
	if l.mesh == nil {
		return nil
	}
	return l.mesh.Err()
}

// close closes the connections.
func (l *links) close() error {
	if l.unwatch != nil {
		l.unwatch()
	}
	if l.comm == nil {
		return nil
	}
	if err := l.broken(); err != nil {
		l.engine.Break(err) // so that no rank takes this one for a rank that closes in order
	}
	var errs []error
	for _, g := range append(l.split, l.comm.g) { // the world's comes last: it has the connections
		errs = append(errs, g.Close())
	}
	return errors.Join(errs...)
}

// mesh opens this rank's part of the TCP mesh.
func (w *World) mesh(ctx context.Context) (*tcp.Mesh, error) {
	c, err := w.dialStore(ctx)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	if err := w.shareBoard(ctx, w.prefix()); err != nil {
		return nil, fmt.Errorf("cannot learn whether its node shares memory: %w", err)
	}
	w.openMessages() // before others can find this rank
	d := w.directory()
	cfg := tcp.Config{
		Rank: w.set.Rank, Size: w.set.Size, Token: w.set.Token, Listen: w.set.Listen,
		Directory: d, Spin: w.board() != nil && w.board().Spin(),
	}
	if cfg.Token == "" {
		if cfg.Token, err = d.token(ctx, c, w.set.Rank); err != nil {
			return nil, err
		}
	}
	if cfg.Listen.Addr == "" {
		if cfg.Listen.Addr, _, err = net.SplitHostPort(c.LocalAddr().String()); err != nil {
			return nil, err
		}
	}
	return tcp.Open(ctx, cfg)
}

// directory returns where ranks announce their addresses.
func (w *World) directory() directory { return directory{addr: w.set.Store, prefix: w.prefix()} }

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

// do carries out a collective.
func (c *Comm) do(ctx context.Context, w *collective.Work) error {
	if c == nil {
		return errNoComm
	}
	ctx, cancel := c.w.deadline(ctx)
	defer cancel()
	return c.outcome(c.g.Do(ctx, w))
}

// deadline returns ctx with the world's default deadline, if it has one.
func (w *World) deadline(ctx context.Context) (context.Context, context.CancelFunc) {
	if w.opts.deadline <= 0 {
		return ctx, noCancel
	}
	return context.WithTimeoutCause(ctx, w.opts.deadline, fmt.Errorf("not done after %v: %w", w.opts.deadline, context.DeadlineExceeded))
}

func noCancel() {}

// outcome returns the error of a call. If there is an abort, that is the error, because
// the abort has the cause and err is its consequence. If a peer is gone and there is
// an agent, an abort is probably on its way, also after a bye, since a program that fails may
// close first: outcome waits for the agent's frame, which ends the world's context, but no
// longer than causeTime.
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
	if _, gone := errors.AsType[*PeerError](err); gone && c.w.agent != nil {
		select {
		case <-c.w.ctx.Done():
		case <-time.After(causeTime):
		}
	}
	if abort, ok := errors.AsType[*AbortError](context.Cause(c.w.ctx)); ok {
		return abort
	}
	return voiced(c.placed(err))
}

// placed adds the lines of the program that made the calls to errors about what ranks
// call.
func (c *Comm) placed(err error) error {
	e, mismatch := errors.AsType[*MismatchError](err)
	_, hang := errors.AsType[*HangError](err)
	_, peer := errors.AsType[*PeerError](err)
	if !mismatch && !hang && !peer {
		return err
	}
	if mismatch && e.MyCaller != "" {
		return err
	}
	if place := c.w.callers.Find().Text; place != "" {
		err = fmt.Errorf("%w; this rank called at %s", err, place)
	}
	if mismatch && e.TheirCaller == "" {
		if place := c.w.callerOf(&e.Theirs, e.Peer); place != "" {
			err = fmt.Errorf("%w, rank %d at %s", err, e.Peer, place)
		}
	}
	return err
}

// causeTime bounds how long a call that failed because of a peer waits for the agent's
// abort, which has the cause. It passes only if the agent sees no failure.
const causeTime = 250 * time.Millisecond
