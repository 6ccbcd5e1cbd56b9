package diagnose

import "github.com/gorun/gorun/launch/diagnose/match"

// agents holds the pids of the workers that each agent of torchrun stopped, by the stream of
// its lines.
type agents map[streamKey]map[int]struct{}

// span is a range of ranks: the first one, and the one after the last.
type span struct{ first, end int }

// readStoppedWorker reads the pid of a worker that an agent stops.
func (s *Scanner) readStoppedWorker(l *line, f *match.Fields) {
	all := s.job.writers.agents
	if all[l.stream] == nil && len(all) < maxTracked {
		all[l.stream] = map[int]struct{}{}
	}
	if pids := all[l.stream]; pids != nil && len(pids) < maxTracked {
		pids[f.Number("pid")] = struct{}{}
	}
}

// agentSpans returns the ranks of each agent of which a report names a worker's rank and
// local rank. The log of an agent covers all its workers.
func (j *job) agentSpans() []span {
	var all []span
	for _, end := range j.ends {
		e := end.event
		if e.rank < 0 || e.local < 0 || e.local > e.rank {
			continue
		}
		workers := len(j.writers.agents[e.stream])
		if _, known := j.writers.agents[e.stream][e.pid]; !known {
			workers++ // that ended itself
		}
		first := e.rank - e.local
		all = append(all, span{first, first + max(workers, e.local+1)})
	}
	return all
}
