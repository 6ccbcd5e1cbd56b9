// Package process owns a tree of processes. It starts them, stops them, reports how
// each ended, and ends everything that they left behind. It does not know why they
// run.
//
// The package rests on two facts of Linux. A child subreaper (prctl(2),
// PR_SET_CHILD_SUBREAPER) becomes the parent of every descendant whose own parent
// has ended, whatever the descendant's session or process group. And until a parent
// has waited for a child, no other process gets the child's pid, nor the number of
// its process group and session.
//
// Invariants:
//   - A [Table] owns every child of this process. A program with an open table
//     starts nothing by other means (os/exec, a C library's fork): the table would
//     collect those exits, and [Table.Stop] would take those processes for
//     leftovers. At most one table is open at a time.
//   - The table waits for a child only under its lock, and sends a signal to a pid
//     or a process group only under the same lock. So a signal never reaches a
//     process that merely got the same number later.
//   - A child of this process that the table did not start is a leftover of a
//     process that it did start, unless the child was there when the table was
//     opened (the tee of "exec gorun > >(tee log)"). The table waits for such
//     inherited children, but never signals them.
//   - A tree ends from its root: when a leftover ends, its children become children
//     of this process, and the end is an event (SIGCHLD). So a search
//     after each end, until no leftover remains, finds all of them, even while they
//     fork.
//   - A process that the kernel is ending with a failure is dying ([Process.Dying]): it
//     runs nothing any more, and how it ends is certain, but its parent cannot wait for it
//     yet. Only Done says that it has ended and that drivers have freed what it had.
//   - A child gets the descriptors of its [Spec] and no others, the default signal
//     dispositions, and the soft limit of open files that this program was started
//     with. Signals that the caller of this program ignored on purpose (nohup's
//     SIGHUP) stay ignored, and blocked signals stay blocked.
package process
