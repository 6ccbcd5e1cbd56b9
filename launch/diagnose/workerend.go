package diagnose

import (
	"bytes"
	"cmp"
	"fmt"
	"iter"
	"regexp"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// workerEnd is the end of a worker, as a launcher reports it.
type workerEnd struct {
	event    *event
	code     int // negative: minus a signal's number
	isRoot   bool
	isAbort  bool   // the worker ended the job itself, through MPI
	noStderr bool   // the worker wrote nothing to its standard error
	lastLine string // the worker's last line on standard error
	binary   string // the program, as torchrun names it; "": unknown
	// lastWords is the last telling line of the log before the end.
	lastWords string
}

var (
	gorunLine   = lazyRegexp(`gorun(?:\[\S+\])?: (?:job failed: )?rank (\d+) on (\S+)(?: \(\S+\))?, pid (\d+) (?:exited with code (\d+)|was killed by (SIG\w+))`)
	srunLine    = lazyRegexp(`srun: error: (\S+): tasks? ([-,\d]+): (.*)`)
	exitedLine  = lazyRegexp(`^Exited with exit code (\d+)`)
	reportField = lazyRegexp(`^ *(time|host|node|rank|exitcode|traceback|stderr) *: (.*)$`)
	reportRank  = lazyRegexp(`^(\d+) \(local_rank: (\d+)\)`)
	reportExit  = lazyRegexp(`^(-?\d+) *\(pid: (\d+)\)`)
)

// signalNumber returns the number of the signal that gorun names. It returns
// SIGTERM's number for signals that show no crash.
func signalNumber(name string) int {
	switch n := unix.SignalNum(name); n {
	case unix.SIGILL, unix.SIGABRT, unix.SIGBUS, unix.SIGFPE, unix.SIGKILL, unix.SIGSEGV:
		return int(n)
	}
	return int(unix.SIGTERM)
}

// readElastic reads the start of a report of torchrun's agent.
func (s *Scanner) readElastic(l *line) {
	root := bytes.Contains(l.raw, []byte("first observed failure"))
	if root || bytes.Equal(bytes.TrimSpace(l.raw), []byte("Failures:")) {
		s.report = report{isOpen: true, isRoot: root, firstLine: l.number, stream: l.stream}
	}
}

// endLines matches the lines in which launchers tell a worker's end, where one line has
// all of it: torchrun, DeepSpeed, Composer, Paddle, text-generation-inference, Cray's PALS
// and ALPS, Fujitsu's plexec, MVAPICH's mpirun_rsh, and jsrun. Other programs use the
// words of PALS: its line counts with a host, in the text (writer) or in its prefix (nobody
// in the text).
var endLines = []func() *regexp.Regexp{
	lazyRegexp(`failed \(exitcode: (?P<code>-?\d+)\) local_rank: (?P<local>\d+) \(pid: (?P<pid>\d+)\)(?: of binary: (?P<binary>\S+))?`),
	lazyRegexp(`Child process (?P<pid>\d+) \(local_rank (?P<local>\d+)\) FAILED \(exitcode (?P<code>-?\d+)\)`),
	lazyRegexp(`(?:--local[_-]rank=(?P<local>\d+).*)?exits with return code = (?P<code>-?\d+)`),
	lazyRegexp(`[Rr]ank (?P<rank>\d+) (?:crashed with exit|\(PID \d+\) exited with) code (?P<code>-?\d+)`),
	lazyRegexp(`Container rank (?P<rank>\d+) status failed .*\bcode (?P<code>-?\d+)|the trainer process with rank=\[(?P<rank2>\d+)`),
	lazyRegexp(`Shard process was signaled to shutdown with signal (?P<signal>\d+) rank=(?P<rank>\d+)`),
	lazyRegexp(`PE RANK (?P<rank>\d+) exit (?:signal (?P<name>[\w ]+)|code (?P<code>\d+))`),
	lazyRegexp(`plexec The process terminated .*\(rank=(?P<rank>\d+)\).*\(sig=(?P<signal>\d+)\)`),
	lazyRegexp(`(?:^\[(?P<host>[\w.-]+):mpispawn_\d+\].*)?MPI process \(rank: (?P<rank>\d+), pid: \d+\) (?:terminated with signal (?P<signal>\d+)|exited with status (?P<code>\d+))`),
	lazyRegexp(`first noticed rank (?P<rank>\d+)\) (?:terminated with signal (?P<signal>\d+)|exited with (?:non-zero )?(?:code|status) (?P<code>\d+))`),
	lazyRegexp(`^(?:(?P<writer>[\w.-]+): |(?P<nobody>))rank (?P<rank>\d+) (?:died from signal (?P<signal>\d+)|exited with code (?P<code>\d+))`),
}

// readEnd reads the line in which a launcher tells a worker's end.
func (s *Scanner) readEnd(l *line) {
	for _, re := range endLines {
		m := re().FindSubmatch(l.raw)
		if m == nil {
			continue
		}
		e := s.newEvent(s.matcher.byKey[rowNoReason], l)
		end := workerEnd{event: e, code: 1, isRoot: true}
		for i, name := range re().SubexpNames() {
			if m[i] == nil {
				continue
			}
			text := plainText(m[i])
			n, _ := strconv.Atoi(text)
			switch name {
			case "rank", "rank2":
				e.rank = n
			case "local":
				e.local = n
			case "pid":
				e.pid = n
			case "host", "writer":
				e.host = text
			case "nobody":
				if e.host == "" {
					return // another program's words
				}
			case "binary":
				end.binary = text
			case "code":
				end.code = n
			case "signal":
				end.code = -n
			case "name":
				end.code = -namedSignal(text)
			}
		}
		end.lastWords = s.lastWords(e)
		s.addEnd(end)
		return
	}
}

// namedSignal returns the number of the signal that ALPS names by its meaning.
func namedSignal(name string) int {
	switch {
	case strings.HasPrefix(name, "Segmentation"):
		return int(unix.SIGSEGV)
	case strings.HasPrefix(name, "Killed"):
		return int(unix.SIGKILL)
	}
	return int(unix.SIGABRT)
}

// interpreterOf returns the program of the worker of e, as a launcher names it: that of
// its end, or the only one of the job.
func (j *job) interpreterOf(e *event) string {
	only := ""
	for _, end := range j.ends {
		if end.binary == "" {
			continue
		}
		if end.event.rank >= 0 && end.event.rank == e.rank {
			return end.binary
		}
		if only != "" && only != end.binary {
			return ""
		}
		only = end.binary
	}
	return only
}

// readGorun reads the last line of gorun's report.
func (s *Scanner) readGorun(l *line) {
	m := gorunLine().FindSubmatch(l.raw)
	if m == nil {
		return
	}
	e := s.newEvent(s.matcher.byKey[rowNoReason], l)
	e.rank, _ = strconv.Atoi(string(m[1]))
	e.host = plainText(m[2])
	e.pid, _ = strconv.Atoi(string(m[3]))
	l.rank, l.host, l.pid = e.rank, e.host, e.pid // the line now belongs to the worker
	code, _ := strconv.Atoi(string(m[4]))
	if len(m[5]) > 0 {
		code = -signalNumber(string(m[5]))
	}
	s.addEnd(workerEnd{event: e, code: code, isRoot: true})
}

// readSrun reads a line of srun about the end of a task.
func (s *Scanner) readSrun(l *line) {
	m := srunLine().FindSubmatch(l.raw)
	if m == nil {
		return
	}
	l.host = plainText(m[1])
	tasks := tasksOf(string(m[2]))
	for _, task := range tasks {
		if len(s.job.taskHosts) < maxEntries {
			s.job.taskHosts[task] = l.host
		}
	}
	if l.task = -1; len(tasks) == 1 {
		l.task = tasks[0]
	}
	e := s.newEvent(s.matcher.byKey[rowNoReason], l)
	if len(tasks) > 1 {
		e.named = tasks[:min(len(tasks), maxRanks)]
	}
	switch {
	case bytes.HasPrefix(m[3], []byte("Killed")):
		s.addEnd(workerEnd{event: e, code: -9})
	case exitedLine().Match(m[3]):
		s.addEnd(workerEnd{event: e, code: number(exitedLine(), m[3]), lastWords: s.lastWords(e)})
	}
}

// maxTasks bounds the tasks of one line: those of a node.
const maxTasks = 1 << 9

// tasksOf returns the tasks of a list such as 0-3,7.
func tasksOf(list string) []int {
	var all []int
	for part := range strings.SplitSeq(list, ",") {
		low, high, isRange := strings.Cut(part, "-")
		from, err := strconv.Atoi(low)
		to := from
		if isRange && err == nil {
			to, err = strconv.Atoi(high)
		}
		for n := from; err == nil && n <= to && len(all) < maxTasks; n++ {
			all = append(all, n)
		}
	}
	return all
}

// addEnd records a worker's end. Two reports of one process are one end.
func (s *Scanner) addEnd(e workerEnd) {
	s.job.failed = true
	if e.event.pid > 0 && e.event.host != "" && e.event.rank >= 0 && len(s.job.pids) < maxEntries {
		s.job.pids[process{e.event.host, e.event.pid}] = membership{e.event.rank, 1 << 30}
	}
	for old := range s.endsOf(e.event) {
		if old.event.rank < 0 {
			old.event.rank, old.event.host = e.event.rank, e.event.host
		}
		if old.event.local < 0 {
			old.event.local = e.event.local
		}
		old.isRoot = old.isRoot || e.isRoot
		return
	}
	if len(s.job.ends) < maxTracked {
		s.job.ends = append(s.job.ends, e)
	}
}

// endsOf yields the ends of the process of e. They have its pid, and they come from
// its stream or name its host, because containers number their processes alike. There
// are none where more ends are known than any log shows but a flood of them.
func (s *Scanner) endsOf(e *event) iter.Seq[*workerEnd] {
	return func(yield func(*workerEnd) bool) {
		if e.pid <= 0 || len(s.job.ends) >= maxTracked {
			return
		}
		for i := range s.job.ends {
			end := &s.job.ends[i]
			old := end.event
			if old.pid != e.pid {
				continue
			}
			sameHosts := old.host != "" && e.host != "" && sameHost(old.host, e.host)
			if (old.stream == e.stream || sameHosts) && !yield(end) {
				return
			}
		}
	}
}

// RecordEnd records the end of the worker that wrote the log that was read last.
// code is its exit code, or minus the number of the signal that killed it.
func (s *Scanner) RecordEnd(pid, code int) {
	n := len(s.logs) - 1
	if n < 0 {
		return
	}
	log := s.logs[n]
	text := fmt.Sprintf("exited with code %d", code)
	if code < 0 {
		text = fmt.Sprintf("was killed by signal %d", -code)
	}
	s.addEnd(workerEnd{code: code, isRoot: true, noStderr: log.isTail && !s.hasText, lastLine: s.lastLine, event: &event{
		row: s.matcher.byKey[rowNoReason], log: n, number: s.number, text: text,
		origin: origin{rank: log.Rank, local: log.Local, task: -1, pid: pid, host: log.Host}, stream: streamKey{log: n},
	}})
}

// endEvents returns the events that the ends of workers make.
func (s *Scanner) endEvents() []*event {
	var all []*event
	for _, end := range s.job.ends {
		e := *end.event
		key := rowNoReason
		switch {
		case end.noStderr:
			key = rowNoStderr
		case end.lastLine != "" && end.code > 0:
			key, e.text = rowLastLine, end.lastLine
		case end.lastWords != "" && (end.code > 0 || end.code == -int(unix.SIGABRT)):
			key, e.text = rowLastWords, end.lastWords
			if end.isAbort {
				key = rowAborted
			}
		}
		meaning, stopped := meaningOfCode(end.code)
		if stopped {
			continue
		}
		key = cmp.Or(meaning, key)
		e.row = s.matcher.byKey[key]
		e.kind = e.row.Kind
		if key == rowKilled && !end.isRoot {
			e.kind = Consequence // the launcher killed it as a last resort
		}
		all = append(all, &e)
	}
	return all
}

// meaningOfCode returns the row of an exit code that says why a process ended, "" if it
// does not. stopped reports whether a signal from outside ended the process.
func meaningOfCode(code int) (key string, stopped bool) {
	if code == 127 || code == 126 { // as shells say it
		return rowNotFound, false
	}
	if code > 128 && code < 160 { // a shell reports a signal as 128 plus its number
		code = 128 - code
	}
	switch unix.Signal(-code) {
	case unix.SIGILL, unix.SIGFPE, unix.SIGSEGV:
		return rowCrashed, false
	case unix.SIGBUS:
		return rowBusError, false
	case unix.SIGKILL:
		return rowKilled, false
	case unix.SIGTERM, unix.SIGINT, unix.SIGHUP:
		return "", true
	}
	return "", false
}
