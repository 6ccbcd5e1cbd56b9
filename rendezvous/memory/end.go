package memory

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/gorun/gorun/rendezvous"
)

// End is one agent's end of the net. It stands for a control.Plane.
type End struct {
	net  *Net
	addr string
	post func(rendezvous.Event)

	next   rendezvous.Conn
	sides  map[rendezvous.Conn]*streamSide
	open   bool // Serve runs
	closed bool // nothing is reported any more
}

// Attach makes an end that can be reached while Serve runs. post never blocks.
func (n *Net) Attach(addr string, post func(rendezvous.Event)) *End {
	n.mu.Lock()
	defer n.mu.Unlock()
	e := &End{net: n, addr: addr, post: post, sides: map[rendezvous.Conn]*streamSide{}}
	n.ends[addr] = e
	return e
}

// Serve lets others connect until ctx ends, and then ends all streams after what was
// sent on them.
func (e *End) Serve(ctx context.Context) {
	e.net.mu.Lock()
	e.open = !e.closed
	e.net.mu.Unlock()
	<-ctx.Done()
	e.shut(rendezvous.Closed{Clean: true, Text: "closed"})
}

// Kill ends the agent as SIGKILL would.
func (e *End) Kill() { e.shut(rendezvous.Closed{Text: "connection reset by peer"}) }

func (e *End) shut(why rendezvous.Closed) {
	n := e.net
	n.mu.Lock()
	defer n.mu.Unlock()
	if e.closed {
		return
	}
	e.open, e.closed = false, true
	for c := rendezvous.Conn(1); c <= e.next; c++ {
		if h := e.sides[c]; h != nil && !h.over {
			e.endStream(h, why)
		}
	}
}

// endStream ends a stream from this side.
func (e *End) endStream(h *streamSide, why rendezvous.Closed) {
	e.net.end(h)
	why.Conn = h.peer.conn
	e.net.send(h.peer, delivery{event: why, last: true})
}

// Dial opens a stream and reports Dialed or DialFailed.
func (e *End) Dial(ctx context.Context, addr string) {
	n := e.net
	n.mu.Lock()
	defer n.mu.Unlock()
	wait := n.delay(e.addr, addr)
	if n.blocked(e.addr, addr) {
		wait = n.opts.Dial + wait/100 // no two attempts fail at one moment, so that a schedule can be replayed
	}
	time.AfterFunc(wait, func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		to := n.ends[addr]
		switch {
		case e.closed:
		case ctx.Err() != nil:
			e.post(rendezvous.DialFailed{Addr: addr, Text: ctx.Err().Error()})
		case n.blocked(e.addr, addr):
			e.post(rendezvous.DialFailed{Addr: addr, Text: fmt.Sprintf("%s did not answer within %v", addr, n.opts.Dial)})
		case to == nil || !to.open:
			e.post(rendezvous.DialFailed{Addr: addr, Refused: true, Text: addr + ": connection refused"})
		default:
			near, far := e.newSide(), to.newSide()
			near.peer, far.peer, near.known = far, near, true
			e.post(rendezvous.Dialed{Addr: addr, Conn: near.conn})
		}
	})
}

func (e *End) newSide() *streamSide {
	e.next++
	h := &streamSide{end: e, conn: e.next}
	e.sides[e.next] = h
	e.net.sides = append(e.net.sides, h)
	return h
}

// Send puts a message on a stream. The message travels as JSON, as everywhere.
func (e *End) Send(c rendezvous.Conn, msg rendezvous.Message) {
	b, err := json.Marshal(msg)
	var copied rendezvous.Message
	if err == nil {
		err = json.Unmarshal(b, &copied)
	}
	if err != nil {
		panic("memory: a message is always JSON: " + err.Error())
	}
	e.net.mu.Lock()
	defer e.net.mu.Unlock()
	if h := e.sides[c]; h != nil && !h.over {
		e.net.send(h.peer, delivery{event: rendezvous.Received{Conn: h.peer.conn, Msg: copied}})
	}
}

// Handled does nothing, because a test's messages find room.
func (e *End) Handled(rendezvous.Conn) {}

// Close ends a stream after what was sent on it.
func (e *End) Close(c rendezvous.Conn) {
	e.net.mu.Lock()
	defer e.net.mu.Unlock()
	if h := e.sides[c]; h != nil && !h.over {
		e.endStream(h, rendezvous.Closed{Clean: true, Text: "closed"})
	}
}
