package diagnose

import (
	"bytes"
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	// maxLastWords is how many lines before a worker's end lastWords reads.
	maxLastWords = 80
	// maxReread is how many lines lastWords reads in all, besides two for each line of
	// the log. Only a flood of ends needs more.
	maxReread = 1 << 17
)

// noWords matches lines that say nothing about why a program ended: of launchers, of
// the frames of a stack, of progress bars and empty boxes.
var noWords = anyOf(
	`^\W*$`, `^Traceback \(`, `^During handling of the `, `^The above exception `, `^frame #\d+: `, ` NCCL INFO `, `^(?:usage|Usage): `, `^(?:\t|  )`, `^(?:srun|slurmstepd|salloc|sbatch)\b`, `\d+%\|`, `it/s\]`, `^[EWIF]\d{4} `,
	`torch[./]distributed[./](?:elastic|run|launch)`, `OMP_NUM_THREADS`, `^\[[EWIF]\b`, `HYDRA_FULL_ERROR`, `Killing subprocess`, `^(?:Thread|Current thread) 0x`, `^Extension modules: `, `(?i)^ ?(?:#\d+ |\[0x|0x[0-9a-f]+|@ +0x|\*\*\* |Fatal Python error: |Aborted|backtrace|Stack trace|\[\S+:\d+\] (?:\[ *\d+\]|\*\*\*|Signal|Failing at)|Signal(?: code)?: |Failing at address|Process received|==== backtrace|\d+:? +0x|=====|\d+ +\S+\.so)`,
	launcherBanner, `^(?:MPICH ERROR |aborting job|application called MPI_Abort|MPI_ABORT was invoked)`,
)

// lastWords returns the last telling line before the present one of the worker that
// ended, or of any worker where the lines do not say whose they are. It sees the part
// of the log that is in memory.
func (s *Scanner) lastWords(end *event) string {
	text, earlier := s.before, s.previous
	for range maxLastWords {
		if text = bytes.TrimRight(text, "\r\n"); len(text) == 0 {
			text, earlier = bytes.TrimRight(earlier, "\r\n"), nil
		}
		if s.job.reread++; len(text) == 0 || s.job.reread > maxReread+2*s.number {
			return ""
		}
		at := bytes.LastIndexByte(text, '\n') + 1
		h, rest := readHead(text[at:][:min(len(text)-at, maxMatched)])
		text = text[:at]
		other := func(a, b int) bool { return a >= 0 && b >= 0 && a != b }
		if other(h.rank, end.rank) || other(h.local, end.local) || other(h.task, end.task) || len(bytes.TrimSpace(rest)) == 0 || noWords().Match(rest) || s.matcher.wordings.has(progressWords, rest) {
			continue
		}
		return plainText(rest)
	}
	return ""
}

var (
	mpirunLine  = lazyRegexp(`process rank (\d+) with PID (\d+) on node (\S+) exited on(?:\s+signal (\d+))?`)
	signalLine  = lazyRegexp(`^signal (\d+) \(`) // of prterun, in the next line
	hydraLine   = lazyRegexp(`^= +(?:RANK (\d+) )?PID (\d+) RUNNING AT (\S+)`)
	hydraCode   = lazyRegexp(`^= +(?:EXIT CODE|EXIT STATUS|KILLED BY SIGNAL): (\d+)`)
	abortLine   = lazyRegexp(`(?:\[([\w.-]+)\] - Abort\(.*)?(?:MPI_ABORT was invoked on rank (\d+)|application called MPI_Abort\(.*process (\d+))`)
	spawnLine   = lazyRegexp(`^(?:\S*ProcessExitedException|Exception): process (\d+) terminated with (?:signal (SIG\w+)|exit code (\d+))`)
	spawnedLine = lazyRegexp(`^-- Process (\d+) terminated with the following error`)
)

// readMpirun reads the line in which mpirun tells the first process that a signal
// ended. prterun puts the signal into the next line.
func (s *Scanner) readMpirun(l *line) {
	if e := s.job.named; e != nil && e.log == l.stream.log && l.number-e.number <= 2 {
		if signal := number(signalLine(), l.raw); signal > 0 {
			s.addEnd(workerEnd{event: e, code: -signal, isRoot: true, lastWords: s.lastWords(e)})
			s.job.named = nil
		}
	}
	m := mpirunLine().FindSubmatch(l.raw)
	if m == nil {
		return
	}
	e := s.newEvent(s.matcher.byKey[rowNoReason], l)
	e.rank, _ = strconv.Atoi(string(m[1]))
	e.pid, _ = strconv.Atoi(string(m[2])) // newer releases print 0
	e.host = plainText(m[3])
	if len(m[4]) == 0 {
		s.job.named = e
		return
	}
	signal, _ := strconv.Atoi(string(m[4]))
	s.addEnd(workerEnd{event: e, code: -signal, isRoot: true, lastWords: s.lastWords(e)})
}

// readAbort reads the line in which MPI tells that a rank ended the job itself.
func (s *Scanner) readAbort(l *line) {
	m := abortLine().FindSubmatch(l.raw)
	if m == nil {
		return
	}
	e := s.newEvent(s.matcher.byKey[rowNoReason], l)
	e.rank, _ = strconv.Atoi(string(m[2]) + string(m[3]))
	if len(m[1]) > 0 {
		e.host = plainText(m[1])
	}
	for _, end := range s.job.ends {
		if end.isAbort && end.event.rank == e.rank {
			return
		}
	}
	s.addEnd(workerEnd{event: e, code: 1, isRoot: true, isAbort: true, lastWords: s.lastWords(e)})
}

// readHydra reads the box in which mpiexec of MPICH and Intel MPI tells a worker's end:
// first its process and host, then its code. Codes below 32 are signals, mostly.
func (s *Scanner) readHydra(l *line) {
	if m := hydraLine().FindSubmatch(l.raw); m != nil {
		e := s.newEvent(s.matcher.byKey[rowNoReason], l)
		if len(m[1]) > 0 {
			e.rank, _ = strconv.Atoi(string(m[1]))
		}
		e.pid, _ = strconv.Atoi(string(m[2]))
		e.host = plainText(m[3])
		s.job.hydra = e
	}
	code := number(hydraCode(), l.raw)
	if s.job.hydra == nil || code < 0 || !(lineRef{l.stream.log, l.number}).near(lineRef{s.job.hydra.log, s.job.hydra.number}, 3) {
		return
	}
	if bytes.Contains(l.raw, []byte("SIGNAL")) || code == 6 || code == 9 || code == 11 || code == 15 {
		code = -code
	}
	s.addEnd(workerEnd{event: s.job.hydra, code: code, isRoot: true})
	s.job.hydra = nil
}

// readProcessName reads the name of the process that ended first, as mpirun and prterun
// tell it. Its exit code is in the next line.
func (s *Scanner) readProcessName(l *line) {
	if m := processName().FindSubmatch(l.raw); m != nil {
		s.job.named = s.newEvent(s.matcher.byKey[rowNoReason], l)
		if len(m[2]) > 0 { // of Horovod: the host and the local rank
			s.job.named.host = plainText(m[2])
			s.job.named.local, _ = strconv.Atoi(string(m[3]))
		} else {
			s.job.named.rank, _ = strconv.Atoi(string(m[1]))
		}
	}
}

var (
	processName  = lazyRegexp(`Process name: \[(?:\[\d+,\d+\],|\S+@\d+,)(\d+)\]|Process name: ([\w.-]+)\[(\d+)\]`)
	exitCodeLine = lazyRegexp(`(?i)\bexit(?:ed)?(?: ?code| status|ed with|s with)(?: (?:non-?zero|code|status|exit|return|error))* ?[:= (]*(-?\d+)|\breturn(?:ed)?(?: non-?zero)?(?: exit)? (?:code|status):?[ =]+(-?\d+)|(core dumped)`)
	// signalWords matches a process's end by a signal, in any program's words.
	signalWords = lazyRegexp(`\bNegsignal\.(SIG\w+)|\bcode=(?:killed|dumped), status=(\d+)/|\b(?:killed|terminated|died|crashed) (?:by|with|from|on|due to) signal:? ?(SIG\w+|\d+)\b|\bsignal: (killed)\b`)
)

// readRayTask reads the process of a task of Ray whose traceback follows.
func (s *Scanner) readRayTask(l *line) {
	if m := rayTaskLine().FindSubmatch(l.raw); m != nil {
		s.rayTask = s.newEvent(s.matcher.byKey[rowNoReason], l)
		s.rayTask.pid, _ = strconv.Atoi(string(m[1]))
		s.rayTask.host = plainText(m[2])
	}
}

var rayTaskLine = lazyRegexp(`ray::\S+\(\) \(pid=(\d+)(?:, ip=([^\s,)]+))?`)

// readExitCode reads an exit code in any words. One that is not 0 shows that the job
// failed. An event of it has the row that the code means.
func (s *Scanner) readExitCode(l *line) {
	m := exitCodeLine().FindSubmatch(l.raw)
	if m == nil || s.matcher.wordings.goesOn(l.raw) {
		return
	}
	code, _ := strconv.Atoi(string(m[1]) + string(m[2]))
	if code == 0 && len(m[3]) == 0 {
		return
	}
	if at := exitCodeLine().FindIndex(l.raw); !isQuoted(l.raw, at[0]) {
		s.recordExit(l, code)
	}
	s.job.failed = true
	if e := s.job.named; e != nil && e.log == l.stream.log && l.number-e.number <= 2 {
		s.addEnd(workerEnd{event: e, code: code, isRoot: true, lastWords: s.lastWords(e)})
		s.job.named = nil
	}
}

// readSignal reads the end of a process by a signal.
func (s *Scanner) readSignal(l *line) {
	m := signalWords().FindSubmatch(l.raw)
	if m == nil || s.matcher.wordings.goesOn(l.raw) || isQuoted(l.raw, len(l.raw)) {
		return
	}
	name := string(firstGroup(m))
	code, err := strconv.Atoi(name)
	switch {
	case name == "killed":
		code = int(unix.SIGKILL)
	case err != nil:
		code = signalNumber(name)
	}
	if _, stopped := meaningOfCode(-code); !stopped {
		s.recordExit(l, -code)
		s.job.failed = true
	}
}

// recordExit keeps the last line with an exit code, or a line shortly before it whose
// code says more.
func (s *Scanner) recordExit(l *line, code int) {
	key, _ := meaningOfCode(code)
	if last := s.job.lastExit; key == "" && last != nil && last.row.Key != rowNoReason && last.log == l.stream.log && l.number-last.number < detailLines {
		return
	}
	s.job.lastExit = s.newEvent(s.matcher.byKey[cmp.Or(key, rowNoReason)], l)
}

// addSpawnEnd records the end of a process that torch.multiprocessing started, as its
// exception tells it. ok reports whether text is such an exception.
func (s *Scanner) addSpawnEnd(text string, l *line) (ok bool) {
	m := spawnLine().FindStringSubmatch(text)
	if m == nil {
		return false
	}
	e := s.newEvent(s.matcher.byKey[rowNoReason], l)
	e.text = plainText([]byte(text))
	if e.rank < 0 {
		e.local, _ = strconv.Atoi(m[1])
	}
	code, _ := strconv.Atoi(m[3])
	if m[2] != "" {
		code = -signalNumber(m[2])
	}
	s.addEnd(workerEnd{event: e, code: code, isRoot: true})
	return true
}

// readExit reads a warning that torch prints when a program ends normally and left its
// process group open.
func (s *Scanner) readExit(l *line) {
	if l.rank >= 0 && len(s.job.exited) < maxEntries && s.job.exited[l.rank] == nil {
		s.job.exited[l.rank] = s.newEvent(s.matcher.byKey[rowPeerExited], l)
	}
}

// exitEvent returns an event for the first rank that ended normally before the others
// lost a peer, nil if there is none.
func (s *Scanner) exitEvent(all []*hypothesis) *event {
	var lost []*event
	for _, h := range all {
		if h.row.Kind.has(lossOfPeer) {
			lost = append(lost, h.events...)
		}
	}
	if !slices.ContainsFunc(lost, func(e *event) bool { return !e.isMild() }) {
		return nil
	}
	var first *event
	for rank, e := range s.job.exited {
		isAhead := len(lost) > 0
		for _, o := range lost {
			isAhead = isAhead && o.rank != rank && before(e, o)
		}
		if isAhead && !e.handled && (first == nil || before(e, first)) {
			first = e
		}
	}
	return first
}

// addressesOf returns the addresses of one family that a host announced. Each host
// announces one.
func (n *ncclLines) addressesOf(host string) []string {
	var all []string
	for _, address := range slices.Sorted(maps.Keys(n.addresses)) {
		if n.addresses[address] == host && strings.Contains(address, ".") {
			all = append(all, address)
		}
	}
	return all
}

// hostIDEvent returns an event if two ranks on different hosts say that they share a
// GPU: NCCL takes the hosts for one.
func (s *Scanner) hostIDEvent(all []*hypothesis) *event {
	hosts := map[int]string{}
	for _, h := range all {
		for _, e := range h.events {
			if h.row.Key != rowTwoOnGPU || len(e.named) != 2 || e.host == "" {
				continue
			}
			hosts[e.named[0]] = e.host // the rank that prints the line comes first in it
			other := hosts[e.named[1]]
			if addresses := s.job.nccl.addressesOf(e.host); len(addresses) > 1 { // two hosts of one name
				other = strings.Join(addresses, ", ")
			}
			if other != "" && other != e.host {
				both := *e
				both.row = s.matcher.byKey[rowHostID]
				both.kind, both.host, both.derived = both.row.Kind, "", true
				both.text = other + " and " + e.host + ": " + e.text
				return &both
			}
		}
	}
	return nil
}

// hintTail is how many telling lines at the end of a log may have the hint.
const hintTail = 8

// counter matches a name and its number.
var counter = lazyRegexp(`[\w-]+[ :=]{1,3}-?\d[\w.%/]*`)

// readHint looks for words of a failure in the last lines of a log. They count only if
// nothing else in the logs does.
func (s *Scanner) readHint() {
	log := len(s.logs) - 1
	if s.job.hint != nil || s.job.wentWell[log] || s.logs[log].isTail {
		return
	}
	words := s.matcher.wordings
	text, number := s.previous, s.number
	for range hintTail {
		end := bytes.TrimRight(text, "\r\n\t ")
		number -= int64(bytes.Count(text[len(end):], []byte{'\n'}))
		at := bytes.LastIndexAny(end, "\r\n") + 1
		h, rest := readHead(end[at:][:min(len(end)-at, maxMatched)])
		text = end[:at]
		switch {
		case len(end) == 0:
			return
		case noWords().Match(rest) || words.isUnloud(rest):
		case words.has(hintWords, counter().ReplaceAll(rest, nil)):
			isWeak := words.has(summaryWords, rest) || words.has(cascadeWords, rest)
			if s.job.hint == nil || !isWeak {
				s.job.hint = s.newEvent(s.matcher.byKey[rowLogged], &line{head: h, raw: rest, number: number, stream: streamKey{log, h.label}})
			}
			if !isWeak {
				return
			}
		case words.has(progressWords, rest):
			return
		}
	}
}
