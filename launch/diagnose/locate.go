package diagnose

import (
	"slices"
	"strings"
)

// locate finds the rank and host of an event from its process, its label and its
// log. All logs are read by then.
func (s *Scanner) locate(e *event) {
	if e.rank < 0 && e.pid > 0 {
		if p, ok := s.job.pids[process{e.host, e.pid}]; ok {
			e.rank = p.rank
		}
	}
	if e.rank < 0 && e.host == "" {
		if rank, ok := s.job.byPID[e.pid]; ok {
			e.rank = rank
		}
	}
	if e.pid > 0 && e.rank < 0 {
		for _, end := range s.job.ends {
			if end.event.pid == e.pid && end.event.rank >= 0 && sameHost(e.host, end.event.host) {
				e.rank, e.host = end.event.rank, end.event.host
			}
		}
	}
	if len(e.named) == 0 && e.rank < 0 {
		end := s.endOf(e)
		switch {
		case end != nil:
			e.rank, e.host = end.rank, end.host
		case e.local >= 0 && e.task <= 0 && s.hasOneNode():
			e.rank = e.local
		case e.local < 0 && e.task >= 0:
			e.rank = e.task
		}
	}
	if len(e.named) > 0 && (e.rank < 0 || !slices.Contains(e.named, e.rank)) {
		e.rank = e.named[0]
	}
	if e.host == "" && e.rank >= 0 {
		e.host = s.job.hosts[e.rank]
	}
	if e.host == "" && e.task >= 0 {
		e.host = s.job.taskHosts[e.task]
	}
}

// endOf returns the event of the only end that a launcher reports for the
// event's local rank, nil if there is none or several.
func (s *Scanner) endOf(e *event) *event {
	var only *event
	for _, end := range s.job.ends {
		if e.local < 0 || end.event.local != e.local || end.event.rank < 0 || !sameHost(e.host, end.event.host) {
			continue
		}
		if only != nil && only.rank != end.event.rank {
			return nil
		}
		only = end.event
	}
	return only
}

// hasOneNode reports whether the job has one node, so that local ranks are ranks.
// A log that names one host may come from one of several, unless it says how many
// ranks there are.
func (s *Scanner) hasOneNode() bool {
	top := -1
	for l := range s.job.writers.locals {
		top = max(top, l)
	}
	for _, end := range s.job.ends {
		if end.event.rank >= 0 && end.event.local >= 0 && end.event.rank != end.event.local {
			return false
		}
	}
	switch len(s.job.writers.hosts) {
	case 0:
		return s.job.world <= top+1
	case 1:
		return s.job.world > 0 && s.job.world <= top+1
	}
	return false
}

// sameHost reports whether a and b may name one host: one is unknown, or is the
// other without its domain.
func sameHost(a, b string) bool {
	return a == "" || b == "" || a == b || strings.HasPrefix(a, b+".") || strings.HasPrefix(b, a+".")
}

// findHosts records the host of each rank that runs on one host only, and the rank
// of each pid that one host only has. Each communicator has a rank 0, perhaps on
// different hosts.
func (j *job) findHosts() {
	j.hosts, j.byPID = map[int]string{}, map[int]int{}
	several, twice := map[int]bool{}, map[int]bool{}
	for p, m := range j.pids {
		if host, known := j.hosts[m.rank]; known && host != p.host {
			several[m.rank] = true
		}
		j.hosts[m.rank] = p.host
		if _, known := j.byPID[p.pid]; known {
			twice[p.pid] = true
		}
		j.byPID[p.pid] = m.rank
	}
	for pid := range twice {
		delete(j.byPID, pid)
	}
	for rank := range several {
		delete(j.hosts, rank)
	}
}
