// Package gossip finds the agents of a run with hashicorp/memberlist: the
// backend that needs nothing installed. An agent whose address is one of the
// endpoints listens there; the others ask an endpoint and learn of everyone. Of
// many agents, those that serve no endpoint know only some: were everyone to know
// everyone, a thousand would be busy with nothing but each other.
//
// It answers only who is there. Its view is a hint: it may be late, differ
// between agents and name dead ones. Nothing that must be unique is decided
// here, and no start or abort waits for it.
package gossip
