// Package logs owns what workers print: passed through, redirected to files,
// shown with a prefix, and the end of it kept for the report. It hands out the
// *os.File ends that a child gets as standard output and standard error, and
// takes care of the copying. It does not know what runs, or why.
//
// Invariants:
//
//   - A stream that nothing is to be done with is inherited: no copy, no
//     goroutine, no delay.
//   - What is passed through is passed at once and byte for byte.
//   - What is written to the console at once stays in one piece. Beside other
//     processes that write to the same pipe, each line does that has at most 4096
//     bytes (PIPE_BUF).
//   - The child's ends are in blocking mode, as every program expects.
//   - Memory is bounded, whatever a worker prints.
//   - The end of standard error is known for every worker, however it is
//     redirected.
//   - A console that is closed costs output on the console and nothing else; no
//     call waits for a console, or for a descendant of the worker that keeps its
//     output open, beyond its context (and a quarter of a second).
//
// The flags and the folders are torchrun's (-r, -t, --log-dir).
package logs
