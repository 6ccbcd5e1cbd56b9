package control

import (
	"errors"
	"io"
	"time"

	"github.com/gorun/gorun/rendezvous"
)

// read reports what comes in until the stream ends.
func (l *link) read() {
	for {
		l.waitForRoom()
		var a arrival
		if err := l.s.RecvMsg(&a); err != nil {
			l.end(ending{clean: errors.Is(err, io.EOF), text: brief(err)})
			return
		}
		if l.look != nil {
			l.look(&a.msg)
		}
		l.mu.Lock()
		l.last = time.Now()
		report := a.msg.Type != msgPing && !l.closed
		if report {
			l.waiting = append(l.waiting, a.size)
		}
		l.mu.Unlock()
		l.hush(false)
		if report && l.greeted != nil {
			l.greeted()
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
	for !l.closed && l.full() {
		l.held = true
		l.room.Wait()
	}
	if l.held {
		l.held, l.last = false, time.Now()
	}
}

func (l *link) full() bool {
	size := 0
	for _, n := range l.waiting {
		size += n
	}
	return len(l.waiting) >= maxWaiting || size >= maxWaitingBytes
}

// handled: the oldest message that was reported is out of the way.
func (l *link) handled() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.waiting) > 0 {
		l.waiting = l.waiting[1:]
	}
	l.room.Broadcast()
}
