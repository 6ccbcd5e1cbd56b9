// Package logs handles the output of workers: it passes output through, redirects it
// to files, shows it with a prefix, and keeps its last lines for the report. It
// makes the files that a child gets as standard output and standard error, and
// copies the output from their other ends. It does not know which programs run.
//
// Invariants:
//
//   - A child inherits a stream that needs no copy: no goroutine, no delay.
//   - Output that is passed through is passed at once and byte for byte.
//   - One write to the console stays in one piece beside gorun's other writes.
//     Beside other processes that write to the same pipe, each line of at most
//     4096 bytes (PIPE_BUF) does.
//   - The child's ends are in blocking mode, as every program expects.
//   - Memory is bounded, whatever a worker prints.
//   - The end of standard error is known for every worker, however it is
//     redirected.
//   - A closed console costs output on the console and nothing else. No call waits
//     longer than its context (and a quarter of a second) for a console, or for a
//     descendant of the worker that keeps the output open.
//
// The flags and the folders are torchrun's (-r, -t, --log-dir).
package logs
