// Package reach checks the probes between nodes. It puts them into a matrix of
// addresses, explains the failed probes by as few faults as it finds (one
// address, one direction, one network, all), and describes each fault in one
// sentence.
//
// Invariants: a fault explains a failed path only if every path that the fault
// covers failed, so one success clears the fault. A healthy fleet costs one
// pass over its probes.
package reach
