// Package check is an agent's part in the examination of a world: it gathers the
// facts of this node, answers the coordinator's questions and, at the agent that
// coordinates, compares all nodes and decides.
//
// What nodes are (facts), what is wrong (rules) and who reaches whom (probes)
// are known by rendezvous/preflight and the packages below it; when facts,
// questions and answers travel, by rendezvous. Here they meet.
//
// Invariants: New starts nothing; all that Start, Compare and Answer start ends
// with their context and is waited for by the caller's group; every Compare and
// every Ask is answered exactly once, in bounded time; Decide is pure.
package check
