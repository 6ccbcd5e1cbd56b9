package diagnose

import (
	"bytes"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// maxLastWords is how many lines before a worker's end lastWords reads.
const maxLastWords = 80

// noWords matches lines that say nothing about why a program ended: of launchers, of
// the frames of a stack, of progress bars and empty boxes.
var noWords = anyOf(
	`^\W*$`, `^frame #\d+: `, ` NCCL INFO `, `^(?:usage|Usage): `, `^\s`, `^(?:srun|slurmstepd|salloc|sbatch)\b`, `\d+%\|`, `it/s\]`, `^[EWIF]\d{4} `,
	`torch[./]distributed[./](?:elastic|run|launch)`, `OMP_NUM_THREADS`, `^\[[EWIF]\b`, `HYDRA_FULL_ERROR`, `Killing subprocess`, `^(?:Thread|Current thread) 0x`, `^Extension modules: `, `(?i)^(?:#\d+ |\[0x|0x[0-9a-f]+|@ +0x|\*\*\* |Fatal Python error: |Aborted|backtrace|Stack trace|\[\S+:\d+\] (?:\[ *\d+\]|\*\*\*|Signal|Failing at)|Signal(?: code)?: |Failing at address|Process received|\d+:? +0x|=====|\d+ +\S+\.so)`,
	`^(?:Primary job |a non-zero exit code|thus causing|the job to be terminated|(?:mpirun|prterun|mpiexec) detected)`,
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
		if len(text) == 0 {
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
	deepspeedLine = lazyRegexp(`exits with return code = (-?\d+)`)
	localRankFlag = lazyRegexp(`--local[_-]rank=(\d+)`)
	mpirunLine    = lazyRegexp(`process rank (\d+) with PID (\d+) on node (\S+) exited on signal (\d+)`)
	composerLine  = lazyRegexp(`Rank (\d+) crashed with exit code (-?\d+)`)
	paddleLine    = lazyRegexp(`Container rank (\d+) status failed .*\bcode (-?\d+)|the trainer process with rank=\[(\d+)`)
	hydraLine     = lazyRegexp(`^= +(?:RANK (\d+) )?PID (\d+) RUNNING AT (\S+)`)
	hydraCode     = lazyRegexp(`^= +(?:EXIT CODE|KILLED BY SIGNAL): (\d+)`)
	spawnLine     = lazyRegexp(`^(?:\S*ProcessExitedException|Exception): process (\d+) terminated with (?:signal (SIG\w+)|exit code (\d+))`)
	spawnedLine   = lazyRegexp(`^-- Process (\d+) terminated with the following error`)
)

// readDeepSpeed reads the line in which DeepSpeed's launcher tells a worker's end.
func (s *Scanner) readDeepSpeed(l *line) {
	m := deepspeedLine().FindSubmatch(l.raw)
	if m == nil {
		return
	}
	e := s.newEvent(s.matcher.byKey[rowNoReason], l)
	e.local = max(e.local, number(localRankFlag(), l.raw))
	code, _ := strconv.Atoi(string(m[1]))
	s.addEnd(workerEnd{event: e, code: code, isRoot: true, lastWords: s.lastWords(e)})
}

// readMpirun reads the line in which mpirun tells the first process that a signal
// ended.
func (s *Scanner) readMpirun(l *line) {
	m := mpirunLine().FindSubmatch(l.raw)
	if m == nil {
		return
	}
	e := s.newEvent(s.matcher.byKey[rowNoReason], l)
	e.rank, _ = strconv.Atoi(string(m[1]))
	e.pid, _ = strconv.Atoi(string(m[2])) // newer releases print 0
	e.host = plainText(m[3])
	signal, _ := strconv.Atoi(string(m[4]))
	s.addEnd(workerEnd{event: e, code: -signal, isRoot: true, lastWords: s.lastWords(e)})
}

// readComposer reads the line in which Composer's launcher tells a worker's end.
func (s *Scanner) readComposer(l *line) {
	m := composerLine().FindSubmatch(l.raw)
	if m == nil {
		return
	}
	e := s.newEvent(s.matcher.byKey[rowNoReason], l)
	e.rank, _ = strconv.Atoi(string(m[1]))
	code, _ := strconv.Atoi(string(m[2]))
	s.addEnd(workerEnd{event: e, code: code, isRoot: true, lastWords: s.lastWords(e)})
}

// readPaddle reads the line in which Paddle's launcher tells a worker's end.
func (s *Scanner) readPaddle(l *line) {
	m := paddleLine().FindSubmatch(l.raw)
	if m == nil {
		return
	}
	e := s.newEvent(s.matcher.byKey[rowNoReason], l)
	code := 1
	if len(m[3]) > 0 {
		e.rank, _ = strconv.Atoi(string(m[3]))
	} else {
		e.rank, _ = strconv.Atoi(string(m[1]))
		code, _ = strconv.Atoi(string(m[2]))
	}
	s.addEnd(workerEnd{event: e, code: code, isRoot: true})
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
		s.job.named.rank, _ = strconv.Atoi(string(m[1]))
	}
}

var (
	processName  = lazyRegexp(`Process name: \[(?:\[\d+,\d+\],|\S+@\d+,)(\d+)\]`)
	exitCodeLine = lazyRegexp(`(?i)\bexit(?:ed)?(?: ?code| status|ed with|s with)(?: (?:non-?zero|code|status|exit|return|error))* ?[:= (]*(-?\d+)|\breturn(?:ed)?(?: non-?zero)?(?: exit)? (?:code|status):?[ =]+(-?\d+)|(core dumped)`)
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
// failed.
func (s *Scanner) readExitCode(l *line) {
	m := exitCodeLine().FindSubmatch(l.raw)
	if m == nil || s.matcher.wordings.has(goesOnWords, l.raw) {
		return
	}
	code, _ := strconv.Atoi(string(m[1]) + string(m[2]))
	if code == 0 && len(m[3]) == 0 {
		return
	}
	s.job.failed = true
	if e := s.job.named; e != nil && e.log == l.stream.log && l.number-e.number <= 2 {
		s.addEnd(workerEnd{event: e, code: code, isRoot: true, lastWords: s.lastWords(e)})
		s.job.named = nil
	}
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
		if h.row.isLostPeer() {
			lost = append(lost, h.events...)
		}
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
