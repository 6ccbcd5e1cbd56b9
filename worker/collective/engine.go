package collective

import (
	"context"
	"fmt"
)

// Engine carries out the calls of one communicator. A Group checks the arguments of a
// call, numbers it and hands it to its engine. Messages is the engine over any Transport;
// an engine may also share memory between the ranks of a node.
//
// A failed call breaks the engine as Break does, since nothing can follow half a call and
// other ranks wait for the rest of it. When the context of a call ends, the Group asks
// where the other ranks are and then calls Break.
type Engine interface {
	// Do carries out one collective and returns when its buffers may be used again. Calls
	// of Do come one at a time, in the order of Call.Seq. Do need not watch ctx; if it
	// does, it returns the context's cause.
	Do(ctx context.Context, w *Work) error
	// Post starts one end of a message between two ranks. It does not block. Messages
	// between the same ranks with the same tag match in the order of their posts.
	Post(m *Message)
	// Wait returns when m, which was posted, has ended and its buffer may be used again. If
	// ctx ends before, Wait returns the context's cause, and m is still under way.
	Wait(ctx context.Context, m *Message) error
	// Split returns the engine of a communicator of some of this engine's ranks: rank i of
	// the new one is ranks[i] of this one. This rank is among them.
	Split(ctx context.Context, comm uint64, ranks []int) (Engine, error)
	// Break makes every call, blocked or later, return why, and tells the other ranks. The
	// first reason stays.
	Break(why error)
	// Close ends the engine after the last call. The world's engine tells the other ranks.
	// The error says which messages nobody received.
	Close() error
}

// Work is one collective as an Engine gets it: its arguments agree with each other, and
// Dst and Src do not overlap. Lengths are in elements,
// with n the number of ranks:
//
//	KindAllReduce      Dst holds this rank's operand and the result; Src is empty
//	KindBroadcast      Dst holds root's buffer, everywhere afterwards
//	KindBarrier        no buffers
//	KindReduce         Src of all, Dst at root (elsewhere empty); both Count long
//	KindAllGather      Src is Count long, Dst n·Count
//	KindReduceScatter  Src is n·Count long, Dst Count
//	KindGather         Src is Count long, Dst at root n·Count
//	KindScatter        Src at root n·Count, Dst Count long
//	KindAllToAll       Src and Dst are n·Count long
//	KindAllGatherV     Dst has RecvCounts[i] elements of rank i, in rank order; Count is their sum
//	KindAllToAllV      Src has SendCounts[i] elements for rank i, Dst RecvCounts[i] of it; Count is 0
//	KindReduceScatterV Src has RecvCounts[i] elements for rank i, and Dst may be this rank's of them; Count is their sum
type Work struct {
	Call Call
	// Of is the program's call that this work is a part of; nil: Call is the program's.
	Of         *Call
	Dst, Src   Buffer
	SendCounts []int
	RecvCounts []int
}

// Made returns the call that the program made. The ranks compare it, and errors name it.
func (w *Work) Made() *Call {
	if w.Of != nil {
		return w.Of
	}
	return &w.Call
}

// Message is one end of a message from a rank to another. Its Call has KindSend on both
// ends. The engine that it is posted to owns it until Wait returns.
type Message struct {
	Call Call
	Send bool // false: it receives
	Peer int  // the rank at the other end
	Buf  Buffer

	// State belongs to the engine. An engine may keep its own type there between uses, so
	// that posting the same Message again allocates nothing.
	State any
}

// String returns this end of the message for a person, without its peer if that is negative.
func (m Message) String() string {
	name, direction := "receive", "from"
	if m.Send {
		name, direction = "send", "to"
	}
	s := m.Call.named(name)
	if m.Peer < 0 {
		return s
	}
	return fmt.Sprintf("%s %s rank %d", s, direction, m.Peer)
}

// Positions is where this rank writes what it is doing, for other ranks and the agent to
// read: the node's board. A Group calls Enter and Leave around every call. Both must be
// cheap; they are called from several goroutines if the program does so.
type Positions interface {
	// Enter says that this rank is in call. It waits for rank peer, or for all if peer is -1.
	// send says which end of a message it is, and of a collective that it is asynchronous: the
	// program goes on meanwhile.
	Enter(call *Call, peer int, send bool)
	Leave(call *Call, peer int)
	// Others returns where rank peer is, or all others if peer is -1, as far as it is known,
	// by rank. It returns soon.
	Others(call *Call, peer int) []Position
}

// Position is what is known of one rank's whereabouts.
type Position struct {
	Rank    int  // in the communicator
	World   int  // in the world
	Unknown bool // the rank does not answer, or not in time
	Call    Call // the rank's last call; of kind 0 if there was none
	Inside  bool // the rank is still in Call
	Arrived bool // the rank has come to the call that was asked for, or is past it
	Send    bool // Call is the sending end of a message, to Peer; else, if it is a message, the receiving one
	Peer    int
	Caller  string // file:line that made Call, "" if unknown
}

// text is the call for a person.
func (p *Position) text() string {
	if p.Call.Kind == KindSend {
		return Message{Call: p.Call, Send: p.Send, Peer: p.Peer}.String()
	}
	return p.Call.String()
}

// Below is an engine as the part of another one that passes on what it does not do itself,
// positions included.
type Below struct{ Engine }

// Enter is described at Positions.
func (b Below) Enter(call *Call, peer int, send bool) {
	if p, ok := b.Engine.(Positions); ok {
		p.Enter(call, peer, send)
	}
}

// Leave is described at Positions.
func (b Below) Leave(call *Call, peer int) {
	if p, ok := b.Engine.(Positions); ok {
		p.Leave(call, peer)
	}
}

// Others is described at Positions.
func (b Below) Others(call *Call, peer int) []Position {
	if p, ok := b.Engine.(Positions); ok {
		return p.Others(call, peer)
	}
	return nil
}
