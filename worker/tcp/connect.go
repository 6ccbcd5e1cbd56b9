package tcp

import (
	"context"
	"crypto/hmac"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
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
	// unansweredTime is how long a rank dials again that closes the connection without a
	// word: it may have no room for a handshake at the moment.
	unansweredTime = 3 * time.Second
)

// slot is where a lane will be. Either side may dial. If both dial, the lower rank's
// connection counts.
type slot struct {
	id      laneID
	turn    chan struct{} // held by the goroutine that dials
	dialing bool          // true: this rank's hello may be on the way; guarded by Mesh.mu
	claimed bool          // true: the lane's connection is decided; guarded by Mesh.mu
	l       *lane
	ready   chan struct{} // closed when l can be used
}

// ended reports whether there was a lane and its peer has gone.
func (p *slot) ended() bool {
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

// slot returns the slot of a lane.
func (m *Mesh) slot(id laneID) *slot {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.slots[id]
	if p == nil {
		p = &slot{id: id, ready: make(chan struct{}), turn: make(chan struct{}, 1)}
		m.slots[id] = p
	}
	return p
}

// lanesOf returns the lanes to a rank.
func (m *Mesh) lanesOf(rank int) []*lane {
	m.mu.Lock()
	defer m.mu.Unlock()
	var of []*lane
	for _, l := range m.lanes {
		if l.id.rank == rank {
			of = append(of, l)
		}
	}
	return of
}

// ready returns the lane if there is or was one, else nil.
func (m *Mesh) ready(id laneID) (*lane, error) {
	if m.life.Err() != nil {
		return nil, context.Cause(m.life)
	}
	p := m.slot(id)
	select {
	case <-p.ready:
		return p.l, nil
	default:
		return nil, nil
	}
}

// lane returns a lane. It makes the connection if there is none.
func (m *Mesh) lane(ctx context.Context, id laneID) (*lane, error) {
	rank, p := id.rank, m.slot(id)
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
	begin := time.Now()
	for {
		err := m.dial(ctx, p, addr)
		var pause <-chan time.Time
		switch {
		case errors.Is(err, errBusy), errors.Is(err, errUnanswered) && time.Since(begin) < unansweredTime:
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
func (m *Mesh) lookup(ctx context.Context, p *slot) (string, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-p.ready:
			cancel(errBusy)
		case <-ctx.Done():
		}
	}()
	return m.cfg.Directory.Lookup(ctx, p.id.rank)
}

var (
	errBusy       = errors.New("the other rank is dialling, too")
	errUnanswered = errors.New("it closed the connection without a word")
)

// dial makes p ready, or returns errBusy if the other side's connection comes first.
func (m *Mesh) dial(ctx context.Context, p *slot, addr string) error {
	m.mu.Lock()
	if p.claimed {
		m.mu.Unlock()
		return errBusy
	}
	p.dialing = true
	m.mu.Unlock()
	conn, answer, err := m.call(ctx, p.id, addr)
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

// call connects, makes the handshake and returns the answer.
func (m *Mesh) call(ctx context.Context, id laneID, addr string) (*net.TCPConn, byte, error) {
	ctx, cancel := context.WithTimeout(ctx, handshakeTime)
	defer cancel()
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, 0, err
	}
	conn := c.(*net.TCPConn)
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	answer, err := m.introduce(conn, id)
	if !stop() {
		err = context.Cause(ctx)
	}
	if err != nil {
		conn.Close()
		return nil, 0, fmt.Errorf("no answer from %s: %w", addr, err)
	}
	return conn, answer, nil
}

// introduce makes the dialling side of a handshake and returns the answer.
func (m *Mesh) introduce(conn io.ReadWriter, id laneID) (byte, error) {
	h := newHello(m.cfg.Rank, id)
	if _, err := conn.Write(h.encode()); err != nil {
		return 0, err
	}
	var b [nonceSize + proofSize]byte
	switch n, err := io.ReadFull(conn, b[:]); {
	case n == 0 && (err == io.EOF || errors.Is(err, syscall.ECONNRESET)):
		return 0, errUnanswered
	case err != nil:
		return 0, err
	}
	challenge := [nonceSize]byte(b[:nonceSize])
	if !hmac.Equal(b[nonceSize:], proof(m.cfg.Token, sideAccept, h, challenge)) {
		return 0, errors.New("it does not know the token of this world")
	}
	if _, err := conn.Write(proof(m.cfg.Token, sideDial, h, challenge)); err != nil {
		return 0, err
	}
	_, err := io.ReadFull(conn, b[:1])
	return b[0], err
}
