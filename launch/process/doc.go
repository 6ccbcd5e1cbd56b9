// Package process keeps a tree of processes: it starts them, stops them, says
// how each ended, and sees to it that nothing they left behind goes on. Why
// they run is not its business.
//
// It rests on two facts of Linux. A child subreaper (prctl(2),
// PR_SET_CHILD_SUBREAPER) becomes the parent of every descendant whose own
// parent has ended, whatever its session or process group. And until a parent
// has waited for a child, the child's pid, and with it the number of its process
// group and session, is given to nobody else.
//
// Invariants:
//   - A [Table] owns every child of this process. A program that has one open
//     starts nothing by other means (os/exec, a C library's fork): the table
//     would take those exits away, and [Table.Stop] would take those processes
//     for leftovers. At most one table is open at a time.
//   - A child is waited for only under the table's lock, and a signal is sent to
//     a pid or a process group only under the same lock, so it never reaches a
//     process that merely inherited the number.
//   - A child of this process that the table did not start is a leftover of one
//     that it did, unless it was there when the table was opened (the tee of
//     "exec gorun > >(tee log)"): those are waited for, never signalled.
//   - A tree dies from its root: when a leftover ends, its children become ours,
//     and the end is an event (SIGCHLD). Looking again after each end until no
//     leftover remains therefore finds all of them, also while they fork.
//   - A child gets the descriptors of its [Spec] and no others, the handlers'
//     default dispositions, and the soft limit of open files that this program
//     was started with. Signals that the caller of this program ignored on
//     purpose (nohup's SIGHUP) stay ignored, and blocked ones stay blocked.
package process
