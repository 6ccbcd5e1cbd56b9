// Package memory is a backend within one process, for tests and simulations. A Hub
// stands for the store, a Member for one agent's client, and a Net for the network
// between agents. Under testing/synctest it costs no time.
//
// Invariants: a Hub gives all askers the same answer, and every answer is one step of
// its own; a membership ends when its agent leaves or when it was not confirmed for
// the hub's TTL, by the hub's clock; the agent itself has posted Unconfirmed half a
// TTL before, by its own clock; an agent that is cut off from the hub or the net
// learns nothing of it.
//
// It is harsher than a real backend. An agent that does not lead sees only the agent
// that leads, and a stream that a cut outlasts breaks silently at both ends.
package memory
