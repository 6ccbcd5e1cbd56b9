package tcp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/gorun/gorun/worker/collective"
)

const (
	// handshakeTime bounds dialling and a handshake; neither side computes anything
	// in it.
	handshakeTime = 10 * time.Second
	// busyPause is the wait after answerBusy before a rank dials again. The connection of
	// the other rank normally arrives long before.
	busyPause = 100 * time.Millisecond
)

// peer is another rank and the connection to it. Either side may dial. If both dial,
// the lower rank's connection counts.
type peer struct {
	rank    int
	turn    chan struct{} // held by the goroutine that dials
	dialing bool          // true: this rank's hello may be on the way; guarded by Mesh.mu
	claimed bool          // true: the pair's connection is decided; guarded by Mesh.mu
	l       *link
	ready   chan struct{} // closed when l can be used
}

// ended reports whether there was a connection and its reader has ended.
func (p *peer) ended() bool {
	select {
	case <-p.ready:
	default:
		return false
	}
	select {
	case <-p.l.done:
		return true
	default:
		return false
	}
}

// link returns the connection to rank. It makes the connection if there is none.
func (m *Mesh) link(ctx context.Context, rank int) (*link, error) {
	p := m.peers[rank]
	select {
	case <-p.ready:
		return p.l, nil
	default:
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(m.life, func() { cancel(context.Cause(m.life)) })()
	select {
	case p.turn <- struct{}{}:
		defer func() { <-p.turn }()
	case <-p.ready:
		return p.l, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	addr, err := m.lookup(ctx, p)
	select {
	case <-p.ready: // the peer has dialled meanwhile
		return p.l, nil
	default:
	}
	if err != nil {
		return nil, fmt.Errorf("cannot find rank %d: %w", rank, err)
	}
	for {
		err := m.dial(ctx, p, addr)
		var pause <-chan time.Time
		switch {
		case errors.Is(err, errBusy):
			pause = time.After(busyPause)
		case err != nil:
			select {
			case <-p.ready: // the peer has dialled meanwhile, and may have ended already
			default:
				if ctx.Err() != nil {
					return nil, context.Cause(ctx)
				}
				return nil, &collective.PeerError{Rank: rank, Err: fmt.Errorf("cannot be reached: %w", err)}
			}
		}
		select {
		case <-p.ready:
			return p.l, nil
		case <-pause:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// lookup asks the directory for p's address, until p itself dials.
func (m *Mesh) lookup(ctx context.Context, p *peer) (string, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-p.ready:
			cancel(errBusy)
		case <-ctx.Done():
		}
	}()
	return m.cfg.Directory.Lookup(ctx, p.rank)
}

var errBusy = errors.New("the other rank is dialling, too")

// dial makes p ready, or returns errBusy if the other side's connection comes first.
func (m *Mesh) dial(ctx context.Context, p *peer, addr string) error {
	m.mu.Lock()
	if p.claimed {
		m.mu.Unlock()
		return errBusy
	}
	p.dialing = true
	m.mu.Unlock()
	conn, answer, err := m.call(ctx, p.rank, addr)
	m.mu.Lock()
	p.dialing = false
	if err == nil && answer == answerOK && !p.claimed {
		p.claimed = true
		m.mu.Unlock()
		m.adopt(p, conn)
		return nil
	}
	m.mu.Unlock()
	if err != nil {
		return err
	}
	conn.Close()
	switch answer {
	case answerOK, answerBusy:
		return errBusy
	case answerLost:
		return errors.New("its connection with this rank has ended before")
	}
	return fmt.Errorf("%s is not a rank of this world (answer %d)", addr, answer)
}

// call connects, sends a hello and returns the answer.
func (m *Mesh) call(ctx context.Context, rank int, addr string) (net.Conn, byte, error) {
	ctx, cancel := context.WithTimeout(ctx, handshakeTime)
	defer cancel()
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, 0, err
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	answer := []byte{0}
	if _, err = conn.Write(newHello(m.cfg.Token, m.cfg.Rank, rank).encode()); err == nil {
		_, err = io.ReadFull(conn, answer)
	}
	if !stop() {
		err = context.Cause(ctx)
	}
	if err != nil {
		conn.Close()
		return nil, 0, fmt.Errorf("no answer from %s: %w", addr, err)
	}
	return conn, answer[0], nil
}
