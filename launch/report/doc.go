// Package report writes what a person and a scheduler learn when a job has
// ended: torchrun's text report with the job-wide first failure as its root
// cause, gorun's own error file, and the JSON of --report.
//
// It is given what happened and decides nothing: which failure was first, and
// which are consequences, is known before. What the output of the workers means,
// package diagnose says.
//
// Invariants: whatever a worker wrote into its error file, reading it is
// bounded and never fails the report; text that came from workers cannot
// control the terminal; a file is written whole or not at all.
package report
