package tcp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/gorun/gorun/worker/collective"
)

// byeTime bounds sending the last frame to the other ranks. A peer that does not read
// must not delay the return of an aborted call.
const byeTime = 20 * time.Millisecond

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
	Host       string // the address of this node on which to listen
	Directory  Directory
}

// Mesh is a collective.Transport.
type Mesh struct {
	cfg   Config
	ln    net.Listener
	peers []*peer
	wg    sync.WaitGroup // the accept loop, handshakes, readers

	// life ends when the mesh is broken or closed; its cause says why. open ends with
	// Close. Until then a broken mesh sends the reason to ranks that dial it.
	life, open     context.Context
	end, endOfOpen context.CancelCauseFunc

	mu    sync.Mutex // guards peers' claimed and dialing, and what follows
	links []*link
	last  []byte // the last frame for every rank, once life has ended
}

var _ collective.Transport = (*Mesh)(nil)

// Open listens and announces this rank. It does not wait for the others.
func Open(ctx context.Context, cfg Config) (*Mesh, error) {
	var lc net.ListenConfig
	ln, err := lc.Listen(ctx, "tcp", net.JoinHostPort(cfg.Host, "0"))
	if err != nil {
		return nil, fmt.Errorf("cannot listen for the other ranks: %w", err)
	}
	m := &Mesh{cfg: cfg, ln: ln, peers: make([]*peer, cfg.Size)}
	m.open, m.endOfOpen = context.WithCancelCause(context.Background())
	m.life, m.end = context.WithCancelCause(m.open)
	for r := range m.peers {
		m.peers[r] = &peer{rank: r, ready: make(chan struct{}), turn: make(chan struct{}, 1)}
	}
	m.wg.Go(m.accept)
	if err := cfg.Directory.Publish(ctx, cfg.Rank, ln.Addr().String()); err != nil {
		m.Close()
		return nil, fmt.Errorf("cannot announce rank %d to the others: %w", cfg.Rank, err)
	}
	return m, nil
}

// Send is described at collective.Transport.
func (m *Mesh) Send(ctx context.Context, to int, call collective.Call, payload []byte) error {
	defer m.breakWith(ctx)()
	l, err := m.link(ctx, to)
	if err == nil {
		err = l.write(header{uint8(call.Kind), call, uint64(len(payload))}, payload)
	}
	return m.failure(err)
}

// Recv is described at collective.Transport.
func (m *Mesh) Recv(ctx context.Context, from int, want collective.Call, into []byte) error {
	defer m.breakWith(ctx)()
	l, err := m.link(ctx, from)
	if err == nil {
		err = l.receive(want, into)
	}
	return m.failure(err)
}

// breakWith breaks the mesh if ctx ends before the returned function is called.
func (m *Mesh) breakWith(ctx context.Context) (stop func() bool) {
	return context.AfterFunc(ctx, func() { m.Break(context.Cause(ctx)) })
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

// Break is described at collective.Transport.
func (m *Mesh) Break(why error) {
	rank, reason := m.cfg.Rank, why.Error()
	if received, ok := errors.AsType[*peerReason](why); ok { // pass on the first rank's reason
		rank, reason = received.rank, received.text
	}
	last := header{frame: frameBroken, call: collective.Call{Root: int32(rank)}}
	m.stop(why, last, []byte(reason[:min(len(reason), maxReason)]))
}

// peerReason is the reason that another rank sent for breaking its mesh.
type peerReason struct {
	rank int
	text string
}

func (e *peerReason) Error() string { return "gave up: " + e.text }

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
	return &collective.PeerError{Rank: rank, Err: &peerReason{rank, text}}
}

// Close sends a bye to the other ranks, closes all connections and waits for their
// readers.
func (m *Mesh) Close() error {
	m.stop(ErrClosed, header{frame: frameBye}, nil)
	m.endOfOpen(ErrClosed)
	m.ln.Close()
	m.wg.Wait()
	return nil
}

// stop ends the mesh's life, once, and sends the last frame to every connected rank.
func (m *Mesh) stop(why error, last header, payload []byte) {
	m.mu.Lock()
	if m.life.Err() != nil {
		m.mu.Unlock()
		return
	}
	last.length = uint64(len(payload))
	m.last = append(last.encode(), payload...)
	m.end(why)
	links := m.links
	m.mu.Unlock()
	deadline := time.Now().Add(byeTime)
	for _, l := range links {
		l.sendLast(m.last, deadline)
		l.conn.Close()
	}
}
