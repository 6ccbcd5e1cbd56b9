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
	// handshakeTime bounds dialling and a handshake; nobody is asked to compute
	// anything in it.
	handshakeTime = 10 * time.Second
	// maxStrangers is how many connections may be in a handshake at once.
	maxStrangers = 256
	// busyPause is the wait before a rank calls again one that said that it is
	// calling itself; its connection normally arrives long before.
	busyPause = 100 * time.Millisecond
)

// peer is another rank and the way to it. Either side may dial; when both do,
// the lower rank's connection is the one.
type peer struct {
	rank    int
	turn    chan struct{} // held by the goroutine that dials
	dialing bool          // a hello of ours may be on the way; guarded by Mesh.mu
	claimed bool          // l is decided; guarded by Mesh.mu
	l       *link
	ready   chan struct{} // closed when l can be used
}

// link returns the connection to rank, which it makes if there is none.
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
	case <-p.ready: // it called meanwhile
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
			case <-p.ready: // it called meanwhile, and may have said all it had to say
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

// lookup asks for p's address, until p calls by itself.
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

var errBusy = errors.New("the other side is calling, too")

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
	if answer != answerBusy && answer != answerOK {
		return fmt.Errorf("%s is not a rank of this world (answer %d)", addr, answer)
	}
	return errBusy
}

// call connects, says hello and returns the answer.
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

// accept takes connections until the mesh ends.
func (m *Mesh) accept() {
	places := make(chan struct{}, maxStrangers)
	for {
		conn, err := m.ln.Accept()
		if err != nil {
			select {
			case <-m.life.Done():
				return
			case <-time.After(busyPause): // no file descriptor, say
			}
			continue
		}
		select {
		case places <- struct{}{}:
			m.wg.Go(func() {
				defer func() { <-places }()
				m.answer(conn)
			})
		default:
			conn.Close()
		}
	}
}

// answer makes conn the connection of whoever dialled, or closes it.
func (m *Mesh) answer(conn net.Conn) {
	defer context.AfterFunc(m.life, func() { conn.Close() })()
	conn.SetDeadline(time.Now().Add(handshakeTime))
	b := make([]byte, helloSize)
	if _, err := io.ReadFull(conn, b); err != nil {
		conn.Close()
		return
	}
	from, err := parseHello(b, m.cfg.Token, m.cfg.Rank, m.cfg.Size)
	if err != nil {
		conn.Close()
		return
	}
	p := m.peers[from]
	m.mu.Lock()
	busy := p.claimed || p.dialing && m.cfg.Rank < from
	if !busy {
		p.claimed = true
	}
	m.mu.Unlock()
	if busy {
		conn.Write([]byte{answerBusy})
		conn.Close()
		return
	}
	conn.Write([]byte{answerOK}) // if it fails, the reader finds out
	conn.SetDeadline(time.Time{})
	m.adopt(p, conn)
}

// adopt makes conn, whose handshake is done, the link to p and starts its reader.
func (m *Mesh) adopt(p *peer, conn net.Conn) {
	l := &link{m: m, peer: p.rank, conn: conn, posts: make(chan *post), done: make(chan struct{})}
	m.mu.Lock()
	if m.life.Err() != nil {
		m.mu.Unlock()
		conn.Close()
		return
	}
	m.links = append(m.links, l)
	m.wg.Go(l.read)
	m.mu.Unlock()
	p.l = l
	close(p.ready)
}
