package tcp

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/gorun/gorun/worker/collective"
)

// link is the connection between this rank and another.
type link struct {
	m     *Mesh
	peer  int
	conn  net.Conn
	wmu   sync.Mutex // one message at a time
	posts chan *post // receivers hand their buffers to the reader
	done  chan struct{}
	err   error // why the reader ended; valid when done is closed
}

// post is one receive that waits.
type post struct {
	want collective.Call
	into []byte
	done chan error
}

func (l *link) write(h header, payload []byte) error {
	l.wmu.Lock()
	defer l.wmu.Unlock()
	bufs := net.Buffers{h.encode(), payload}
	if _, err := bufs.WriteTo(l.conn); err != nil {
		select {
		case <-l.done: // the reader has the peer's goodbye or reason
			return l.err
		case <-time.After(goodbyeTime): // the reader has not ended
			return l.gone(err)
		}
	}
	return nil
}

// lastWords writes a frame. While a message is being written it writes nothing, and the
// peer sees only the connection's end.
func (l *link) lastWords(frame []byte, deadline time.Time) {
	if l.wmu.TryLock() {
		defer l.wmu.Unlock()
		l.conn.SetWriteDeadline(deadline)
		l.conn.Write(frame)
	}
}

func (l *link) receive(want collective.Call, into []byte) error {
	p := &post{want, into, make(chan error, 1)}
	select {
	case l.posts <- p:
		return <-p.done // soon after a break, because that closes the connection
	case <-l.done:
		return l.err
	}
}

// read is the link's reader. It ends with the connection.
func (l *link) read() {
	defer close(l.done)
	defer l.conn.Close()
	r := bufio.NewReaderSize(l.conn, 64<<10)
	b := make([]byte, headerSize)
	for {
		if _, err := io.ReadFull(r, b); err != nil {
			l.err = l.gone(err)
			return
		}
		h, err := parseHeader(b)
		if err != nil {
			l.err = &collective.PeerError{Rank: l.peer, Err: err}
			return
		}
		switch h.frame {
		case frameBye:
			l.err = &collective.PeerError{Rank: l.peer, Err: errors.New("has closed its communicator")}
			return
		case frameBroken:
			reason := make([]byte, h.length)
			if _, err := io.ReadFull(r, reason); err != nil {
				reason = []byte("no reason given")
			}
			l.err = l.m.gaveUp(h, l.peer, reason)
			// The ranks that wait for this one must get the reason too, even if this one
			// waits for nothing now.
			l.m.Break(l.err)
			return
		}
		select {
		case p := <-l.posts:
			if l.err = l.fill(r, h, p); l.err != nil {
				l.m.Break(l.err) // before the connection closes, so that the peer hears why
				p.done <- l.err
				return
			}
			p.done <- nil
		case <-l.m.life.Done():
			l.err = l.gone(ErrClosed)
			return
		}
	}
}

// fill reads the payload of h into p's buffer if that is what p waits for.
func (l *link) fill(r io.Reader, h header, p *post) error {
	if h.call != p.want {
		return &collective.MismatchError{Rank: l.m.cfg.Rank, Mine: p.want, Peer: l.peer, Theirs: h.call}
	}
	if h.length != uint64(len(p.into)) {
		return &collective.PeerError{
			Rank: l.peer,
			Err:  fmt.Errorf("sent %d bytes instead of %d in %v", h.length, len(p.into), p.want),
		}
	}
	if _, err := io.ReadFull(r, p.into); err != nil {
		return l.gone(err)
	}
	return nil
}

func (l *link) gone(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = errors.New("its connection closed")
	}
	return &collective.PeerError{Rank: l.peer, Err: fmt.Errorf("is gone: %w", err)}
}
