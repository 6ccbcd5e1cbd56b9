// Package memory is a backend within one process, for tests and simulations: a
// Hub takes the part of the store, a Member that of one agent's client, and a Net
// that of the network between agents. Under testing/synctest it costs no time.
//
// Invariants: a Hub's word is the same for everyone who asks it, and every answer
// is one step of its own; a membership ends when its agent leaves or when it was
// not confirmed for the hub's TTL, by the hub's clock, and the agent itself has
// been told of that (Lapsed) half a TTL before, by its own; nobody is told
// anything of the hub or of the net while it is cut off.
//
// It is meaner than it has to be: an agent that does not lead sees nobody but
// the one that does, and a stream that a cut lasts longer than is broken silently
// at both ends.
package memory
