// Package report writes what a user and a scheduler see when a job has ended:
// torchrun's text report with the first failure of the job as its root cause,
// gorun's own error file, and the JSON of --report.
//
// The caller decides which failure was first and which failures are consequences.
// Package diagnose finds the meaning of the workers' output.
//
// Invariants: reading a worker's error file is bounded and never fails the report,
// whatever the file contains. Text of workers cannot control the terminal. A file
// is written completely or not at all.
package report
