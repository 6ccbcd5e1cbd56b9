// Package meet connects a node with the other nodes of its job. Open turns the
// network part of a Spec into a Session: the node with its addresses, the streams
// to other nodes, the fence, and the store of this node's workers.
//
// Invariants: a port is bound before it is announced. Every port except the port
// that the user named is within Network.Ports. A Session does nothing until Run,
// and Run returns after everything that it started has ended. A part that fails is
// reported at once. The other parts continue, so that the other nodes learn of the
// failure.
package meet
