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
		case <-l.done: // the reader has received the peer's bye or reason
			return l.err
		case <-time.After(byeTime): // the reader has not ended
			return l.lost(err)
		}
	}
	return nil
}

// sendLast writes a frame, unless a message is being written. Then the peer sees only
// the end of the connection.
func (l *link) sendLast(frame []byte, deadline time.Time) {
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

// read reads messages until the connection ends.
func (l *link) read() {
	defer close(l.done)
	defer l.conn.Close()
	r := bufio.NewReaderSize(l.conn, 64<<10)
	b := make([]byte, headerSize)
	for {
		if _, err := io.ReadFull(r, b); err != nil {
			l.err = l.lost(err)
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
			l.err = l.m.brokenError(h, l.peer, reason)
			// Ranks that wait for this rank must get the reason, even if this rank waits
			// for nothing now.
			l.m.Break(l.err)
			return
		}
		select {
		case p := <-l.posts:
			if l.err = l.fill(r, h, p); l.err != nil {
				l.m.Break(l.err) // before the connection closes, so that the peer gets the reason
				p.done <- l.err
				return
			}
			p.done <- nil
		case <-l.m.life.Done():
			l.err = l.lost(ErrClosed)
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
		return l.lost(err)
	}
	return nil
}

// lost returns the error for a connection that has ended. Package diagnose knows its text.
func (l *link) lost(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = errors.New("its connection closed")
	}
	return &collective.PeerError{Rank: l.peer, Err: fmt.Errorf("is gone: %w", err)}
}
