// Package preflight compares the facts of nodes and says what would keep them
// from working together, before any worker starts.
//
// Facts are what one agent learnt about its node; packages below this package
// gather them (gather calls all of them). A Fleet is the facts of all nodes of
// a world in the order of their group ranks, with the probes between them.
// Compare applies rules to a fleet: package rules has most of them, and package
// reach has the rules about probes.
//
// Invariants: this package reads no file and opens no socket. Decode bounds
// facts that came from a file or the network before a rule sees them. The same
// facts give the same findings in the same order on every node. An unknown fact
// is neither good nor bad.
package preflight
