// Package tcp carries messages between the ranks of a world over TCP: one
// connection for each pair of ranks that has something to say to each other,
// made when it is first needed.
//
// Invariants: a connection counts only after a handshake that proves the world's
// token; a stranger, whatever it sends, costs its own connection and at most
// handshakeTime of one of maxStrangers places. Each connection has one reader,
// owned by the Mesh; Close waits for all of them. Breaking the mesh closes every
// connection, so nothing blocks after it.
package tcp
