package control

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/gorun/gorun/rendezvous"
	"google.golang.org/grpc/status"
)

// link is one stream: a queue that never blocks its sender, a writer, a reader.
type link struct {
	p  *Plane
	id rendezvous.Conn
	s  stream

	mu     sync.Mutex
	queue  []*rendezvous.Message
	last   time.Time // of the latest message that came in
	closed bool      // by this side: nothing more is reported

	more  chan struct{} // the queue has something, or closed changed
	ended chan ending   // the first reason to end
}

// ending is why a stream ended.
type ending struct {
	clean, silent bool
	text          string
}

func newLink(p *Plane, id rendezvous.Conn, s stream) *link {
	return &link{p: p, id: id, s: s, last: time.Now(), more: make(chan struct{}, 1), ended: make(chan ending, 1)}
}

func (l *link) heard() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last
}

func (l *link) wake() {
	select {
	case l.more <- struct{}{}:
	default:
	}
}

func (l *link) send(m *rendezvous.Message) {
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
		e = ending{text: ctx.Err().Error()}
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
	l.mu.Unlock()
	l.wake()
	if !quiet {
		l.p.opts.Post(rendezvous.Closed{Conn: l.id, Clean: e.clean, Silent: e.silent, Text: e.text})
	}
	if e.clean || quiet {
		return nil
	}
	return errors.New(e.text)
}

func (l *link) read() {
	for {
		var m rendezvous.Message
		if err := l.s.RecvMsg(&m); err != nil {
			l.end(ending{clean: errors.Is(err, io.EOF), text: brief(err)})
			return
		}
		l.mu.Lock()
		l.last = time.Now()
		closed := l.closed
		l.mu.Unlock()
		if m.Type != msgPing && !closed {
			l.p.opts.Post(rendezvous.Received{Conn: l.id, Msg: m})
		}
	}
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
				if err := l.s.SendMsg(m); err != nil {
					return // the reader learns why
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

// brief is the cause inside gRPC's wrapping.
func brief(err error) string {
	if errors.Is(err, io.EOF) {
		return "closed"
	}
	if s, ok := status.FromError(err); ok {
		return s.Message()
	}
	return err.Error()
}
