// Package check is an agent's part in the preflight of a world. It gathers the
// facts of this node and answers the coordinator's questions. On the coordinator it
// also compares all nodes and decides whether the world may start.
//
// Package rendezvous/preflight and the packages below it know the facts of a node,
// the rules and the probes. Package rendezvous knows when facts, questions and
// answers travel. Package check connects the two.
//
// Invariants: New starts nothing. Everything that Start, Compare and Answer start
// ends with its context, and the caller's group waits for it. Every Compare and
// every Ask gets exactly one answer, in bounded time. Decide is pure.
package check
