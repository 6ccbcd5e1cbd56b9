// Package reach judges the probes between nodes: it puts them into a matrix of
// addresses, explains the failed ones by as few faults as it finds (one address,
// one direction, one network, all), and says each fault in one sentence.
//
// Invariants: a fault explains an attempt only if every attempt that the fault
// covers failed, so one success clears it; a healthy fleet costs one look at each
// probe.
package reach
