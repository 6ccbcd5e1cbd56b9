package collective

import (
	"context"
	"fmt"
)

// Transport moves messages between the ranks of one world. Messages from one rank to
// another arrive in the order in which they were sent.
//
// Send and Recv may be called from several goroutines. A failure of either, the end of
// its context included, breaks the transport as Break does, because nothing can follow
// half a message, and other ranks wait for the rest of it.
type Transport interface {
	// Send returns when payload may be changed again. This may be before the other side
	// has it, or only when the other side receives.
	Send(ctx context.Context, to int, call Call, payload []byte) error
	// Recv fills into with the payload of the next message of rank from, which
	// must belong to the same call and be as long as into; otherwise the error
	// is a *MismatchError. When Recv has returned, into is not written any more.
	Recv(ctx context.Context, from int, want Call, into []byte) error
	// Break makes every blocked call and every later call return why, and sends why to
	// the ranks to which this rank is connected. The first reason stays.
	Break(why error)
	// Close sends a bye to the other ranks and releases everything.
	Close() error
}

// MismatchError says that two ranks are in different calls, or in the same call with
// different arguments.
type MismatchError struct {
	Rank   int // this rank
	Mine   Call
	Peer   int // the rank that sent the message
	Theirs Call
}

func (e *MismatchError) Error() string {
	theirs, mine := e.Theirs.String(), e.Mine.String()
	if theirs == mine {
		theirs = fmt.Sprintf("%s, step %d", theirs, e.Theirs.Step)
		mine = fmt.Sprintf("%s, step %d", mine, e.Mine.Step)
	}
	return fmt.Sprintf("ranks do not make the same calls: rank %d is in %s, rank %d is in %s",
		e.Peer, theirs, e.Rank, mine)
}

// PeerError says that rank Rank gave up or cannot be reached any more.
type PeerError struct {
	Rank int
	Err  error // why, as seen here or as the peer reported
}

func (e *PeerError) Error() string { return fmt.Sprintf("rank %d %v", e.Rank, e.Err) }

func (e *PeerError) Unwrap() error { return e.Err }
