// Package route is the transport of ranks of which some share memory: a message between two
// of them goes through that memory, everything else over TCP.
//
// Invariants: both ends of a message choose the same way. It goes through memory if each
// rank is on the other one's board and takes messages there. A rank says that before the
// others can find it, so that a rank that has been found has said it. A Post does not block:
// a message to a rank that has not been found yet waits apart.
package route
