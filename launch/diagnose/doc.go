// Package diagnose finds in captured output why a job failed. A Scanner reads the
// logs of a whole job and finds the root cause, the ranks to blame, the errors
// that are only consequences, and the fix. IsConsequence reads the output of one
// worker and reports whether the worker failed because a peer had failed.
//
// A Scanner works in three stages:
//
//   - Evidence. Read makes an event of each line and each traceback that has a
//     meaning, and counts the lines that follow it, which show whether the program went
//     on. It also records what the lines say about the job: ranks and their processes,
//     ends of workers, time-outs of watchdogs.
//   - Hypotheses. Findings groups the events of one meaning, and adds events that
//     only several lines together show. Each group is a hypothesis. The kind of its
//     strongest evidence gives its tier of probability.
//   - Cause. The earliest hypothesis of the most probable tier is the root cause. A
//     hypothesis that the root cause explains is a consequence. Each hypothesis
//     becomes a Finding, which facts of other lines make more precise: what differs
//     between the hosts, who fills a GPU, which pods do not run.
//
// What lines mean is data: the rows of package catalogue, the prefixes of package prefix,
// the lines about the job (jobLines), among them the ends that launchers report
// (endPatterns), and the words by which other lines are weighed (package wording). A row
// has one Kind; a topic of the catalogue says what an error in any words is about. Package
// python reads tracebacks. Package match looks for the literals of all rows at once.
//
// Invariants: a finding needs evidence in the text, so a job that works has no
// findings. The cost is linear in the text, and memory is bounded. The same text
// gives the same findings.
package diagnose
