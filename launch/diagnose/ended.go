package diagnose

import (
	"bytes"
	"fmt"
	"strconv"
)

// ended is a launcher's report of the end of a worker.
type ended struct {
	at   *event
	code int // negative: minus a signal's number
	root bool
	mute bool   // the worker wrote nothing to its standard error
	said string // the last line that it wrote there
}

var (
	elasticLine = lazily(`failed \(exitcode: (-?\d+)\) local_rank: (\d+) \(pid: (\d+)\)`)
	gorunLine   = lazily(`gorun(?:\[\S+\])?: (?:job failed: )?rank (\d+) on (\S+)(?: \(\S+\))?, pid (\d+) (?:exited with code (\d+)|was killed by (SIG\w+))`)
	srunLine    = lazily(`srun: error: (\S+): tasks? (\d+)[-,\d]*: (.*)`)
	exitedLine  = lazily(`^Exited with exit code (\d+)`)
	reportField = lazily(`^ *(time|host|node|rank|exitcode|traceback|stderr) *: (.*)$`)
	reportRank  = lazily(`^(\d+) \(local_rank: (\d+)\)`)
	reportExit  = lazily(`^(-?\d+) *\(pid: (\d+)\)`)
)

// signalNumber returns the number of a signal by the name that gorun prints, and
// SIGTERM's for a name that it does not distinguish.
func signalNumber(name string) int {
	switch name {
	case "SIGILL":
		return 4
	case "SIGABRT":
		return 6
	case "SIGBUS":
		return 7
	case "SIGFPE":
		return 8
	case "SIGKILL":
		return 9
	case "SIGSEGV":
		return 11
	}
	return 15
}

// noteElastic reads a line of torchrun's agent: a worker's end, or the start of
// a report.
func (s *Scanner) noteElastic(l *line) {
	root := bytes.Contains(l.raw, []byte("first observed failure"))
	if root || bytes.Equal(bytes.TrimSpace(l.raw), []byte("Failures:")) {
		s.inside = report{open: true, root: root, began: l.number, stream: l.stream}
		return
	}
	m := elasticLine().FindSubmatch(l.raw)
	if m == nil {
		return
	}
	e := s.event(s.m.byKey[rowSilent], l)
	e.local, _ = strconv.Atoi(string(m[2]))
	e.pid, _ = strconv.Atoi(string(m[3]))
	code, _ := strconv.Atoi(string(m[1]))
	s.end(ended{at: e, code: code, root: true})
}

// noteGorun reads the last line of gorun's report.
func (s *Scanner) noteGorun(l *line) {
	m := gorunLine().FindSubmatch(l.raw)
	if m == nil {
		return
	}
	e := s.event(s.m.byKey[rowSilent], l)
	e.rank, _ = strconv.Atoi(string(m[1]))
	e.host = text(m[2])
	e.pid, _ = strconv.Atoi(string(m[3]))
	l.rank, l.host, l.pid = e.rank, e.host, e.pid // the line now belongs to the worker
	code, _ := strconv.Atoi(string(m[4]))
	if len(m[5]) > 0 {
		code = -signalNumber(string(m[5]))
	}
	s.end(ended{at: e, code: code, root: true})
}

// noteSrun reads what srun says about a task.
func (s *Scanner) noteSrun(l *line) {
	m := srunLine().FindSubmatch(l.raw)
	if m == nil {
		return
	}
	l.host = text(m[1])
	l.task, _ = strconv.Atoi(string(m[2]))
	e := s.event(s.m.byKey[rowSilent], l)
	switch {
	case bytes.HasPrefix(m[3], []byte("Killed")):
		s.end(ended{at: e, code: -9})
	case exitedLine().Match(m[3]):
		s.end(ended{at: e, code: number(exitedLine(), m[3])})
	}
}

// end records a worker's end. Two reports of one process are one end.
func (s *Scanner) end(e ended) {
	s.job.failed = true
	if e.at.pid > 0 && e.at.host != "" && e.at.rank >= 0 && len(s.job.pids) < maxFacts {
		s.job.pids[process{e.at.host, e.at.pid}] = place{e.at.rank, 1 << 30}
	}
	for i := range s.job.ends {
		old := &s.job.ends[i]
		if old.at.pid > 0 && old.at.pid == e.at.pid && sameTeller(old.at, e.at) {
			if old.at.rank < 0 {
				old.at.rank, old.at.host = e.at.rank, e.at.host
			}
			if old.at.local < 0 {
				old.at.local = e.at.local
			}
			old.root = old.root || e.root
			return
		}
	}
	if len(s.job.ends) < maxKnown {
		s.job.ends = append(s.job.ends, e)
	}
}

// sameTeller reports whether two ends with one pid are of one process. They
// must come from one stream or name one host, because containers number their
// processes alike.
func sameTeller(a, b *event) bool {
	return a.stream == b.stream || a.host != "" && sameHost(a.host, b.host) && b.host != ""
}

// Ended records the end of the worker whose log was read last. code is its exit
// code, or minus the number of the signal that killed it.
func (s *Scanner) Ended(pid, code int) {
	n := len(s.logs) - 1
	if n < 0 {
		return
	}
	log := s.logs[n]
	say := fmt.Sprintf("exited with code %d", code)
	if code < 0 {
		say = fmt.Sprintf("was killed by signal %d", -code)
	}
	said := ""
	if log.Tail {
		said = s.said
	}
	s.end(ended{code: code, root: true, mute: log.Tail && !s.wrote, said: said, at: &event{
		row: s.m.byKey[rowSilent], log: n, number: s.number, text: say,
		whose: whose{rank: log.Rank, local: log.Local, task: -1, pid: pid, host: log.Host}, stream: streamKey{log: n},
	}})
}

// endings returns the events that the ends of workers make.
func (s *Scanner) endings() []*event {
	var all []*event
	for _, end := range s.job.ends {
		e := *end.at
		key := rowSilent
		switch {
		case end.mute:
			key = rowMute
		case end.said != "" && end.code > 0:
			key, e.text = rowSaid, end.said
		}
		if end.code > 128 && end.code < 160 { // a shell reports a signal as 128 plus its number
			end.code = 128 - end.code
		}
		switch -end.code {
		case 4, 8, 11:
			key = rowCrashed
		case 7:
			key = rowBus
		case 9:
			key = rowKilled
		case 15, 6, 2, 1:
			if end.code < 0 {
				continue // the worker was stopped, or it aborted and its own lines say why
			}
		}
		e.row = s.m.byKey[key]
		e.class = e.row.Class
		if key == rowKilled && !end.root {
			e.class = Consequence // the launcher killed it as a last resort
		}
		all = append(all, &e)
	}
	return all
}
