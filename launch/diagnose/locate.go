package diagnose

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/gorun/gorun/launch/diagnose/catalogue"
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
	if len(e.named) == 0 && e.rank < 0 {
		end := s.endOf(e)
		switch {
		case end != nil:
			e.rank, e.host = end.rank, end.host
		case e.local >= 0 && e.task <= 0 && s.hasOneNode():
			e.rank = e.local
		case e.local < 0 && e.task >= 0 && !s.tasksAreAgents():
			e.rank = e.task
		}
	}
	if writer := max(e.rank, e.task); len(e.named) > 0 && (e.rank < 0 || !slices.Contains(e.named, e.rank)) {
		if e.rank = e.named[0]; writer >= 0 && writer != e.rank { // another one reports it
			e.host, e.task = "", -1
		}
	}
	if e.host == "" && e.rank >= 0 {
		e.host = s.job.hosts[e.rank]
	}
	task := e.task
	if task < 0 && (e.row.ID() == "X-MPI" || s.job.taskRanks > 0 && s.worldSize() <= s.job.taskRanks) { // the tasks of srun are the ranks of MPI
		task = e.rank
	}
	if e.host == "" && task >= 0 {
		e.host = s.job.taskHosts[task]
	}
}

// tasksAreAgents reports whether the tasks of srun are torchrun's agents: an agent says that
// the worker of a local rank has another rank.
func (s *Scanner) tasksAreAgents() bool {
	return s.job.facts[catalogue.AgentFailed] != "" || slices.ContainsFunc(s.job.ends, func(end workerEnd) bool {
		return end.event.local >= 0 && end.event.rank >= 0 && end.event.local != end.event.rank
	})
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

// nameWriters gives events that no line gives to a process the worker that a launcher
// reports: the one whose end follows at once, or else the only one that ended by itself.
func (s *Scanner) nameWriters(events []*event) {
	only := s.onlyEnd()
	printed := map[string]int{} // how many events without an origin have such words
	for _, e := range events {
		if !e.hasOrigin() {
			printed[e.likeness()]++
		}
	}
	for _, e := range events {
		if e.hasOrigin() || e.kind == catalogue.Root || e.kind == catalogue.Stop || e.derived {
			continue
		}
		end, hasTwin := s.endAfter(e), printed[e.likeness()] > 1 // another worker may have printed it, too
		if end != nil && hasTwin && s.endsBeside(end) {
			continue // each of the hosts printed it
		}
		if end == nil || slices.ContainsFunc(events, end.isOf) {
			end = only
		}
		if end != nil && sameHost(e.host, end.host) && (e.host == "" || end.host != "" || s.job.nodes[e.host] == "") && (comparable(e, end) || len(s.logs) == 1) {
			e.isShared = hasTwin || s.endsBeside(end)
			e.fillOrigin(end)
		}
	}
}

// nameProcess gives the events of a process the rank that its last words name, where the
// logs show one process only: torch names the rank in its exception, NCCL the process.
func (s *Scanner) nameProcess(all []*hypothesis) {
	end := s.onlyEnd()
	if end == nil || end.rank >= 0 || end.pid <= 0 || len(s.job.ends) > 1 {
		return
	}
	rank, isNamed := -1, false
	var own []*event
	for _, h := range all {
		for _, e := range h.events {
			if e.pid > 0 && e.pid != end.pid || rank >= 0 && e.rank >= 0 && e.rank != rank {
				return
			}
			if e.pid == end.pid {
				own = append(own, e)
			}
			rank = max(rank, e.rank)
			isNamed = isNamed || strings.Contains(e.text, setsUpNCCL)
		}
	}
	for _, e := range own {
		if isNamed {
			e.rank = rank
		}
	}
}

// setsUpNCCL is in an exception of torch that begins with the rank of its process.
const setsUpNCCL = "is setting up NCCL communicator"

// isOf reports whether a line gives o to the worker of the end e.
func (e *event) isOf(o *event) bool {
	return e.rank >= 0 && o.rank == e.rank || e.task >= 0 && o.task == e.task || e.pid > 0 && o.pid == e.pid
}

// endAfter returns the event of the next end in the log of e, nil if it does not follow
// at once.
func (s *Scanner) endAfter(e *event) *event {
	var next *event
	for _, end := range s.job.ends {
		if o := end.event; o.log == e.log && o.number >= e.number && o.number-e.number < lastLines && (next == nil || o.number < next.number) {
			next = o
		}
	}
	return next
}

// endsBeside reports whether a worker of another host ended right after end and with the
// same exit code.
func (s *Scanner) endsBeside(end *event) bool {
	at := slices.IndexFunc(s.job.ends, func(o workerEnd) bool { return o.event == end })
	return at >= 0 && slices.ContainsFunc(s.job.ends, func(o workerEnd) bool {
		distance := o.event.number - end.number
		return o.event.log == end.log && 0 < distance && distance < besideSpan && !sameHost(o.event.host, end.host) && o.code > 0 && o.code == s.job.ends[at].code
	})
}

// onlyEnd returns the event of the only worker that ended by itself, nil if there is
// none or several.
func (s *Scanner) onlyEnd() *event {
	var only *event
	for _, end := range s.job.ends {
		switch end.code {
		case -9, -15, 128 + 9, 128 + 15:
			if len(s.job.ends) > 1 {
				continue
			}
		}
		if only != nil {
			return nil
		}
		only = end.event
	}
	return only
}

// nameOnlyHost gives causes without an origin the host on which all workers ended
// that launchers report.
func (s *Scanner) nameOnlyHost(all []*hypothesis) {
	host := ""
	for _, end := range s.job.ends {
		if h := end.event.host; h == "" || host != "" && h != host {
			return
		}
		host = end.event.host
	}
	hasOrigin := func(e *event) bool { return e.host != "" || e.hasOrigin() }
	for _, h := range all {
		if h.row.Kind.Tier() == catalogue.TierCause && !slices.ContainsFunc(h.events, hasOrigin) {
			h.events[0].host = host
		}
	}
}

// hasSeveralHosts reports whether the logs are of several hosts.
func (s *Scanner) hasSeveralHosts() bool {
	hosts := maps.Clone(s.job.writers.hosts)
	for _, host := range s.job.taskHosts {
		hosts[host] = struct{}{}
	}
	for _, end := range s.job.ends {
		if end.event.host != "" {
			hosts[end.event.host] = struct{}{}
		}
	}
	return len(hosts) > 1
}

// onSeveralHosts reports whether tasks of Slurm with these ranks ran on several hosts.
func (j *job) onSeveralHosts(ranks []int) bool {
	first := ""
	for _, r := range ranks {
		if host := j.taskHosts[r]; host != "" && first != "" && host != first {
			return true
		}
		first = cmp.Or(first, j.taskHosts[r])
	}
	return false
}

// hasOneNode reports whether the job has one node, so that local ranks are ranks.
// A log that names one host may come from one of several, unless it says how many
// ranks there are.
func (s *Scanner) hasOneNode() bool {
	if s.job.writers.differ {
		return false
	}
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
		return s.worldSize() > 0 && s.worldSize() <= top+1
	}
	return false
}

// sharedHost returns a host with several tasks of Slurm, "" if none has.
func (j *job) sharedHost() string {
	seen := map[string]bool{}
	for _, task := range slices.Sorted(maps.Keys(j.taskHosts)) {
		if host := j.taskHosts[task]; seen[host] {
			return host
		} else if host != "" {
			seen[host] = true
		}
	}
	return ""
}

// hostOf returns the host of a rank, "" if it is unknown.
func (j *job) hostOf(rank int) string {
	if host := j.hosts[rank]; host != "" || j.taskRanks == 0 {
		return host
	}
	return j.taskHosts[rank]
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
	for rank, host := range j.writers.announced.hosts {
		if name := host.known(); name != "" {
			j.hosts[rank] = name
		}
	}
	several, twice := map[int]bool{}, map[int]bool{}
	for p, m := range j.pids {
		if host, known := j.hosts[m.rank]; known && !sameHost(host, p.host) {
			several[m.rank] = true
		}
		j.hosts[m.rank] = p.host
		if _, known := j.byPID[p.pid]; known {
			twice[p.pid] = true
		}
		j.byPID[p.pid] = m.rank
	}
	tasks, highest := map[string]int{}, 0
	for task, host := range j.taskHosts {
		tasks[host]++
		highest = max(highest, task)
	}
	if len(tasks) < len(j.taskHosts) {
		j.taskRanks = highest + 1
	}
	for pid := range twice {
		delete(j.byPID, pid)
	}
	for rank := range several {
		delete(j.hosts, rank)
	}
}
