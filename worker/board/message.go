package board

import "sync/atomic"

// Message is one end of a message between two ranks of this node, as the rank at that end
// says. Kind and Type are the numbers that package collective gives them.
type Message struct {
	Kind, Type uint8
	Site       uint16 // of [Board.Site]; 0: unknown
	Seq        uint64 // number of the call
	Count      uint64 // elements
}

// End names one end of a message.
type End struct {
	Comm uint64 // the communicator: a number that no other one has while the board lives
	Peer int    // local rank at the other end
	Send bool   // the peer receives
	Seq  uint64 // number of the message in its direction between the two ranks
}

// WriteMessage shows the other ranks of the node one end of a message of a local rank. It
// allocates nothing.
func (b *Board) WriteMessage(local int, e End, m Message) {
	p := b.page(local)
	if p == nil {
		return
	}
	b.mu.Lock() // several communicators may have one place
	defer b.mu.Unlock()
	r := &p.messages[e.place()]
	r.id.Store(0)
	r.what.Store(uint64(m.Kind) | uint64(m.Type)<<8 | uint64(m.Site)<<16)
	r.seq.Store(m.Seq)
	r.count.Store(m.Count)
	r.id.Store(e.id())
}

// ReadMessage reads what a local rank has written of one end of a message, false if it has
// not come there, or another message has its place by now. It allocates nothing.
func (b *Board) ReadMessage(local int, e End) (Message, bool) {
	p := b.page(local)
	if p == nil {
		return Message{}, false
	}
	r, id := &p.messages[e.place()], e.id()
	if r.id.Load() != id {
		return Message{}, false
	}
	what := r.what.Load()
	m := Message{Kind: uint8(what), Type: uint8(what >> 8), Site: uint16(what >> 16), Seq: r.seq.Load(), Count: r.count.Load()}
	return m, r.id.Load() == id
}

// Caller returns the place in the source that a local rank has numbered with Site, "" if
// there is none.
func (b *Board) Caller(local int, site uint16) string {
	if p := b.page(local); p != nil {
		return p.site(site)
	}
	return ""
}

// stored is one end of a message on the page of its rank.
type stored struct {
	id    atomic.Uint64 // of the end; 0: it is being written
	what  atomic.Uint64 // kind, type, site
	seq   atomic.Uint64
	count atomic.Uint64
}

// place returns which of a page's places the end has. The last lastMessages of a direction
// have places of their own.
func (e *End) place() uint64 {
	at := 2 * uint64(e.Peer)
	if e.Send {
		at++
	}
	return (at*lastMessages + e.Comm*lastMessages + e.Seq%lastMessages) % maxMessages
}

// id is a hash of e, not 0.
func (e *End) id() uint64 {
	at := 2 * uint64(e.Peer)
	if e.Send {
		at++
	}
	h := uint64(14695981039346656037)
	for _, v := range [...]uint64{e.Comm, at, e.Seq} {
		h = (h ^ v) * 0x9E3779B97F4A7C15
		h ^= h >> 29
	}
	return max(h, 1)
}
