package tcp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gorun/gorun/worker/collective"
)

const (
	// eagerMax is the longest message of Post that is sent before the receiver is ready,
	// in bytes. The receiver keeps it if it comes too early.
	eagerMax = 64 << 10
	// eagerRoom bounds the eager messages to one rank that it has not received yet; beyond
	// it messages wait for the receiver. eagerCost is added to each message's length.
	eagerRoom = 1 << 20
	eagerCost = 64
	// ackFrom is how many bytes a receiver has taken before it says so.
	ackFrom = eagerRoom / 4
	// unblockTime is how long a rank waits in a long send before it takes a long message that
	// it does not want yet; see unblock.
	unblockTime = 100 * time.Millisecond
	// pieceSize is how much memory such a message gets at a time, as its bytes come.
	pieceSize = 1 << 20
)

// box matches the messages of Post with their receivers. The messages between two ranks
// with one tag are numbered on both sides, so that each has exactly one counterpart.
type box struct {
	m *Mesh

	mu      sync.Mutex
	posted  map[key]*op      // receives that wait for their message
	waiting map[key]*op      // sends that wait for the receiver
	early   map[key]*arrival // messages that came before their receiver
	credit  map[int]*credit  // by peer
	spare   []*arrival       // whose message has its receiver; at most maxSpare
	stuck   stuck

	failed atomic.Int64 // sends that have failed, and nobody has seen that yet
}

// stuck are the goroutines that wait in a send of a long message.
type stuck struct {
	count int
	timer *time.Timer
}

// key names a message; peer is the rank at the other end, in the world.
type key struct {
	comm uint64
	peer int
	tag  int32
	seq  uint64
}

// maxSpare is how many arrivals are kept for later messages, with at most eagerMax bytes.
const maxSpare = 16

// arrival is a message that came before its receiver.
type arrival struct {
	header header
	data   []byte
	state  arrivalState
}

// arrivalState says how much of a message has come.
type arrivalState uint8

const (
	arrivalWhole   arrivalState = iota
	arrivalOffered              // a frameReady; there are no data
	arrivalCleared              // the data come, because unblock has asked for them
)

// credit counts the traffic with one peer.
type credit struct {
	unacked  int    // eager bytes sent, and not known to be taken
	taken    int    // eager bytes received and taken since the last ack
	sent     uint64 // messages
	received uint64 // messages that have their receiver
	closed   bool   // the peer has closed
	theirs   uint64 // what the peer had received then
}

// op is the engine's part of a collective.Message.
type op struct {
	call collective.Call
	peer int // in the world
	buf  []byte
	done chan error
	// failed counts sends whose error nobody has seen; nil: the op is a receive.
	failed *atomic.Int64
}

// end gives the op's result to Wait. An op ends once, since whoever ends it has taken it
// from box or from a lane's queue.
func (o *op) end(err error) {
	if o == nil {
		return
	}
	if err != nil && o.failed != nil {
		o.failed.Add(1)
	}
	o.done <- err
}

// result returns what a Wait has got from done.
func (o *op) result(err error) error {
	if err != nil && o.failed != nil {
		o.failed.Add(-1)
	}
	return err
}

func (o *op) key() key { return key{o.call.Comm, o.peer, o.call.Tag, o.call.Seq} }

func keyOf(h header, peer int) key { return key{h.call.Comm, peer, h.call.Tag, h.call.Seq} }

func newBox(m *Mesh) box {
	return box{m: m, posted: map[key]*op{}, waiting: map[key]*op{}, early: map[key]*arrival{}, credit: map[int]*credit{}}
}

// post starts msg, whose peer is rank peer of the world.
func (b *box) post(msg *collective.Message, peer int) {
	o, ok := msg.State.(*op)
	if !ok {
		o = &op{done: make(chan error, 1)}
		msg.State = o
	}
	o.call, o.peer, o.buf = msg.Call, peer, msg.Buf.Data
	// msg and o may have ended, and be used again, once they are posted.
	k, send := o.key(), msg.Send
	o.failed = nil
	if send {
		o.failed = &b.failed
		b.mu.Lock()
		b.creditOf(peer).sent++
		b.mu.Unlock()
	}
	l, err := b.m.ready(laneID{rank: peer})
	switch {
	case err != nil:
		o.end(err)
	case l == nil: // it takes long to connect
		ops := b.posted
		if send {
			ops = b.waiting
		}
		if !b.add(ops, o) {
			return
		}
		b.m.wg.Go(func() {
			l, err := b.m.lane(b.m.life, laneID{rank: peer})
			switch {
			case err != nil:
				b.m.failure(err) // ends all that waits
			case send:
				if o := b.take(b.waiting, k); o != nil {
					b.send(l, o)
				}
			default:
				b.receive(l, k)
			}
		})
	case send:
		b.send(l, o)
	case b.add(b.posted, o):
		b.receive(l, k)
	}
}

// add puts o into one of the maps, or ends it if the mesh has ended.
func (b *box) add(to map[key]*op, o *op) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.m.life.Err() != nil {
		o.end(context.Cause(b.m.life))
		return false
	}
	to[o.key()] = o
	return true
}

// send sends o's message, or tells the receiver that it is ready.
func (b *box) send(l *lane, o *op) {
	if cost := len(o.buf) + eagerCost; len(o.buf) <= eagerMax {
		b.mu.Lock()
		c := b.creditOf(o.peer)
		eager := c.unacked+cost <= eagerRoom
		if eager {
			c.unacked += cost
		}
		b.mu.Unlock()
		if eager {
			l.send(header{frameEager, o.call, uint64(len(o.buf))}, o.buf, o)
			return
		}
	}
	h := header{frameReady, o.call, uint64(len(o.buf))}
	if b.add(b.waiting, o) {
		l.send(h, nil, nil)
		b.checkPeer(l)
	}
}

// creditOf returns the credit of a peer; b.mu is held.
func (b *box) creditOf(peer int) *credit {
	c := b.credit[peer]
	if c == nil {
		c = &credit{}
		b.credit[peer] = c
	}
	return c
}

// receive looks for the message of a posted receive among those that came early.
func (b *box) receive(l *lane, k key) {
	defer b.checkPeer(l)
	b.mu.Lock()
	a, o := b.early[k], b.posted[k]
	if a == nil || o == nil || a.state == arrivalCleared {
		b.mu.Unlock()
		return
	}
	delete(b.early, k)
	b.creditOf(k.peer).received++
	if h := a.header; a.state == arrivalOffered {
		b.release(a)
		b.mu.Unlock() // o stays posted until its data comes
		l.send(header{frame: frameClear, call: h.call}, nil, nil)
		return
	}
	delete(b.posted, k)
	b.mu.Unlock()
	err := check(b.m, l, a.header, o)
	if err != nil {
		err = b.m.failure(err)
	} else {
		copy(o.buf, a.data)
		if a.header.frame == frameEager {
			b.taken(l, len(a.data))
		}
	}
	b.mu.Lock()
	b.release(a)
	b.mu.Unlock()
	o.end(err)
}

// newArrival returns a spare arrival, or a new one; b.mu is held.
func (b *box) newArrival() *arrival {
	n := len(b.spare)
	if n == 0 {
		return &arrival{}
	}
	a := b.spare[n-1]
	b.spare = b.spare[:n-1]
	return a
}

// release keeps a, whose message has its receiver; b.mu is held.
func (b *box) release(a *arrival) {
	if len(b.spare) < maxSpare && cap(a.data) <= eagerMax {
		b.spare = append(b.spare, a)
	}
}

// check compares a message with its receiver.
func check(m *Mesh, l *lane, h header, o *op) error {
	if h.call != o.call {
		return &collective.MismatchError{Rank: m.cfg.Rank, Mine: o.call, Peer: l.id.rank, Theirs: h.call}
	}
	return nil
}

// taken counts an eager message of n bytes that has its receiver, and tells the sender
// from time to time.
func (b *box) taken(l *lane, n int) {
	b.mu.Lock()
	c := b.creditOf(l.id.rank)
	c.taken += n + eagerCost
	var all int
	if c.taken >= ackFrom {
		all, c.taken = c.taken, 0
	}
	b.mu.Unlock()
	if all > 0 {
		l.send(header{frame: frameAck, call: collective.Call{Count: uint64(all)}}, nil, nil)
	}
}

// read reads the frames of a lane of messages until it ends.
func (l *lane) readMessages() {
	defer l.close()
	for {
		h, err := l.read()
		if err == nil {
			err = l.handle(h)
		}
		if err == nil {
			continue
		}
		if l.err == nil {
			l.err = err
		}
		close(l.done)
		l.m.box.checkPeer(l)
		return
	}
}

// handle handles one frame of a lane of messages. The error ends the lane.
func (l *lane) handle(h header) error {
	b := &l.m.box
	switch h.frame {
	case frameEager, frameReady:
		return b.arrived(l, h)
	case frameClear:
		b.mu.Lock()
		k := keyOf(h, l.id.rank)
		o := b.waiting[k]
		delete(b.waiting, k)
		b.mu.Unlock()
		if o != nil {
			l.send(header{frameData, o.call, uint64(len(o.buf))}, o.buf, o)
		}
	case frameData:
		o := b.takeCleared(keyOf(h, l.id.rank))
		if o == nil {
			return b.fill(l, h)
		}
		err := l.fill(h, &o.call, o.buf)
		if err != nil {
			l.err = err
			err = l.m.failure(err)
		}
		o.end(err)
		return err
	case frameAck:
		b.mu.Lock()
		c := b.creditOf(l.id.rank)
		c.unacked -= int(min(h.call.Count, uint64(c.unacked)))
		b.mu.Unlock()
	case frameWhere:
		l.m.where.answer(l, h)
	case frameHere:
		l.m.where.answered(l.id.rank, h)
	case frameBye:
		b.mu.Lock()
		c := b.creditOf(l.id.rank)
		c.closed, c.theirs = true, h.call.Count
		b.mu.Unlock()
		l.err = &collective.PeerError{Rank: l.id.rank, Err: errors.New("has closed its communicator"), Closed: true}
		for _, other := range l.m.lanesOf(l.id.rank) {
			other.finish(l.err)
		}
	case frameBroken:
		reason := make([]byte, h.length)
		if _, err := io.ReadFull(l.r, reason); err != nil {
			reason = []byte("no reason given")
		}
		l.err = l.m.brokenError(h, l.id.rank, reason)
		// Ranks that wait for this rank must get the reason, even if this rank waits for
		// nothing now.
		l.m.Break(l.err)
		return l.err
	default:
		return errUnexpected(l)
	}
	return nil
}

func errUnexpected(l *lane) error {
	return &collective.PeerError{Rank: l.id.rank, Err: errNotMessage}
}

// arrived gives a message to its receiver, or keeps it.
func (b *box) arrived(l *lane, h header) error {
	k := keyOf(h, l.id.rank)
	b.mu.Lock()
	o := b.posted[k]
	if o != nil {
		b.creditOf(k.peer).received++
	}
	if o != nil && (h.frame == frameEager || h.call != o.call) {
		delete(b.posted, k)
	} else if o == nil {
		if b.early[k] != nil {
			b.mu.Unlock()
			return errUnexpected(l)
		}
		if h.frame == frameReady {
			a := b.newArrival()
			a.header, a.data, a.state = h, a.data[:0], arrivalOffered
			b.early[k] = a
			b.mu.Unlock()
			return nil
		}
	}
	b.mu.Unlock()
	switch {
	case o != nil && h.frame == frameReady && h.call == o.call:
		l.send(header{frame: frameClear, call: h.call}, nil, nil)
		return nil
	case o != nil:
		err := l.fill(h, &o.call, o.buf)
		if err == nil {
			b.taken(l, len(o.buf))
		} else {
			l.err = err
			err = l.m.failure(err) // before the connection closes, so that the peer gets the reason
		}
		o.end(err)
		return err
	}
	b.mu.Lock()
	a := b.newArrival()
	b.mu.Unlock()
	a.header, a.data, a.state = h, slices.Grow(a.data[:0], int(h.length))[:h.length], arrivalWhole
	if _, err := io.ReadFull(l.r, a.data); err != nil {
		return l.lost(err)
	}
	b.mu.Lock()
	b.early[k] = a
	b.mu.Unlock()
	b.receive(l, k) // its receiver may have come meanwhile
	return nil
}

// fill reads the data of a message that unblock has asked for.
func (b *box) fill(l *lane, h header) error {
	k := keyOf(h, l.id.rank)
	b.mu.Lock()
	a := b.early[k]
	b.mu.Unlock()
	if a == nil || a.state != arrivalCleared || h.call != a.header.call || h.length != a.header.length {
		return errUnexpected(l)
	}
	for uint64(len(a.data)) < h.length { // only this goroutine uses the data of a cleared arrival
		had := len(a.data)
		n := int(min(h.length-uint64(had), pieceSize))
		a.data = slices.Grow(a.data, n)[:had+n]
		if _, err := io.ReadFull(l.r, a.data[had:]); err != nil {
			return l.lost(err)
		}
	}
	b.mu.Lock()
	a.state = arrivalWhole
	b.mu.Unlock()
	b.receive(l, k)
	return nil
}

// countStuck counts the goroutines that wait in a send of a long message.
func (b *box) countStuck(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.stuck.count += n
	switch {
	case b.stuck.count == 0:
		b.stuck.timer.Stop()
	case b.stuck.count != n:
	case b.stuck.timer == nil:
		b.stuck.timer = time.AfterFunc(unblockTime, b.unblock)
	default:
		b.stuck.timer.Reset(unblockTime)
	}
}

// unblock takes one long message that this rank does not want yet, of a higher rank, if
// this rank has waited for a while in a send of its own. Ranks that all send first would
// wait for each other for ever.
func (b *box) unblock() {
	peer, call, ok := b.clearOne()
	if !ok {
		return
	}
	if l, err := b.m.ready(laneID{rank: peer}); err == nil && l != nil { // the lane that brought the offer
		l.send(header{frame: frameClear, call: call}, nil, nil)
	}
}

// clearOne chooses the message for unblock, which is called again later.
func (b *box) clearOne() (peer int, call collective.Call, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.stuck.count == 0 || b.m.life.Err() != nil {
		return 0, call, false
	}
	b.stuck.timer.Reset(unblockTime)
	for k, a := range b.early {
		if a.state == arrivalOffered && k.peer > b.m.cfg.Rank {
			a.state = arrivalCleared
			return k.peer, a.header.call, true
		}
	}
	return 0, call, false
}

// take removes and returns the op with this key.
func (b *box) take(from map[key]*op, k key) *op {
	b.mu.Lock()
	defer b.mu.Unlock()
	o := from[k]
	delete(from, k)
	return o
}

// takeCleared removes and returns the receive for data that comes. If unblock has asked for
// the data, the receiver came after that, and the message is not early any more.
func (b *box) takeCleared(k key) *op {
	b.mu.Lock()
	defer b.mu.Unlock()
	o := b.posted[k]
	if o == nil {
		return nil
	}
	delete(b.posted, k)
	if a := b.early[k]; a != nil {
		delete(b.early, k)
		b.creditOf(k.peer).received++
		b.release(a)
	}
	return o
}

// checkPeer breaks the mesh if the lane has ended because its peer is gone, or if a message
// of a peer that has closed is awaited. It runs when the lane ends and after each post.
func (b *box) checkPeer(l *lane) {
	select {
	case <-l.done:
	default:
		return
	}
	of := func(o *op) bool { return o.peer == l.id.rank }
	peer, ok := l.err.(*collective.PeerError)
	if ok && peer.Closed && !b.awaits(of) {
		return
	}
	l.m.Break(l.err)
	b.fail(of, context.Cause(l.m.life))
}

// awaits reports whether one of the ops that which chooses waits for a peer.
func (b *box) awaits(which func(*op) bool) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, ops := range []map[key]*op{b.posted, b.waiting} {
		for _, o := range ops {
			if which(o) {
				return true
			}
		}
	}
	return false
}

// fail ends the ops that which chooses, among those that wait for a peer.
func (b *box) fail(which func(*op) bool, why error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, ops := range []map[key]*op{b.posted, b.waiting} {
		for k, o := range ops {
			if which(o) {
				delete(ops, k)
				o.end(why)
			}
		}
	}
}

// unpaired returns an error that names messages that were sent and never received.
func (b *box) unpaired() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	var errs []error
	for k, a := range b.early {
		errs = append(errs, fmt.Errorf("rank %d has closed without receiving what rank %d sent: %v", b.m.cfg.Rank, k.peer, collective.Message{Call: a.header.call, Send: true, Peer: -1}))
	}
	own := map[int]uint64{}
	for k, o := range b.waiting {
		own[k.peer]++
		errs = append(errs, fmt.Errorf("rank %d has closed before rank %d received what it sent: %v", b.m.cfg.Rank, k.peer, collective.Message{Call: o.call, Send: true, Peer: -1}))
	}
	for peer, c := range b.credit {
		if c.closed && c.sent > c.theirs+own[peer] {
			errs = append(errs, fmt.Errorf("rank %d has closed without receiving %d of the messages that rank %d sent it", peer, c.sent-c.theirs-own[peer], b.m.cfg.Rank))
		}
	}
	return errors.Join(errs...)
}

// receivedFrom returns how many messages of a peer have had their receiver.
func (b *box) receivedFrom(peer int) uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.creditOf(peer).received
}
