package diagnose

import "github.com/gorun/gorun/launch/diagnose/match"

// agents holds the workers that agents of torchrun stopped.
type agents map[stoppedWorker]struct{}

// stoppedWorker is a worker that an agent stopped: the stream of the agent's lines, and the
// worker's pid.
type stoppedWorker struct {
	stream streamKey
	pid    int
}

// span is a range of ranks: the first one, and the one after the last.
type span struct{ first, end int }

// readStoppedWorker reads the pid of a worker that an agent stops.
func (s *Scanner) readStoppedWorker(l *line, f *match.Fields) {
	if all := s.job.writers.agents; len(all) < maxEntries {
		all[stoppedWorker{l.stream, f.Number("pid")}] = struct{}{}
	}
}

// agentSpans returns the ranks of each agent of which a report names a worker's rank and
// local rank. The log of an agent covers all its workers.
func (j *job) agentSpans() []span {
	stopped := map[streamKey]int{}
	for w := range j.writers.agents {
		stopped[w.stream]++
	}
	var all []span
	for _, end := range j.ends {
		e := end.event
		if e.rank < 0 || e.local < 0 || e.local > e.rank {
			continue
		}
		workers := stopped[e.stream]
		if _, known := j.writers.agents[stoppedWorker{e.stream, e.pid}]; !known {
			workers++ // it ended itself
		}
		first := e.rank - e.local
		all = append(all, span{first, first + max(workers, e.local+1)})
	}
	return all
}
