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

// link is one stream: a queue that never blocks its sender, a writer, and a
// reader that stops while too much of what it read waits to be handled.
type link struct {
	p  *Plane
	id rendezvous.Conn
	s  stream

	nonce   string                    // of the other side, for this side's hello; "" where it has none
	look    func(*rendezvous.Message) // sees each message that comes in, first; nil: nothing does
	greeted func()                    // called after each message that came in; nil: nobody wants to know

	mu      sync.Mutex
	queue   []*letter
	last    time.Time // of the latest message that came in
	sending time.Time // since when one message has been waiting to leave, zero: none
	closed  bool      // by this side: nothing more is reported
	waiting []int     // sizes of the messages that were reported and not handled
	held    bool      // the reader waits for room
	hushed  bool      // reported as that
	room    *sync.Cond

	report sync.Mutex // held while something is posted
	over   bool       // Closed was posted, or never will be

	more  chan struct{} // the queue has something, or closed changed
	ended chan ending   // the first reason to end
}

// ending is why a stream ended.
type ending struct {
	clean, silent bool
	text          string
}

func newLink(p *Plane, id rendezvous.Conn, s stream) *link {
	l := &link{p: p, id: id, s: s, last: time.Now(), more: make(chan struct{}, 1), ended: make(chan ending, 1)}
	l.room = sync.NewCond(&l.mu)
	return l
}

// state is when the peer was last heard, and since when it has not taken a
// message. Who is not listened to is not silent.
func (l *link) state(now time.Time) (heard, stuck time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held {
		l.last = now
	}
	return l.last, l.sending
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

// hush reports that nothing comes in, or that something does again.
func (l *link) hush(on bool) {
	l.mu.Lock()
	changed := l.hushed != on && !l.closed
	l.hushed = on
	l.mu.Unlock()
	if changed {
		l.post(rendezvous.Hushed{Conn: l.id, On: on}, false)
	}
}

func (l *link) wake() {
	select {
	case l.more <- struct{}{}:
	default:
	}
}

func (l *link) send(m *letter) {
	l.mu.Lock()
	full := len(l.queue) >= maxQueued
	if !l.closed && !full {
		l.queue = append(l.queue, m)
	}
	l.mu.Unlock()
	if full {
		l.end(ending{silent: true, text: "it does not take its messages"})
	}
	l.wake()
}

func (l *link) close() {
	l.mu.Lock()
	l.closed = true
	l.room.Broadcast()
	l.mu.Unlock()
	l.wake()
}

// end ends the stream at once; only the first reason counts.
func (l *link) end(e ending) {
	select {
	case l.ended <- e:
	default:
	}
}

// run moves messages until the stream ends and reports that. closeSend ends
// this side's direction (nil on a server: returning does it).
func (l *link) run(ctx context.Context, closeSend func() error) error {
	go l.read() // ends with the stream, which ends when run returns
	closing := make(chan struct{})
	go l.write(closing)
	var e ending
	select {
	case e = <-l.ended:
	case <-ctx.Done():
		e = ending{text: rendezvous.ConnectionEnded}
		select { // the reader knows better why
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
	quiet := l.closed
	l.closed = true
	l.room.Broadcast()
	l.mu.Unlock()
	l.wake()
	if !quiet {
		if l.p.wasAway(time.Now()) { // what ended meanwhile proves nothing
			e.clean, e.silent = false, true
			e.text += "; this agent itself did not run for a while"
		}
		l.post(rendezvous.Closed{Conn: l.id, Clean: e.clean, Silent: e.silent, Text: e.text}, true)
	}
	if e.clean || quiet {
		return nil
	}
	return errors.New(e.text)
}

// write sends what is queued, and closes closing once this side has closed the
// stream and the queue is empty.
func (l *link) write(closing chan<- struct{}) {
	for range l.more {
		for {
			l.mu.Lock()
			batch, closed := l.queue, l.closed
			l.queue = nil
			l.mu.Unlock()
			for _, m := range batch {
				l.sends(time.Now())
				err := l.s.SendMsg(m)
				l.sends(time.Time{})
				if err != nil {
					if s, ok := status.FromError(err); ok && s.Code() == codes.ResourceExhausted {
						l.end(ending{text: "a message is too large: " + brief(err)})
					}
					return // else the reader learns why
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

func (l *link) sends(since time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sending = since
}

// brief is the cause inside gRPC's wrapping, in words that tell something to who
// does not know gRPC: on the two sides of a connection that breaks it says
// "context canceled" and "error reading from server: EOF".
func brief(err error) string {
	if errors.Is(err, io.EOF) {
		return "closed"
	}
	text := err.Error()
	s, ok := status.FromError(err)
	if ok {
		text = s.Message()
	}
	switch {
	case errors.Is(err, context.Canceled), ok && s.Code() == codes.Canceled, strings.HasSuffix(text, "EOF"):
		return rendezvous.ConnectionEnded
	case strings.HasSuffix(text, syscall.ECONNRESET.Error()):
		return "the connection was reset"
	}
	return text
}
