// Package tcp sends messages between the ranks of a world over TCP. A pair of ranks has
// one connection (a lane) for messages of Post and for control, and one for the
// collectives of each communicator, made when they are first needed.
//
// Invariants: a lane counts only after a handshake in which each side proves the world's
// token to the other. Any other program loses its connection, and uses one of
// maxHandshakes slots for at most handshakeTime. Nothing waits in front of a frame that
// somebody else needs: the lane for messages has a reader that never stops, and a lane
// for collectives carries one communicator, whose calls are in one order. Breaking the
// mesh closes every lane, so no call blocks after it. Close waits for all goroutines.
package tcp
