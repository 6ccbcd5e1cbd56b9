// Package selftest tests the nodes of a job before, or instead of, its program: gorun
// selftest and gorun run --selftest. Each worker of the job is a tester. For each
// rung of a ladder the testers start fresh processes that compute together, from one
// rank alone to all ranks at once, check every value and measure the time. The tester
// of rank 0 conducts: it plans the next rung, reads the results and decides.
//
//   - Ladder is the decision, without processes, network or clock: results of a rung
//     in, the next rung's plan or the verdict out.
//   - Tester carries plans and results through the job's store.
//   - Probe is one process of a rung. Its engine computes on CPUs, or on a GPU through
//     package worker/cuda, which only a gorun that is built with cgo has.
//
// Invariants: a rung begins after every process of the rung before has ended. Every
// process has a deadline and is killed after it. The process of the next rung may start
// its GPU meanwhile, but computes nothing. The first rung that fails ends the
// ladder. A verdict names a node, a rank or a pair only if the results of others
// clear its partners.
package selftest
