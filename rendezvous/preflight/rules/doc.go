// Package rules holds the checks of a fleet, one file a family: what differs
// between nodes or is wrong on one node, what it leads to, and what to do about
// it.
//
// Invariants: a rule is a pure function of the fleet and costs at most O(nodes
// log nodes). A rule leaves out nodes whose facts it needs and that are
// unknown. Ids and names never change. docs/checks.md is written from All.
package rules
