package control

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/gorun/gorun/rendezvous"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// link is one stream: a writer, a reader, and what each of them keeps. Its methods
// never wait for the peer.
type link struct {
	p  *Plane
	id rendezvous.Conn
	s  stream

	nonce      string                    // of the other side, for this side's hello; "" where it has none
	annotate   func(*rendezvous.Message) // gets each message that comes in first; may be nil
	onReceived func()                    // is called after each message that came in; may be nil

	mu     sync.Mutex
	in     inbox
	out    outbox
	closed bool // by this side, so nothing more is reported
	room   *sync.Cond

	report sync.Mutex // held while something is posted
	over   bool       // Closed was posted, or never will be

	ended chan ending // the first reason to end
}

// inbox is what one side of a stream has read and not handled yet.
type inbox struct {
	last    time.Time // when the latest message came in
	waiting []int     // bytes of each message that was reported and not handled
	held    bool      // the reader waits for room
	silent  bool      // the peer was reported with Silence
}

// full reports whether the reader must wait until a message is handled.
func (in *inbox) full() bool {
	size := 0
	for _, n := range in.waiting {
		size += n
	}
	return len(in.waiting) >= maxWaiting || size >= maxWaitingBytes
}

// outbox is what one side of a stream has to write.
type outbox struct {
	queue []*outgoing
	since time.Time     // when the message that is being written was begun; zero: none is
	more  chan struct{} // has a token while the queue has something or closed has changed
}

// wake makes the writer check the queue.
func (out *outbox) wake() {
	select {
	case out.more <- struct{}{}:
	default:
	}
}

// ending is why a stream ended.
type ending struct {
	clean, silent bool
	text          string
}

func newLink(p *Plane, id rendezvous.Conn, s stream) *link {
	l := &link{
		p: p, id: id, s: s, ended: make(chan ending, 1),
		in: inbox{last: time.Now()}, out: outbox{more: make(chan struct{}, 1)},
	}
	l.room = sync.NewCond(&l.mu)
	return l
}

// state returns when the latest message came in, and since when the peer has not read a
// message. A peer that this side does not read does not count as silent.
func (l *link) state(now time.Time) (last, stuckSince time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.in.held {
		l.in.last = now
	}
	return l.in.last, l.out.since
}

// post reports an event of this stream, and nothing after the last one.
func (l *link) post(e rendezvous.Event, last bool) {
	l.report.Lock()
	defer l.report.Unlock()
	if !l.over {
		l.over = last
		l.p.opts.Post(e)
	}
}

// reportSilence reports with Silence that nothing comes in, or that something comes again.
func (l *link) reportSilence(on bool) {
	l.mu.Lock()
	changed := l.in.silent != on && !l.closed
	l.in.silent = on
	l.mu.Unlock()
	if changed {
		l.post(rendezvous.Silence{Conn: l.id, On: on}, false)
	}
}

// send queues a message. A peer that leaves too many unread is lost.
func (l *link) send(m *outgoing) {
	l.mu.Lock()
	full := len(l.out.queue) >= maxQueued
	if !l.closed && !full {
		l.out.queue = append(l.out.queue, m)
	}
	l.mu.Unlock()
	if full {
		l.end(ending{silent: true, text: "it does not read its messages"})
	}
	l.out.wake()
}

// close ends the stream after what was sent on it.
func (l *link) close() {
	l.mu.Lock()
	l.closed = true
	l.room.Broadcast()
	l.mu.Unlock()
	l.out.wake()
}

// end ends the stream at once. Only the first reason counts.
func (l *link) end(e ending) {
	select {
	case l.ended <- e:
	default:
	}
}

// run moves messages until the stream ends and reports that. closeSend ends this
// side's direction. It is nil on a server, where the return ends the direction.
func (l *link) run(ctx context.Context, closeSend func() error) error {
	go l.read() // ends with the stream, which ends when run returns
	closing := make(chan struct{})
	go l.write(closing)
	var e ending
	select {
	case e = <-l.ended:
	case <-ctx.Done():
		e = ending{text: rendezvous.ConnectionEnded}
		select { // the reader has the more precise reason
		case e = <-l.ended:
		case <-time.After(10 * time.Millisecond):
		}
	case <-closing:
		if closeSend != nil {
			_ = closeSend()
			select { // the other side ends the stream when it has read everything
			case <-l.ended:
			case <-ctx.Done():
			case <-time.After(drainTimeout):
			}
		}
	}
	l.p.forget(l.id)
	l.mu.Lock()
	closedHere := l.closed
	l.closed = true
	l.room.Broadcast()
	l.mu.Unlock()
	l.out.wake()
	if !closedHere {
		if l.p.wasStopped(time.Now()) { // what ended meanwhile proves nothing
			e.clean, e.silent = false, true
			e.text += "; this agent itself did not run for a while"
		}
		l.post(rendezvous.Closed{Conn: l.id, Clean: e.clean, Silent: e.silent, Text: e.text}, true)
	}
	switch {
	case e.clean || closedHere:
		return nil
	case e.silent:
		return status.Error(gaveUp, e.text)
	}
	return errors.New(e.text)
}

// read reports what comes in until the stream ends.
func (l *link) read() {
	for {
		l.waitForRoom()
		var a incoming
		if err := l.s.RecvMsg(&a); err != nil {
			l.end(ending{clean: errors.Is(err, io.EOF), text: brief(err)})
			return
		}
		if l.annotate != nil {
			l.annotate(&a.msg)
		}
		l.mu.Lock()
		l.in.last = time.Now()
		report := a.msg.Type != msgPing && !l.closed
		if report {
			l.in.waiting = append(l.in.waiting, a.size)
		}
		l.mu.Unlock()
		l.reportSilence(false)
		if report && l.onReceived != nil {
			l.onReceived()
		}
		if report {
			l.post(rendezvous.Received{Conn: l.id, Msg: a.msg}, false)
		}
	}
}

// waitForRoom returns when another message may come in, or when none is
// reported any more.
func (l *link) waitForRoom() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for !l.closed && l.in.full() {
		l.in.held = true
		l.room.Wait()
	}
	if l.in.held {
		l.in.held, l.in.last = false, time.Now()
	}
}

// handled makes room, because the oldest message that was reported has been handled.
func (l *link) handled() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.in.waiting) > 0 {
		l.in.waiting = l.in.waiting[1:]
	}
	l.room.Broadcast()
}

// write sends what is queued, and closes closing once this side has closed the
// stream and the queue is empty.
func (l *link) write(closing chan<- struct{}) {
	for range l.out.more {
		for {
			l.mu.Lock()
			batch, closed := l.out.queue, l.closed
			l.out.queue = nil
			l.mu.Unlock()
			for _, m := range batch {
				l.setSending(time.Now())
				err := l.s.SendMsg(m)
				l.setSending(time.Time{})
				if err != nil {
					if s, ok := status.FromError(err); ok && s.Code() == codes.ResourceExhausted {
						l.end(ending{text: "a message is too large: " + brief(err)})
					}
					return // otherwise the reader gets the reason
				}
			}
			if len(batch) == 0 {
				if closed {
					close(closing)
					return
				}
				break
			}
		}
	}
}

func (l *link) setSending(since time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.out.since = since
}

// gaveUp is the code with which a server says that it ended a stream because the other
// side was silent.
const gaveUp = codes.DeadlineExceeded

// brief removes gRPC's wrapping from an error and says it in words that need no
// knowledge of gRPC. On the two sides of a connection that breaks, gRPC says "context
// canceled" and "error reading from server: EOF".
func brief(err error) string {
	if errors.Is(err, io.EOF) {
		return rendezvous.ConnectionEnded
	}
	text := err.Error()
	s, ok := status.FromError(err)
	if ok {
		text = s.Message()
	}
	switch {
	case ok && s.Code() == gaveUp:
		return rendezvous.GaveUp + text
	case errors.Is(err, context.Canceled), ok && s.Code() == codes.Canceled, strings.HasSuffix(text, "EOF"):
		return rendezvous.ConnectionEnded
	case strings.HasSuffix(text, syscall.ECONNRESET.Error()):
		return "the connection was reset"
	}
	return text
}
