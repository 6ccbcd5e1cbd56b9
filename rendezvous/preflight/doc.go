// Package preflight compares what nodes are and says what would keep them from
// working together, before any worker starts.
//
// Facts are what one agent learnt about its node; packages below this one
// gather them (gather is the sum). A Fleet is the facts of all nodes of a world
// in the order of their group ranks. A Rule is a pure function of a fleet: the
// same facts give the same findings in the same order, whoever asks, so
// findings can be compared, saved and shown on every node alike. What a node
// could not learn is unknown, and an unknown fact is never judged as good or bad.
//
// Invariants: this package reads no file and opens no socket; facts that came
// from a file or the network are bounded by Decode before a rule sees them; a
// rule costs at most O(nodes log nodes).
package preflight
