// Package gossip finds the agents of a run with hashicorp/memberlist. It is the
// backend that needs nothing installed. An agent whose address is one of the
// endpoints listens there. The others join at an endpoint and so learn of other agents.
// Among many agents, those that serve no endpoint know only some: if all knew all, a
// thousand agents would spend their time on gossip.
//
// The package answers only which agents are there. Its view is a hint: it may be late,
// differ between agents and name lost ones. Nothing that must be unique is decided
// here, and no start or abort waits for it.
package gossip
