package diagnose

import (
	"bytes"

	"github.com/gorun/gorun/launch/diagnose/match"
)

// agents holds what agents of torchrun say of their workers when one of them fails.
type agents map[agentKey]*attempt

// agentKey names an agent: the stream of its lines, and its pid, which newer ones print; 0:
// unknown.
type agentKey struct {
	stream streamKey
	pid    int
}

// attempt holds the pids of the workers of an agent's last attempt.
type attempt struct {
	pids   map[int]struct{}
	isOver bool // the line about the worker that failed comes last
}

// span is a range of ranks: the first one, and the one after the last.
type span struct{ first, end int }

const (
	// stoppedLine matches the line about a worker that an agent stops because another failed.
	stoppedLine = `Sending process (?P<pid>\d+) closing signal`
	// failedLine matches the line about the worker that failed.
	failedLine = `failed \(exitcode: -?\d+\) local_rank: \d+ \(pid: (?P<pid>\d+)\)`
)

// agentPID matches the pid of an agent in the front of its lines.
var agentPID = match.Lazy(`^[EW]\d{4} [\d:.]+ +(\d{1,9}) `)

// maxWorkers bounds the workers of an agent that are kept.
const maxWorkers = 64

// readAgent reads the pid of a worker in an agent's line.
func (s *Scanner) readAgent(l *line, f *match.Fields) {
	all, key := s.job.writers.agents, agentKey{l.stream, max(0, number(agentPID(), l.raw))}
	a := all[key]
	switch {
	case a == nil && len(all) >= maxTracked:
		return
	case a == nil, a.isOver: // the agent started its workers again
		a = &attempt{pids: map[int]struct{}{}}
		all[key] = a
	}
	if len(a.pids) < maxWorkers {
		a.pids[f.Number("pid")] = struct{}{}
	}
	a.isOver = bytes.Contains(l.raw, []byte("local_rank: "))
}

// findSpans finds the ranks of each agent of which a report names a worker's rank and local
// rank. The log of an agent covers all its workers. The lines of agents without a pid may be
// of several, if the job has several hosts.
func (s *Scanner) findSpans() {
	j := &s.job
	of := map[int]int{} // the number of workers of the agent that has a worker, by its pid
	for key, a := range j.writers.agents {
		for pid := range a.pids {
			if _, isTwice := of[pid]; isTwice || key.pid == 0 && s.hasSeveralHosts() || len(a.pids) == maxWorkers {
				of[pid] = 0
			} else {
				of[pid] = len(a.pids)
			}
		}
	}
	j.writers.spans = nil
	for _, end := range j.ends {
		if e := end.event; e.rank >= 0 && 0 <= e.local && e.local <= e.rank {
			first := e.rank - e.local
			j.writers.spans = append(j.writers.spans, span{first, first + max(of[e.pid], e.local+1)})
		}
	}
}
