// Package hang decides, from signs of what the ranks of a job do, whether the job hangs.
//
// The agent of each node looks at its workers (Look), and a Rank keeps since when each
// worker has made no progress (Sign). The signs of all nodes together are judged (Judge).
// A Case is one job's way from calm to a report:
//
//	        a rank is still for long              all are still for the whole time
//	calm ───────────────────────────► suspected ─────────────────────────────────► reported
//	  ▲                                   │                                            │
//	  └───────────────────────────────────┴────────────────────────────────────────────┘
//	                              a rank makes progress
//
// A report is taken back when the hang is seen to be over twice. As long as a node does
// not answer, a case stays where it is; without a report it is calm again when that lasts.
//
// Invariants: the package reads no clock, no file and no process. A rank that computes,
// or that reads or writes files, is never a part of a hang: it is slow at most. Signs of
// other nodes are never trusted to be complete or well formed.
package hang
