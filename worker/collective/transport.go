package collective

import "context"

// Transport moves messages between the ranks of one communicator. What is Put to a rank
// arrives there in that order, by Get. Messages of Post are apart from it.
//
// Put, Get and Flush are for one goroutine at a time: the running collective. A failure
// of any of them breaks the transport as Break does, because nothing can follow half a
// message, and other ranks wait for the rest of it.
type Transport interface {
	// Put starts sending payload. It does not wait for the receiver. payload must stay as
	// it is until Flush returns.
	Put(to int, call *Call, payload []byte) error
	// Get fills into with the payload of the next message of rank from, which must belong
	// to the same call and be as long as into; otherwise the error is a *MismatchError or
	// a *PeerError.
	Get(from int, call *Call, into []byte) error
	// Flush returns when everything that was Put may be changed.
	Flush() error

	// Post and Wait are those of Engine.
	Post(m *Message)
	Wait(ctx context.Context, m *Message) error

	// Split returns the transport of another communicator, as Engine.Split does.
	Split(comm uint64, ranks []int) (Transport, error)
	// Break makes every blocked call and every later call return why, and sends why to
	// the ranks to which this rank is connected. The first reason stays.
	Break(why error)
	// Close sends a bye to the other ranks and releases everything.
	Close() error
}
