// Package rendezvous brings the agents of one run together.
//
// It holds the domain's words (Node, World, Cause) and the round's state
// machine: a pure, deterministic step function. Events go in, commands come
// out, the time is an argument; it knows no socket, no process and no clock.
//
// Invariants, held by Machine whatever the order of its events:
//
//   - a world starts only after every one of its members has accepted exactly
//     that (term, round, digest); a member accepts at most one world a round;
//   - round numbers only grow; a round whose proposal fails is burnt;
//   - no round starts while a worker of an earlier one may live on a node that
//     answers;
//   - of two parts of a cut network at most one forms the next world.
//
// Packages below it put a Machine to work (drive), find peers (gossip), carry
// messages (control) and serve the workers' key-value store (tcpstore). They
// import this package and never each other.
package rendezvous
