// Package meet brings a node together with the other nodes of its job. Open
// turns the network part of a Spec into a Session: the node with its addresses,
// the streams to other nodes, the fence, and the store of this node's workers.
//
// Invariants: a port is bound before it is announced; every port but the one that
// the user named lies within Network.Ports; a Session does nothing until Run, and
// Run returns after everything that it started has ended; each failure of a part is
// reported at once, and the other parts go on, so that the other nodes learn of it.
package meet
