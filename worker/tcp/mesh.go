package tcp

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/gorun/gorun/worker/collective"
)

const (
	// byeTime bounds sending the last frame to the other ranks after a failure. A peer that
	// does not read must not delay the return of an aborted call.
	byeTime = 20 * time.Millisecond
	// closeTime bounds Close: until then what was sent reaches the other ranks.
	closeTime = time.Second
)

// ErrClosed is the reason of every call after Close.
var ErrClosed = errors.New("the communicator is closed")

// Directory is where ranks announce the address on which they listen.
type Directory interface {
	Publish(ctx context.Context, rank int, addr string) error
	// Lookup waits until the rank has published.
	Lookup(ctx context.Context, rank int) (addr string, err error)
}

// Config describes one rank's part of a mesh.
type Config struct {
	Rank, Size int
	Token      string // shared by the ranks of this world only
	Listen     Listen // where; it needs an address
	Directory  Directory
	Spin       bool // this rank has CPUs of its own, so that it may wait for a collective without sleeping
}

// Mesh is one rank's lanes to all others. Its communicators are collective.Transports.
type Mesh struct {
	cfg   Config
	ln    net.Listener
	wg    sync.WaitGroup // the accept loop, handshakes, readers, writers
	box   box
	where where

	// life ends when the mesh is broken or closed; its cause says why. open ends with
	// Close. Until then a broken mesh sends the reason to ranks that dial it.
	life, open     context.Context
	end, endOfOpen context.CancelCauseFunc

	mu    sync.Mutex // guards what follows, and the slots' claimed and dialing
	slots map[laneID]*slot
	lanes []*lane
	last  header // the last frame for every rank, once life has ended
	why   []byte // its payload
}

// Open listens and announces this rank. It does not wait for the others.
func Open(ctx context.Context, cfg Config) (*Mesh, error) {
	ln, err := cfg.Listen.open(ctx)
	if err != nil {
		return nil, fmt.Errorf("cannot listen for the other ranks: %w", err)
	}
	m := &Mesh{cfg: cfg, ln: ln, slots: map[laneID]*slot{}}
	m.box = newBox(m)
	m.where = where{m: m, last: map[uint64]place{}}
	m.open, m.endOfOpen = context.WithCancelCause(context.Background())
	m.life, m.end = context.WithCancelCause(m.open)
	m.wg.Go(m.accept)
	m.wg.Go(m.watchSilence)
	if err := cfg.Directory.Publish(ctx, cfg.Rank, ln.Addr().String()); err != nil {
		m.Close()
		return nil, fmt.Errorf("cannot announce rank %d to the others: %w", cfg.Rank, err)
	}
	return m, nil
}

// failure breaks the mesh if err is not nil, and returns the first reason for which it
// broke. err is often only an effect of that reason.
func (m *Mesh) failure(err error) error {
	if err == nil {
		return nil
	}
	m.Break(err)
	return context.Cause(m.life)
}

// Connect makes the connection for messages to a rank, so that this rank sees when the
// other one is gone. It does not wait.
func (m *Mesh) Connect(rank int) {
	m.wg.Go(func() {
		_, _ = m.lane(m.life, laneID{rank: rank}) // a rank that cannot be reached shows when it is needed
	})
}

// Forget gives back what the mesh has of a communicator other than the world's, of which this
// rank makes no call any more. What it has sent still arrives.
func (m *Mesh) Forget(comm uint64) {
	m.where.forget(comm)
	of := func(id laneID) bool { return id.collective && id.comm == comm }
	m.mu.Lock()
	var gone, rest []*lane // not in place: others go through m.lanes
	for _, l := range m.lanes {
		if of(l.id) {
			gone = append(gone, l)
		} else {
			rest = append(rest, l)
		}
	}
	m.lanes = rest
	maps.DeleteFunc(m.slots, func(id laneID, _ *slot) bool { return of(id) })
	m.mu.Unlock()
	for _, l := range gone {
		l.close()
	}
}

// Err returns why the mesh is broken or closed, or nil.
func (m *Mesh) Err() error { return context.Cause(m.life) }

// Context returns a context that ends when the mesh is broken or closed; its cause is Err.
func (m *Mesh) Context() context.Context { return m.life }

// Break is described at collective.Transport.
func (m *Mesh) Break(why error) {
	rank, reason := m.cfg.Rank, why.Error()
	if received, ok := errors.AsType[*collective.GaveUp](why); ok { // pass on the first rank's reason
		rank, reason = received.Rank, received.Reason
	}
	last := header{frame: frameBroken, call: collective.Call{Root: int32(rank)}}
	lanes, first := m.stop(why, last, reason)
	if !first {
		return
	}
	m.box.fail(func(*op) bool { return true }, why)
	deadline := time.Now().Add(byeTime)
	for _, l := range lanes {
		l.sendLast(deadline, why)
		if l.id.collective {
			l.close()
		}
	}
	for _, l := range lanes {
		if !l.id.collective {
			l.drained()
			l.close()
		}
	}
}

// brokenError returns the error for a frameBroken from peer. The error names the rank
// that gave up first, or peer if the frame's rank is not of this world.
func (m *Mesh) brokenError(h header, peer int, reason []byte) error {
	rank := int(h.call.Root)
	if rank < 0 || rank >= m.cfg.Size {
		rank = peer
	}
	text := strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, string(reason))
	return &collective.PeerError{Rank: rank, Err: &collective.GaveUp{Rank: rank, Reason: text}}
}

// Close sends a bye to the other ranks, waits at most closeTime until they have what was
// sent, and releases everything. The error names messages that were sent and never
// received.
func (m *Mesh) Close() error {
	lanes, first := m.stop(ErrClosed, header{frame: frameBye}, "")
	m.ln.Close()
	deadline := time.Now().Add(closeTime)
	if first {
		var wg sync.WaitGroup
		for _, l := range lanes {
			l.sendLast(deadline, ErrClosed)
			wg.Go(func() { l.drain(deadline) })
		}
		wg.Wait()
	}
	err := m.box.unpaired()
	failed := m.box.failed.Load()
	m.box.fail(func(*op) bool { return true }, ErrClosed)
	m.endOfOpen(ErrClosed)
	m.wg.Wait()
	if !first && failed > 0 {
		return fmt.Errorf("rank %d has closed without waiting for %d sends that failed: %w", m.cfg.Rank, failed, m.Err())
	}
	if !first {
		return nil
	}
	return err
}

// stop ends the mesh's life and returns its lanes. It reports whether this is the first
// end.
func (m *Mesh) stop(why error, last header, reason string) (lanes []*lane, first bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.life.Err() != nil {
		return nil, false
	}
	m.why = []byte(reason[:min(len(reason), maxReason)])
	last.length = uint64(len(m.why))
	m.last = last
	m.end(why)
	return m.lanes, true
}
