// Package collective has the collective operations of a world of ranks
// (all-reduce, broadcast, barrier, send, receive) over any Transport that
// carries messages between two ranks.
//
// Invariants: every rank computes the same bits, because each element is either
// reduced in one place or by the same operation on the same operands in the same
// order; every message carries the Call that it belongs to, and a receiver in
// another call gets a *MismatchError; a call that fails half-way breaks the
// transport, which tells the other ranks, so that nobody waits for this one.
// Everything after it fails with the same reason.
package collective
