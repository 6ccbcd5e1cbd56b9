// Package collective has the collective operations of a world of ranks
// (all-reduce, broadcast, barrier, send, receive) over any Transport of messages
// between two ranks.
//
// Invariants: every rank computes the same bits, because each element is reduced either
// in one place, or everywhere by the same operation on the same operands in the same
// order. Every message names the Call that it belongs to, and a receiver in another
// call gets a *MismatchError. A call that fails half-way breaks the transport, which
// sends the reason to the other ranks, so that no rank waits for this rank. Every later
// call fails with the same reason.
package collective
