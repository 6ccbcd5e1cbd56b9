// Package store is a client of the key-value store at MASTER_ADDR:MASTER_PORT,
// which speaks the protocol of torch's TCPStore: the dialect that begins with VALIDATE
// (torch 2.1), or the one before it. Workers find each other through it.
//
// Invariants: one request is on the wire at a time. A call whose context ends in the
// middle of a request closes the connection, because its late reply could be taken for
// the next one. Nothing that a server sends makes the client allocate more than
// MaxValue.
package store
