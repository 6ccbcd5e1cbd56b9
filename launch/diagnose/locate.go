package diagnose

import (
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// locate finds the rank and host of an event after all logs are read: by its
// process, its label and its log.
func (s *Scanner) locate(e *event) {
	if e.rank < 0 && e.pid > 0 {
		if p, ok := s.job.pids[process{e.host, e.pid}]; ok {
			e.rank = p.rank
		}
	}
	if e.rank < 0 && e.host == "" {
		if p, ok := s.job.byPID[e.pid]; ok {
			e.rank = p.rank
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
		case e.local >= 0 && e.task <= 0 && s.oneNode():
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
}

// endOf returns the only end that a launcher reports for the event's local
// rank, nil if there is none or several.
func (s *Scanner) endOf(e *event) *event {
	var one *event
	for _, end := range s.job.ends {
		if e.local < 0 || end.event.local != e.local || end.event.rank < 0 || !sameHost(e.host, end.event.host) {
			continue
		}
		if one != nil && one.rank != end.event.rank {
			return nil
		}
		one = end.event
	}
	return one
}

// oneNode reports whether the job has one node, so that local ranks are ranks.
// A host that is named may be one of several unless the log says how many ranks
// there are.
func (s *Scanner) oneNode() bool {
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

// findHosts records the host of each rank that names only one (groups of ranks
// have a rank 0 each), and the rank of each pid that only one host has.
func (j *job) findHosts() {
	j.hosts, j.byPID = map[int]string{}, map[int]membership{}
	several, twice := map[int]bool{}, map[int]bool{}
	for p, at := range j.pids {
		if host, known := j.hosts[at.rank]; known && host != p.host {
			several[at.rank] = true
		}
		j.hosts[at.rank] = p.host
		if _, known := j.byPID[p.pid]; known {
			twice[p.pid] = true
		}
		j.byPID[p.pid] = at
	}
	for pid := range twice {
		delete(j.byPID, pid)
	}
	for rank := range several {
		delete(j.hosts, rank)
	}
}

// hangEvent returns an event for the ranks that began to initialise a
// communicator and did not finish, nil if there are none. A log that ends there
// is of a job that hangs. It counts only if nothing else explains the failure.
func (s *Scanner) hangEvent() *event {
	var open []initKey
	for k := range s.job.inits {
		open = append(open, k)
	}
	if len(open) == 0 {
		return nil
	}
	slices.SortFunc(open, func(a, b initKey) int {
		if c := strings.Compare(a.comm, b.comm); c != 0 {
			return c
		}
		return a.rank - b.rank
	})
	var ranks []int
	began := map[int]bool{}
	for _, k := range open {
		if k.comm == open[0].comm {
			ranks = append(ranks, k.rank)
			began[k.rank] = true
		}
	}
	last := s.job.inits[open[len(open)-1]]
	e := &event{row: s.m.byKey[rowMissing], class: Hint, log: last.line.log, number: last.line.number, origin: origin{rank: -1, local: -1, task: -1}}
	e.text = rankList(ranks) + " began to initialise NCCL and did not end"
	var missing []int
	for r := range s.worldSize() {
		if !began[r] {
			missing = append(missing, r)
		}
	}
	if len(missing) > 0 {
		e.named = missing
		e.text += "; " + rankList(missing) + " did not begin, as far as this log tells"
	}
	return e
}

// shownEvent returns the event whose line the finding shows: the first, or one that
// soon follows it and has the row's Quote.
func (v *hypothesis) shownEvent() *event {
	if v.row.Quote != "" {
		const report = 200 // lines
		for _, e := range v.events {
			if e.log == v.first.log && e.number >= v.first.number && e.number-v.first.number < report && strings.Contains(e.text, v.row.Quote) {
				return e
			}
		}
	}
	return v.first
}

// finding makes the verdict a finding.
func (s *Scanner) finding(v *hypothesis) Finding {
	e := v.shownEvent()
	f := Finding{
		ID: v.row.ID(), Checks: v.row.Checks[1:], Row: v.row.Key, Severity: v.severity,
		Rank: e.rank, Local: e.local, Host: e.host, Peer: e.peer, File: s.logs[e.log].Name, Line: e.number,
		Count: v.count, Text: e.text, Meaning: v.row.Cause, Fix: v.row.Fix,
	}
	if s.logs[e.log].Tail {
		f.Line = 0
	}
	if versions := s.job.versionsText(); versions != "" && f.ID == "V01" {
		f.Meaning += " (" + versions + ")"
	}
	ranks := map[int]bool{}
	for _, e := range v.events {
		if e.rank >= 0 && len(e.named) == 0 {
			ranks[e.rank] = true
		}
		for _, r := range e.named {
			ranks[r] = true
		}
	}
	f.Ranks = slices.Sorted(maps.Keys(ranks))
	if f.Rank < 0 && len(f.Ranks) == 1 {
		f.Rank = f.Ranks[0]
		for _, e := range v.events {
			if f.Host == "" && e.rank == f.Rank {
				f.Host = e.host
			}
		}
	}
	f.Ranks = f.Ranks[:min(len(f.Ranks), maxRanks)]
	return f
}

var (
	rankName  = lazyRegexp(`(?i)rank[-_.]?(\d{1,6})(?:\D|$)`)
	localName = lazyRegexp(`attempt_\d+/(\d{1,5})/(?:stdout|stderr)\.log$`)
)

// LogOf reads from a file's name which worker wrote the file: rank3.log is of
// rank 3, and the folders of torchrun and gorun contain the local rank.
func LogOf(name string) Log {
	log := Log{Name: name, Rank: -1, Local: -1}
	path := filepath.ToSlash(name)
	if m := localName().FindStringSubmatch(path); m != nil {
		log.Local, _ = strconv.Atoi(m[1])
	} else if m := rankName().FindStringSubmatch(filepath.Base(name)); m != nil {
		log.Rank, _ = strconv.Atoi(m[1])
	}
	return log
}
