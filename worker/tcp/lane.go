package tcp

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"syscall"
	"time"

	"github.com/gorun/gorun/worker/collective"
)

// directSize is how much of a message is copied behind its header, so that both leave
// with one system call.
const directSize = 16 << 10

// lane is a connection between this rank and another.
type lane struct {
	m    *Mesh
	id   laneID
	conn *net.TCPConn
	r    *bufio.Reader
	head [headerSize]byte // of the frame that is being read

	out outbox

	// For a lane of messages: err says why its reader ended; valid when done is closed.
	done chan struct{}
	err  error
}

// outbox is what a lane has to send. The sender writes itself as long as the socket takes
// it; the writer goroutine sends the rest.
type outbox struct {
	mu      sync.Mutex
	changed sync.Cond // the queue got shorter or longer, or err was set
	queue   []outgoing
	started bool  // true: the writer runs
	last    error // not nil: the last frame is in the queue or has left; why nothing may follow
	err     error

	raw   syscall.RawConn
	buf   []byte           // a header and the beginning of its payload
	rest  []byte           // what tryWrite still has to write
	head  [headerSize]byte // what the writer writes
	write func(fd uintptr) bool
}

// outgoing is a frame in the queue.
type outgoing struct {
	header  header
	payload []byte
	sent    int // bytes of header and payload that have left
	op      *op // ends when the frame has left; may be nil
}

func (m *Mesh) newLane(id laneID, conn *net.TCPConn) *lane {
	l := &lane{m: m, id: id, conn: conn, r: bufio.NewReaderSize(m.reader(id, conn), 64<<10), done: make(chan struct{})}
	l.out.changed.L = &l.out.mu
	l.out.buf = make([]byte, 0, headerSize+directSize)
	l.out.raw, l.out.err = conn.SyscallConn()
	l.out.write = l.out.tryWrite
	return l
}

// reader returns what reads a lane. The goroutine that makes a collective reads its lanes
// itself and may spin.
func (m *Mesh) reader(id laneID, conn *net.TCPConn) io.Reader {
	if m.cfg.Spin && id.collective {
		if r, err := newSpinningReader(conn); err == nil {
			return r
		}
	}
	return conn
}

// send queues a frame, and writes as much of it as the socket takes now. It reports
// whether the frame has left. payload must stay as it is until then. An error ends o, too.
func (l *lane) send(h header, payload []byte, o *op) (left bool, err error) {
	l.out.mu.Lock()
	defer l.out.mu.Unlock()
	if err := cmp.Or(l.out.last, l.out.err); err != nil {
		o.end(err)
		return false, err
	}
	return l.enqueue(outgoing{header: h, payload: payload, op: o}), nil
}

// enqueue adds f to the queue; out.mu is held.
func (l *lane) enqueue(f outgoing) (left bool) {
	l.out.queue = append(l.out.queue, f)
	if len(l.out.queue) == 1 && l.writeNow() {
		return true
	}
	if !l.out.started {
		l.out.started = true
		l.m.wg.Go(l.writer)
	}
	l.out.changed.Broadcast()
	return false
}

// writeNow writes the only frame of the queue as far as the socket takes it, and reports
// whether it has left; out.mu is held.
func (l *lane) writeNow() bool {
	f := &l.out.queue[0]
	b := f.header.append(l.out.buf[:0])
	n := min(len(f.payload), directSize)
	b = append(b, f.payload[:n]...)
	f.sent = l.out.writeSome(b)
	if f.sent == len(b) && n < len(f.payload) {
		f.sent += l.out.writeSome(f.payload[n:])
	}
	if f.sent < headerSize+len(f.payload) {
		return false
	}
	l.pop()
	return true
}

// writeSome writes what the socket takes without waiting. An error shows at the writer's
// next attempt.
func (o *outbox) writeSome(b []byte) int {
	o.rest = b
	if o.raw.Write(o.write) != nil {
		return len(b) - len(o.rest)
	}
	n := len(b) - len(o.rest)
	o.rest = nil
	return n
}

// pop removes the first frame, which has left; out.mu is held.
func (l *lane) pop() {
	l.out.queue[0].op.end(nil)
	last := len(l.out.queue) - 1
	copy(l.out.queue, l.out.queue[1:])
	l.out.queue[last] = outgoing{}
	l.out.queue = l.out.queue[:last]
}

// writer writes the queue until the lane fails or is closed and empty.
func (l *lane) writer() {
	l.out.mu.Lock()
	defer l.out.mu.Unlock()
	for {
		for len(l.out.queue) == 0 && l.out.err == nil {
			l.out.changed.Wait()
		}
		if l.out.err != nil {
			l.failSends(l.out.err)
			return
		}
		f := l.out.queue[0]
		l.out.mu.Unlock()
		var err error
		if f.sent < headerSize {
			_, err = l.conn.Write(f.header.append(l.out.head[:0])[f.sent:])
			f.sent = headerSize
		}
		if err == nil && f.sent < headerSize+len(f.payload) {
			_, err = l.conn.Write(f.payload[f.sent-headerSize:])
		}
		l.out.mu.Lock()
		if err != nil {
			l.failSends(l.lost(err))
			return
		}
		l.pop()
		l.out.changed.Broadcast()
	}
}

// failSends ends everything in the queue with err, and what comes later; out.mu is held,
// and the writer does not write any more.
func (l *lane) failSends(err error) {
	if l.out.err == nil {
		l.out.err = err
	}
	for len(l.out.queue) > 0 {
		l.out.queue[0].op.end(err)
		l.out.queue = l.out.queue[1:]
	}
	l.out.changed.Broadcast()
}

// drained waits until the queue is empty and returns why it could not be emptied.
func (l *lane) drained() error {
	l.out.mu.Lock()
	defer l.out.mu.Unlock()
	for len(l.out.queue) > 0 && l.out.err == nil {
		l.out.changed.Wait()
	}
	return l.out.err
}

// sendLast queues the mesh's last frame, if this is a lane of messages, and lets nothing
// follow, because of why. What has not left by deadline is lost.
func (l *lane) sendLast(deadline time.Time, why error) {
	l.conn.SetWriteDeadline(deadline)
	received := l.m.box.receivedFrom(l.id.rank)
	l.out.mu.Lock()
	defer l.out.mu.Unlock()
	if l.out.last != nil || l.out.err != nil {
		return
	}
	l.out.last = why
	if !l.id.collective {
		last := l.m.last
		if last.frame == frameBye {
			last.call.Count = received
		}
		l.enqueue(outgoing{header: last, payload: l.m.why})
	}
}

// close closes the connection and ends the writer.
func (l *lane) close() {
	l.conn.Close()
	l.out.mu.Lock()
	defer l.out.mu.Unlock()
	if l.out.err == nil {
		l.out.err = l.lost(net.ErrClosed)
	}
	l.out.changed.Broadcast()
}

// drain ends the lane after its last frame: it closes its own direction, reads what is
// under way until the peer closes the other, or deadline, and closes the connection. A
// connection that is closed with unread input loses what it has not sent yet.
func (l *lane) drain(deadline time.Time) {
	defer l.close()
	if l.drained() != nil {
		return
	}
	l.conn.CloseWrite()
	l.conn.SetReadDeadline(deadline)
	if !l.id.collective {
		<-l.done // the reader ends with the peer's direction
		return
	}
	io.Copy(io.Discard, l.conn)
}

// finish closes this side's direction after the peer has closed its own because of why.
func (l *lane) finish(why error) {
	l.out.mu.Lock()
	if l.out.last == nil {
		l.out.last = why
	}
	l.out.mu.Unlock()
	l.conn.SetWriteDeadline(time.Now().Add(closeTime))
	if l.drained() == nil {
		l.conn.CloseWrite()
	}
}

// read reads the next frame's header.
func (l *lane) read() (header, error) {
	if _, err := io.ReadFull(l.r, l.head[:]); err != nil {
		return header{}, l.lost(err)
	}
	h, err := parseHeader(l.head[:])
	if err != nil {
		return header{}, &collective.PeerError{Rank: l.id.rank, Err: err}
	}
	return h, nil
}

// fill reads the payload of h into b if that is what want describes.
func (l *lane) fill(h header, want *collective.Call, b []byte) error {
	if h.call != *want {
		return &collective.MismatchError{Rank: l.m.cfg.Rank, Mine: *want, Peer: l.id.rank, Theirs: h.call}
	}
	if h.length != uint64(len(b)) {
		return &collective.PeerError{
			Rank: l.id.rank,
			Err:  fmt.Errorf("sent %d bytes instead of %d in %v", h.length, len(b), *want),
		}
	}
	if _, err := io.ReadFull(l.r, b); err != nil {
		return l.lost(err)
	}
	return nil
}

// lost returns the error for a connection that has ended. Package diagnose knows its text.
func (l *lane) lost(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = errors.New("its connection closed")
	}
	return &collective.PeerError{Rank: l.id.rank, Err: fmt.Errorf("is gone: %w", err)}
}

// reason returns why the peer is gone if it has said so on the lane of messages, else err.
func (m *Mesh) reason(rank int, err error) error {
	m.mu.Lock()
	s := m.slots[laneID{rank: rank}]
	m.mu.Unlock()
	if s == nil {
		return err
	}
	select {
	case <-s.ready:
	default:
		return err
	}
	wait := time.NewTimer(byeTime)
	defer wait.Stop()
	select {
	case <-s.l.done:
		return s.l.err
	case <-m.life.Done():
		return context.Cause(m.life)
	case <-wait.C: // the reader has not ended
		return err
	}
}
