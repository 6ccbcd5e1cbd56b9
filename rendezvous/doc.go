// Package rendezvous brings the agents of one run together.
//
// It holds the domain's words (Node, World, Cause) and the state machine of a round:
// a pure, deterministic step function. Events go in, commands come out, the time is
// an argument; it knows no socket, no process and no clock.
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
// Rounds, seats and workers have a state each, and a transition method that refuses
// what its table does not allow: an internal error, which ends the job.
//
// The coordinator's round. A first coordinator begins with forming, the successor of
// a lost one with recovering. A member that leaves while a world is offered burns the
// round. Every state may end in decided.
//
//	recovering ────────────────────────────────────────┐
//	                                                   ▼
//	forming ─► checking ─► proposing ─► sealing ─► running ─► stopping ─► decided
//	   ▲          │            │           │                     │
//	   └──────────┴────────────┴───────────┴─────────────────────┘
//	        the round is burnt                  another round follows
//
// The coordinator's seat for one node. A seat with a stream that ends becomes absent,
// then missing while the coordinator tries to reach the node.
//
//	without a stream     absent ─► missing ─► lost      (its process has ended)
//	                              absent ◄─► expired   (the fence ended its membership)
//	                              sought ─► lost       (it is called to hear the outcome)
//	                                        left       (it left in order)
//	without a place      clearing ─► waiting
//	in the world         proposed ─► accepted ─► running ─► done ─► stopped
//	                                                └─────────────────┘
//
// A node that comes gets the state clearing while workers of an earlier round live
// there, else waiting; a member that lost its coordinator goes on from there to
// running, done or stopped. After the round, a stopped seat waits for the next one.
//
// The workers of the world on this node (member).
//
//	idle ─► running ─► done
//	  ▲        └────────┴──► stopping
//	  └────────────────────────┘
//
// Packages below it put a Machine to work (drive), find peers (gossip), carry
// messages (control) and serve the workers' key-value store (tcpstore). They
// import this package and never each other.
package rendezvous
