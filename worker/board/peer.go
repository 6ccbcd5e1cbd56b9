package board

import "sync/atomic"

// Peer reads the calls that one communicator of another rank enters. The methods of a nil
// Peer find nothing.
type Peer struct {
	l     *line
	comm  uint64 // the communicator
	first uint64 // number on the line before that of the communicator's first call
}

// Peer returns the reader of a local rank's line, nil if there is no such line. place is
// what Line.Place returned there before the first call.
func (b *Board) Peer(local int, place uint64) *Peer {
	p, number := b.page(local), place&0xff
	if p == nil || number == 0 || number > maxLines {
		return nil
	}
	l := &p.lines[number-1]
	return &Peer{l: l, comm: l.comm.Load(), first: place >> 8}
}

// Call returns call n of the communicator, from 1, false if the rank has not entered it or
// has overwritten it, or closed the line and opened it again. It allocates nothing.
func (p *Peer) Call(n uint64) (Call, bool) {
	if p == nil {
		return Call{}, false
	}
	number := p.first + n
	last := p.l.entered.Load()
	if last < number || last-number >= lineCalls-1 {
		return Call{}, false
	}
	r := &p.l.calls[number%lineCalls]
	c, got := r.read()
	return c, got == number && p.l.comm.Load() == p.comm && p.l.entered.Load()-number < lineCalls-1
}

// read returns the call in r and its number. The owner may be writing it.
func (r *record) read() (c Call, number uint64) {
	number = atomic.LoadUint64(&r.number)
	operation, peers := atomic.LoadUint64(&r.operation), atomic.LoadUint64(&r.peers)
	return Call{
		Kind: uint8(operation), Type: uint8(operation >> 8), Op: uint8(operation >> 16),
		Waits: Waits(operation >> 24), Site: uint16(operation >> 32),
		Peer: int32(peers), Tag: int32(peers >> 32),
		Seq: atomic.LoadUint64(&r.seq), Count: atomic.LoadUint64(&r.count),
	}, number
}
