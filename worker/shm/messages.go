package shm

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"sync"
	"time"

	"github.com/gorun/gorun/worker/board"
	"github.com/gorun/gorun/worker/collective"
)

const (
	// eagerMost is the longest message that is sent before the receiver is ready, in bytes.
	eagerMost = 64 << 10
	// eagerRoom bounds the eager messages to one rank that it has not received yet; beyond it
	// messages wait for the receiver. eagerCost is added to each message's length.
	eagerRoom = 1 << 20
	eagerCost = 64
	// copyStep is how much of a message in shared memory is copied at a time.
	copyStep = 1 << 20
	// maxEarly bounds the messages that wait for their receivers.
	maxEarly = 1 << 20
	// unblockTime is how long a rank waits in a big send before it takes a big message that
	// it does not want yet; see unblock.
	unblockTime = 100 * time.Millisecond
)

// Messages moves the messages between this rank and the others of its node, of all
// communicators, through rings: one for each ordered pair of ranks.
//
// A message that is not long goes into the ring at once. The receiver keeps it if it comes
// too early. A long one waits until its receiver is there, and then goes through the ring
// piece by piece; from memory of Alloc the receiver copies it. So a ring always empties,
// whatever the receivers wait for.
//
// A goroutine that waits for a message polls: it moves all messages of the rank. While
// none does, Run moves them when another rank cannot go on.
type Messages struct {
	node   *Node
	waiter *board.Waiter // of the goroutine that has the turn
	turn   chan struct{} // has a token while a goroutine polls
	closed chan struct{}

	mu      sync.Mutex // guards what follows
	peers   []peerRings
	posted  map[key]*op      // receives that wait for their message, or for its next piece
	offered map[key]*op      // sends that wait for their receiver
	early   map[key]*arrival // messages that came before their receiver
	spare   []*arrival       // at most maxSpare
	copies  []*op            // receives that copy from the sender's buffer
	moving  int              // messages that go piece by piece
	stuck   stuck
	end     ending
}

// ending is how messages end all at once.
type ending struct {
	err    error // why every call fails
	failed int   // sends that ended so, and nobody has seen that yet
}

// peerRings is this rank's traffic with another local rank.
type peerRings struct {
	out     ringWriter
	in      ringReader
	control []header // to be written before sends
	sends   []*op    // that have to be written: eager ones, and those whose receiver is ready
	eager   uint64   // bytes of eager messages so far, with eagerCost each
	taken   uint64   // of them, what was known last to have its receiver
}

// stuck are the goroutines that wait in a send of a long message.
type stuck struct {
	count int
	timer *time.Timer
}

// key names a message; peer is the local rank at the other end.
type key struct {
	comm uint64
	peer int
	tag  int32
	seq  uint64
}

// op is one end of a message. It ends once: whoever takes it from its list ends it, and does
// not touch it any more, because it may be used again at once.
type op struct {
	call  collective.Call
	send  bool
	peer  int // local rank
	buf   []byte
	moved int    // bytes of buf that have been written or read
	piece bool   // true: the message goes piece by piece
	from  []byte // what a receive copies
	done  chan error
}

func (o *op) key() key { return key{o.call.Comm, o.peer, o.call.Tag, o.call.Seq} }

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
	arrivalOffered              // the sender waits for its receiver
	arrivalCleared              // it comes piece by piece, because unblock has asked for it
)

const (
	maxSpare = 16
	// maxKept is the most bytes of a spare arrival.
	maxKept = eagerMost
)

// NewMessages returns the messages of a rank, nil if the board has too little memory for
// rings.
func (n *Node) NewMessages() *Messages {
	if n.ring == 0 {
		return nil
	}
	m := &Messages{
		node: n, waiter: n.board.Waiter(n.local, &n.directory(0).stop, nil),
		turn: make(chan struct{}, 1), closed: make(chan struct{}),
		peers:  make([]peerRings, n.board.Ranks()),
		posted: map[key]*op{}, offered: map[key]*op{}, early: map[key]*arrival{},
	}
	for i := range m.peers {
		p := &m.peers[i]
		p.out.ring, p.out.data = ringAt(n.ringOf(n.local, i))
		p.in.ring, p.in.data = ringAt(n.ringOf(i, n.local))
		p.out.at, p.in.at = p.out.tail.Load()&^63, p.in.head.Load()&^63 // as records lie
		p.out.seen = p.out.at - uint64(len(p.out.data))                 // put looks where the reader is
	}
	m.stuck.timer = time.AfterFunc(unblockTime, m.unblock)
	m.stuck.timer.Stop()
	return m
}

// Open tells the other ranks that this rank takes messages here.
func (m *Messages) Open() { m.node.inbox(m.node.local).state.Store(inboxOpen) }

// TakesMessages reports whether a local rank takes messages, or has taken them.
func (n *Node) TakesMessages(local int) bool {
	return n.ring != 0 && n.inbox(local).state.Load() != inboxNone
}

// Post starts one end of a message between this rank and another local one. It does not
// block.
func (m *Messages) Post(msg *collective.Message, local int) {
	o, ok := msg.State.(*op)
	if !ok {
		o = &op{done: make(chan error, 1)}
		msg.State = o
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	*o = op{call: msg.Call, send: msg.Send, peer: local, buf: msg.Buf.Data, done: o.done}
	if m.end.err != nil {
		m.endFailed(o)
		return
	}
	var err error
	closed := m.inboxClosed(local)
	switch {
	case o.send && closed:
		m.offered[o.key()] = o // which ends with the others
	case o.send:
		m.send(o)
		err = m.flush(local)
	default:
		err = m.receive(o)
	}
	if err == nil && closed {
		err = m.exchange(local)
	}
	m.fail(m.blame(local, err))
	m.callRun()
}

// callRun calls Run if there is something to copy and no goroutine polls.
func (m *Messages) callRun() {
	if inbox := m.node.inbox(m.node.local); len(m.copies) > 0 && inbox.polling.Load() == 0 {
		inbox.calls.Advance()
	}
}

// Wait returns when a message that was posted has ended. If ctx ends before, Wait returns
// its cause and the message is still under way.
func (m *Messages) Wait(ctx context.Context, msg *collective.Message) error {
	o := msg.State.(*op)
	err, ended := m.wait(ctx, o)
	if ended && err != nil && o.send {
		m.mu.Lock()
		m.end.failed--
		m.mu.Unlock()
	}
	return err
}

// wait is Wait; it reports whether o has ended.
func (m *Messages) wait(ctx context.Context, o *op) (err error, ended bool) {
	select {
	case err := <-o.done:
		return err, true
	default:
	}
	if o.send && len(o.buf) > m.eagerMax() {
		m.countStuck(1)
		defer m.countStuck(-1)
	}
	select {
	case err := <-o.done:
		return err, true
	case m.turn <- struct{}{}:
		err, ended := m.poll(ctx, o)
		<-m.turn
		return err, ended
	case <-ctx.Done():
		return context.Cause(ctx), false
	}
}

// poll moves messages until o has ended. This goroutine has the turn.
func (m *Messages) poll(ctx context.Context, o *op) (err error, ended bool) {
	inbox := m.node.inbox(m.node.local)
	inbox.polling.Store(1)
	defer m.stopPolling()
	for {
		news := inbox.news.Load()
		idle, _ := m.move()
		select {
		case err := <-o.done:
			return err, true
		default:
		}
		err := m.waiter.Err()
		if err == nil && idle {
			err = m.waiter.Await(ctx, &inbox.news, news+1)
		}
		switch {
		case errors.Is(err, board.ErrAborted), errors.Is(err, board.ErrStopped):
			m.Fail(err)
		case err != nil:
			return err, false
		}
	}
}

// stopPolling says that this rank does not poll. News that came before another rank could
// read that are handled here.
func (m *Messages) stopPolling() {
	m.node.inbox(m.node.local).polling.Store(0)
	m.move()
}

// Run moves the messages of a rank that does not poll when another rank calls for it. It
// returns after Close, after an abort and after Break.
func (m *Messages) Run() {
	calls := &m.node.inbox(m.node.local).calls
	lazy := m.node.board.LazyWaiter(m.node.local, &m.node.directory(0).stop)
	for {
		seen := calls.Load()
		select {
		case <-m.closed:
			return
		default:
		}
		select {
		case <-m.closed:
			return
		case m.turn <- struct{}{}:
			m.serve()
			<-m.turn
		}
		if err := lazy.Await(context.Background(), calls, seen+1); err != nil {
			m.Fail(err)
			return
		}
	}
}

// serve moves what there is to move, and long messages to their end. This goroutine has
// the turn.
func (m *Messages) serve() {
	inbox := m.node.inbox(m.node.local)
	inbox.polling.Store(1)
	defer m.stopPolling()
	for {
		news := inbox.news.Load()
		idle, moving := m.move()
		if idle && !moving {
			return
		}
		err := m.waiter.Err()
		if err == nil && idle {
			err = m.waiter.Await(context.Background(), &inbox.news, news+1)
		}
		if err != nil {
			m.Fail(err)
		}
	}
}

// move handles the news of other ranks and copies a piece of what lies in shared memory. It
// reports whether it can do nothing more before the next news, and whether long messages
// are under way.
func (m *Messages) move() (idle, moving bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	inbox := m.node.inbox(m.node.local)
	for i := range (len(m.peers) + 63) / 64 {
		if m.end.err != nil || inbox.from[i].Load() == 0 {
			continue
		}
		for set := inbox.from[i].Swap(0); set != 0 && m.end.err == nil; set &= set - 1 {
			if local := 64*i + bits.TrailingZeros64(set); local < len(m.peers) && local != m.node.local {
				m.fail(m.blame(local, m.exchange(local)))
			}
		}
	}
	if len(m.copies) > 0 {
		local := m.copies[0].peer
		m.fail(m.blame(local, m.copyOn(m.copies[0])))
	}
	m.callRun()
	return len(m.copies) == 0, m.moving > 0
}

// exchange reads what another rank has written and writes what there is for it.
func (m *Messages) exchange(local int) error {
	closed := m.inboxClosed(local) // before its ring is read: nothing follows
	if err := m.read(local); err != nil {
		return err
	}
	if closed && m.awaits(local) {
		return &collective.PeerError{Rank: m.rank(local), Closed: true, Err: errors.New("has closed its communicator")}
	}
	return m.flush(local)
}

// read handles all records of a rank that are there now.
func (m *Messages) read(local int) error {
	in := &m.peers[local].in
	end, err := in.end()
	for err == nil && in.at != end {
		h, payload, damage := in.next(end)
		if damage != nil {
			return damage
		}
		err = m.handle(local, &h, payload)
		in.pass(&h)
		if in.full.Load() != 0 && in.full.CompareAndSwap(1, 0) {
			m.tell(local, true)
		}
	}
	return err
}

// handle handles one record.
func (m *Messages) handle(local int, h *header, payload []byte) error {
	k := key{h.call.comm, local, int32(h.call.peers >> 32), h.call.seq}
	switch h.frame {
	case framePad:
		return nil
	case frameEager, frameReady:
		return m.arrived(k, h, payload)
	case frameClear:
		o := m.offered[k]
		if o == nil {
			return errDamaged
		}
		delete(m.offered, k)
		o.piece = true
		m.moving++
		m.peers[local].sends = append(m.peers[local].sends, o)
		return nil
	case frameCopied:
		o := m.offered[k]
		if o == nil {
			return errDamaged
		}
		delete(m.offered, k)
		o.done <- nil
		return nil
	case frameData:
		return m.continued(k, payload)
	}
	return errDamaged
}

// arrived gives a message, or the offer of one, to its receiver, or keeps it.
func (m *Messages) arrived(k key, h *header, payload []byte) error {
	whole := h.frame == frameEager
	if whole && h.length != uint64(len(payload)) || m.early[k] != nil || len(m.early) >= maxEarly {
		return errDamaged
	}
	o := m.posted[k]
	if o == nil {
		a := m.newArrival()
		a.header, a.data, a.state = *h, append(a.data[:0], payload...), arrivalOffered
		if whole {
			a.state = arrivalWhole
		}
		m.early[k] = a
		return nil
	}
	if o.piece {
		return errDamaged
	}
	delete(m.posted, k)
	if err := m.check(o, h); err != nil {
		m.posted[k] = o // which ends with the others
		return err
	}
	if !whole {
		return m.accept(o, h)
	}
	copy(o.buf, payload)
	m.count(k.peer)
	m.take(k.peer, len(payload))
	o.done <- nil
	return nil
}

// continued takes the next piece of a message.
func (m *Messages) continued(k key, payload []byte) error {
	if o := m.posted[k]; o != nil && o.piece && len(payload) <= len(o.buf)-o.moved {
		o.moved += copy(o.buf[o.moved:], payload)
		m.endIfWhole(k, o)
		return nil
	}
	a := m.early[k]
	if a == nil || a.state != arrivalCleared || uint64(len(payload)) > a.header.length-uint64(len(a.data)) {
		return errDamaged
	}
	a.data = append(a.data, payload...)
	if uint64(len(a.data)) == a.header.length {
		a.state = arrivalWhole
		m.moving--
	}
	return nil
}

// endIfWhole ends a receive that has all its pieces.
func (m *Messages) endIfWhole(k key, o *op) {
	if o.moved == len(o.buf) {
		delete(m.posted, k)
		m.moving--
		o.done <- nil
	}
}

// send queues a message, or offers it if it is long or too many are under way.
func (m *Messages) send(o *op) {
	p := &m.peers[o.peer]
	p.out.sent.Store(p.out.sent.Load() + 1)
	if len(o.buf) <= m.eagerMax() {
		cost := uint64(len(o.buf) + eagerCost)
		if p.eager-p.taken+cost > eagerRoom {
			p.taken = min(p.eager, p.out.taken.Load())
		}
		if p.eager-p.taken+cost <= eagerRoom {
			p.eager += cost
			p.sends = append(p.sends, o)
			return
		}
	}
	h := headerOf(frameReady, o)
	if at, ok := m.node.offset(o.buf); ok {
		h.place = uint64(at) + 1
	}
	m.offered[o.key()] = o
	p.control = append(p.control, h)
}

func headerOf(f frame, o *op) header {
	return header{frame: f, call: recordOf(&o.call), length: uint64(len(o.buf))}
}

// eagerMax is the longest message that is sent at once; four fit into a ring.
func (m *Messages) eagerMax() int { return min(eagerMost, m.node.ring/4) }

// receive gives a message that is there already to o, or posts o.
func (m *Messages) receive(o *op) error {
	k := o.key()
	a := m.early[k]
	if a == nil {
		m.posted[k] = o
		return nil
	}
	if err := m.check(o, &a.header); err != nil {
		m.posted[k] = o
		return err
	}
	delete(m.early, k)
	defer m.release(a)
	if a.state == arrivalOffered {
		return m.acceptNow(o, &a.header)
	}
	m.count(k.peer)
	switch a.state {
	case arrivalCleared:
		o.piece, o.moved = true, copy(o.buf, a.data)
		m.posted[k] = o
	case arrivalWhole:
		copy(o.buf, a.data)
		if a.header.frame == frameEager {
			m.take(k.peer, len(a.data))
		}
		o.done <- nil
	}
	return nil
}

// acceptNow accepts a message outside of exchange, which else writes the answer.
func (m *Messages) acceptNow(o *op, h *header) error {
	local := o.peer
	if err := m.accept(o, h); err != nil {
		return err
	}
	return m.flush(local)
}

// accept begins to receive a long message.
func (m *Messages) accept(o *op, h *header) error {
	m.count(o.peer)
	if h.place != 0 {
		memory := m.node.board.Memory()
		at := h.place - 1
		if at > uint64(len(memory)) || uint64(len(o.buf)) > uint64(len(memory))-at {
			m.posted[o.key()] = o
			return errDamaged
		}
		o.from = memory[at:][:len(o.buf)]
		m.copies = append(m.copies, o)
		return nil
	}
	o.piece = true
	m.posted[o.key()] = o
	m.moving++
	p := &m.peers[o.peer]
	p.control = append(p.control, headerOf(frameClear, o))
	return nil
}

// copyOn copies the next piece of a message from where its sender has it.
func (m *Messages) copyOn(o *op) error {
	o.moved += copy(o.buf[o.moved:min(len(o.buf), o.moved+copyStep)], o.from[o.moved:])
	if o.moved < len(o.buf) {
		return nil
	}
	m.copies = slices.Delete(m.copies, 0, 1)
	local := o.peer
	p := &m.peers[local]
	p.control = append(p.control, headerOf(frameCopied, o))
	o.from = nil
	o.done <- nil
	return m.flush(local)
}

// check compares a message with its receiver.
func (m *Messages) check(o *op, h *header) error {
	if h.call != recordOf(&o.call) {
		return &collective.MismatchError{
			Rank: m.rank(m.node.local), Mine: o.call, Peer: m.rank(o.peer), Theirs: h.call.call(),
		}
	}
	if h.length != uint64(len(o.buf)) {
		return errDamaged
	}
	return nil
}

// count counts a message that has its receiver.
func (m *Messages) count(local int) {
	in := &m.peers[local].in
	in.received.Store(in.received.Load() + 1)
}

// take counts the bytes of an eager message that has its receiver.
func (m *Messages) take(local, n int) {
	in := &m.peers[local].in
	in.taken.Store(in.taken.Load() + uint64(n+eagerCost))
}

// flush writes what there is for a rank as far as there is room.
func (m *Messages) flush(local int) error {
	p := &m.peers[local]
	news, urgent, full := false, false, false
	for len(p.control)+len(p.sends) > 0 {
		ok, now, err := m.write(p)
		if err != nil {
			return err
		}
		if ok {
			news, urgent = true, urgent || now
			continue
		}
		if full {
			urgent = true
			break
		}
		full = true
		p.out.full.Store(1) // then it looks again: the reader looks at it after it has made room
	}
	if news || urgent {
		m.tell(local, urgent)
	}
	return nil
}

// write writes the next record for a rank, if there is room, and reports whether the rank
// should look at it soon, so that this rank can go on.
func (m *Messages) write(p *peerRings) (ok, urgent bool, err error) {
	if len(p.control) > 0 {
		h := p.control[0]
		ok, err = p.out.put(h, nil)
		if ok {
			p.control = slices.Delete(p.control, 0, 1)
		}
		return ok, h.frame != frameCopied, err
	}
	o := p.sends[0]
	h, piece := headerOf(frameEager, o), o.buf
	if o.piece {
		h.frame, piece = frameData, o.buf[o.moved:min(len(o.buf), o.moved+m.eagerMax())]
	}
	if ok, err = p.out.put(h, piece); !ok || err != nil {
		return false, false, err
	}
	if o.moved += len(piece); o.moved == len(o.buf) {
		p.sends = slices.Delete(p.sends, 0, 1)
		if o.piece {
			m.moving--
		}
		o.done <- nil
	}
	return true, false, nil
}

// tell wakes a rank that polls, because there is something for it. If that is urgent, it
// calls a rank that does not.
func (m *Messages) tell(local int, urgent bool) {
	inbox, me := m.node.inbox(local), m.node.local
	if bit := uint64(1) << (me % 64); inbox.from[me/64].Or(bit)&bit == 0 {
		inbox.news.Advance()
	}
	if urgent && inbox.polling.Load() == 0 {
		inbox.calls.Advance()
	}
}

func (m *Messages) inboxClosed(local int) bool {
	return m.node.inbox(local).state.Load() == inboxClosed
}

// awaits reports whether something waits for a rank.
func (m *Messages) awaits(local int) bool {
	for _, ops := range []map[key]*op{m.posted, m.offered} {
		for k := range ops {
			if k.peer == local {
				return true
			}
		}
	}
	return len(m.peers[local].sends) > 0
}

// countStuck counts the goroutines that wait in a send of a long message.
func (m *Messages) countStuck(n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stuck.count += n
	switch {
	case m.stuck.count == 0:
		m.stuck.timer.Stop()
	case m.stuck.count == n:
		m.stuck.timer.Reset(unblockTime)
	}
}

// unblock takes one long message that this rank does not want yet, of a higher rank, if
// this rank has waited for a while in a send of its own. Ranks that all send first would
// wait for each other for ever.
func (m *Messages) unblock() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.end.err != nil || m.stuck.count == 0 {
		return
	}
	for k, a := range m.early {
		if a.state != arrivalOffered || k.peer < m.node.local {
			continue
		}
		a.state = arrivalCleared
		m.moving++
		h := a.header
		h.frame, h.place = frameClear, 0
		p := &m.peers[k.peer]
		p.control = append(p.control, h)
		m.fail(m.blame(k.peer, m.flush(k.peer)))
		break
	}
	m.stuck.timer.Reset(unblockTime)
}

// newArrival returns a spare arrival, or a new one.
func (m *Messages) newArrival() *arrival {
	n := len(m.spare)
	if n == 0 {
		return &arrival{}
	}
	a := m.spare[n-1]
	m.spare = m.spare[:n-1]
	return a
}

// release keeps a, whose message has its receiver.
func (m *Messages) release(a *arrival) {
	if len(m.spare) < maxSpare && cap(a.data) <= maxKept {
		m.spare = append(m.spare, a)
	}
}

// rank returns the rank in the world of a local rank.
func (m *Messages) rank(local int) int { return m.node.rank(local) }

// blame says which rank an error of its memory is about.
func (m *Messages) blame(local int, err error) error {
	if err == errDamaged {
		return &collective.PeerError{Rank: m.rank(local), Err: errDamaged}
	}
	return err
}

// Fail ends every message, and every later one, because of err.
func (m *Messages) Fail(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fail(m.reason(err))
}

// reason returns why a wait has ended: another rank's reason, if that stopped it.
func (m *Messages) reason(err error) error {
	if errors.Is(err, board.ErrStopped) {
		return m.node.stopped(m.rank)
	}
	return err
}

// fail is Fail; it does nothing if err is nil or is not the first.
func (m *Messages) fail(err error) {
	if err == nil || m.end.err != nil {
		return
	}
	m.end.err = err
	for _, ops := range []map[key]*op{m.posted, m.offered} {
		for k, o := range ops {
			delete(ops, k)
			m.endFailed(o)
		}
	}
	for i := range m.peers {
		for _, o := range m.peers[i].sends {
			m.endFailed(o)
		}
		m.peers[i].sends = nil
	}
	for _, o := range m.copies {
		m.endFailed(o)
	}
	m.copies, m.moving = nil, 0
	if !errors.Is(err, board.ErrAborted) && !errors.Is(err, errMessagesClosed) {
		m.node.Break(err)
	}
}

// endFailed ends o as all messages end.
func (m *Messages) endFailed(o *op) {
	if o.send {
		m.end.failed++
	}
	o.done <- m.end.err
}

var errMessagesClosed = errors.New("the communicator is closed")

// Close ends the messages of this rank. The error names messages that nobody received.
func (m *Messages) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	select {
	case <-m.closed:
		return nil
	default:
	}
	close(m.closed)
	m.stuck.timer.Stop()
	inbox := m.node.inbox(m.node.local)
	defer inbox.calls.Advance() // Run returns
	m.fail(m.reason(m.waiter.Err()))
	if m.end.err != nil && m.end.failed > 0 {
		return fmt.Errorf("rank %d has closed without waiting for %d sends that failed: %w", m.rank(m.node.local), m.end.failed, m.end.err)
	}
	if m.end.err != nil { // the others have the reason; this rank does not close in order
		return nil
	}
	inbox.state.Store(inboxClosed) // then it reads what was written before another rank saw that
	err := m.unpaired()
	m.fail(errMessagesClosed)
	for local := range m.peers {
		if local != m.node.local {
			m.tell(local, false)
		}
	}
	return err
}

// sent is the sending end of a message, for errors.
func sent(c collective.Call) collective.Message {
	return collective.Message{Call: c, Send: true, Peer: -1}
}

// unpaired returns an error that names messages that were sent and never received.
func (m *Messages) unpaired() error {
	var errs []error
	me := m.rank(m.node.local)
	for local := range m.peers {
		if local == m.node.local {
			continue
		}
		if err := m.read(local); err != nil {
			errs = append(errs, m.blame(local, err))
		}
	}
	for k, a := range m.early {
		errs = append(errs, fmt.Errorf("rank %d has closed without receiving what rank %d sent: %v", me, m.rank(k.peer), sent(a.header.call.call())))
	}
	for local := range m.peers {
		p := &m.peers[local]
		own := 0
		for k, o := range m.offered {
			if k.peer == local {
				own++
				errs = append(errs, fmt.Errorf("rank %d has closed before rank %d received what it sent: %v", me, m.rank(local), sent(o.call)))
			}
		}
		for _, o := range p.sends {
			if !o.piece {
				own++
			}
			errs = append(errs, fmt.Errorf("rank %d has closed before rank %d received what it sent: %v", me, m.rank(local), sent(o.call)))
		}
		lost := p.out.sent.Load() - min(p.out.sent.Load(), p.out.received.Load()+uint64(own))
		if lost > 0 && m.inboxClosed(local) {
			errs = append(errs, fmt.Errorf("rank %d has closed without receiving %d of the messages that rank %d sent it", m.rank(local), lost, me))
		}
	}
	return errors.Join(errs...)
}
