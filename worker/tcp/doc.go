// Package tcp sends messages between the ranks of a world over TCP. Each pair of ranks
// that exchanges messages has one connection, made when it is first needed.
//
// Invariants: a connection counts only after a handshake that proves the world's token.
// Any other program loses its connection, and uses one of maxHandshakes slots for at most
// handshakeTime. Each connection has one reader, owned by the Mesh;
// Close waits for all readers. Breaking the mesh closes every connection, so no call
// blocks after it.
package tcp
