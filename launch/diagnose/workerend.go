package diagnose

import (
	"bytes"
	"cmp"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/gorun/gorun/launch/diagnose/catalogue"
	"github.com/gorun/gorun/launch/diagnose/match"
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
	// lastWords is the last telling line of the log before the end. The excerpt has those
	// before it.
	lastWords string
	excerpt   *excerpt
}

// endPatterns match the lines in which launchers tell a worker's end. Their groups name
// the worker (rank, local, pid, host, tasks) and its end (code, signal; abort if the worker
// ended the job itself; failed if the line tells no code). A line without an end is
// followed by one that has it.
func endPatterns() []string {
	return []string{
		// gorun, srun, torchrun, spawn.py of torch
		`gorun(?:\[\S+\])?: (?:job failed: )?rank (?P<rank>\d+) on (?P<host>\S+)(?: \(\S+\))?, pid (?P<pid>\d+) (?:exited with code (?P<code>\d+)|was killed by (?P<signal>SIG\w+))`,
		`srun: error: (?P<host>\S+): tasks? (?P<tasks>[-,\d]+): (?:(?P<signal>Killed|Aborted)|Exited with exit code (?P<code>\d+)|)`,
		`failed \(exitcode: (?P<code>-?\d+)\) local_rank: (?P<local>\d+) \(pid: (?P<pid>\d+)\)(?: of binary: (?P<binary>\S+))?`,
		// Composer, DeepSpeed, torch before 1.9, Paddle, text-generation-inference. DeepSpeed and
		// torch print the command of the worker that they started last, whichever failed.
		`Child process (?P<pid>\d+) \(local_rank (?P<local>\d+)\) FAILED \(exitcode (?P<code>-?\d+)\)`,
		`exits with return code = (?P<code>-?\d+)`,
		`CalledProcessError: Command .*--local[_-]rank=\d+\b.*(?:returned non-zero exit status (?P<code>\d+)|died with <Signals\.(?P<signal>SIG\w+))`,
		`[Rr]ank (?P<rank>\d+) (?:crashed with exit|\(PID \d+\) exited with) code (?P<code>-?\d+)`,
		`Container rank (?P<rank>\d+) status failed .*\bcode (?P<code>-?\d+)|(?P<failed>the trainer process with rank=)\[(?P<rank2>\d+)`,
		`Shard process was signaled to shutdown with signal (?P<signal>\d+) rank=(?P<rank>\d+)`,
		// mpirun, prterun, Horovod, Hydra (mpiexec), mpirun_rsh, jsrun, ALPS, plexec
		`process rank (?P<rank>\d+) with PID (?P<pid>\d+) on node (?P<host>\S+) exited on(?:\s+signal (?P<signal>\d+))?`,
		`Process name: \[(?:\[\d+,\d+\],|\S+@\d+,)(?P<rank>\d+)\]|Process name: (?P<host>[\w.-]+)\[(?P<local>\d+)\]`,
		`^= +(?:RANK (?P<rank>\d+) )?PID (?P<pid>\d+) RUNNING AT (?P<host>\S+)`,
		`(?:\[(?P<host>[\w.-]+)\] - Abort\(.*)?(?:(?P<abort>MPI_ABORT was invoked on rank) (?P<rank>\d+)|(?P<abort2>application called MPI_Abort\(.*process) (?P<rank2>\d+))`,
		`^(?P<abort>MPI Abort by user) `,
		`^MPT ERROR: (?P<abort>Rank )(?P<rank>\d+)\(g:\d+\) is aborting`,
		`exited due to process rank (?P<rank>\d+) with PID (?P<pid>\d+) on`,
		`(?:^\[(?P<host>[\w.-]+):mpispawn_\d+\].*)?MPI process \(rank: (?P<rank>\d+), pid: \d+\) (?:terminated with signal (?P<signal>\d+)|exited with status (?P<code>\d+))`,
		`first noticed rank (?P<rank>\d+)\) (?:terminated with signal (?P<signal>\d+)|exited with (?:non-zero )?(?:code|status) (?P<code>\d+))`,
		`PE RANK (?P<rank>\d+) exit (?:signal (?P<signal>[\w ]+)|code (?P<code>\d+))`,
		`plexec The process terminated .*\(rank=(?P<rank>\d+)\).*\(sig=(?P<signal>\d+)\)`,
		`plexec One of (?P<failed>MPI processes was aborted)\.\(rank=(?P<rank>\d+)\)`,
		`exit status of rank (?P<rank>\d+): (?:killed by signal (?P<signal>\d+)|return code (?P<code>\d+))`,
		// PALS. Other programs use its words, so its line counts with a host only.
		`^(?:(?P<host>[\w.-]+): |(?P<bare>))rank (?P<rank>\d+) (?:died from signal (?P<signal>\d+)|exited with code (?P<code>\d+))`,
	}
}

// endCodes matches the line that follows one of a launcher's that names the worker and
// not its end: of prterun and of Hydra, which writes signals as codes. readExitCode reads
// the others.
const endCodes = `^signal (?P<signal>[4-9]|11|15) \(|^= +(?:EXIT CODE|EXIT STATUS|KILLED BY SIGNAL): (?P<signal2>6|9|11|15)\b|^= +KILLED BY SIGNAL: (?P<signal3>\d+)`

// readEnd reads the line in which a launcher tells a worker's end.
func (s *Scanner) readEnd(l *line, f *match.Fields) {
	l.setWriter(f)
	if f.Has("bare") && l.Host == "" {
		return // another program's words
	}
	tasks := tasksOf(f.Text("tasks"))
	for _, task := range tasks {
		l.Task = -1
		if len(s.job.taskHosts) < maxEntries {
			s.job.taskHosts[task] = l.Host
		}
	}
	if len(tasks) == 1 {
		l.Task = tasks[0]
	}
	end := workerEnd{event: s.newEvent(s.matcher.byKey[catalogue.RowNoReason], l), isRoot: tasks == nil, isAbort: f.Has("abort"), binary: f.Text("binary")}
	if len(tasks) > 1 {
		end.event.named = tasks[:min(len(tasks), maxRanks)]
	}
	switch {
	case f.Text("signal") != "":
		end.code = -signalNumber(f.Text("signal"))
	case f.Text("code") != "":
		end.code = f.Number("code")
	case end.isAbort || f.Has("failed"):
		end.code = 1
	default:
		if tasks == nil {
			s.job.ending = end.event
		}
		return
	}
	if end.code == 0 { // a launcher that was told to end the job
		return
	}
	end.lastWords, end.excerpt = s.lastWords(end.event)
	s.addEnd(end)
}

// readReporter reads the line in which Open MPI names the rank whose error it reports.
func (s *Scanner) readReporter(l *line, f *match.Fields) {
	if e := s.lastEvent; e != nil && e.row.Key == catalogue.RowMPI && e.stream == l.stream && l.number-e.number < 3 && e.rank < 0 {
		e.rank = f.Number("rank")
	}
}

// readEndHost reads the host of the worker that the line before it names: of Open MPI 1.
func (s *Scanner) readEndHost(l *line, f *match.Fields) {
	if e := s.job.ending; e != nil {
		e.host = f.Text("host")
	}
	s.endNamed(l, 1)
}

// readEndCode reads the line with the end of the worker that a line before it names.
func (s *Scanner) readEndCode(l *line, f *match.Fields) {
	s.endNamed(l, -signalNumber(f.Text("signal")))
}

// endNamed records the end of the worker that a line before l names.
func (s *Scanner) endNamed(l *line, code int) {
	if e := s.job.ending; e != nil && l.ref().near(lineRef{e.log, e.number}, 3) {
		words, x := s.lastWords(e)
		s.addEnd(workerEnd{event: e, code: code, isRoot: true, lastWords: words, excerpt: x})
		s.job.ending = nil
	}
}

// setWriter gives a line about a worker to that worker.
func (l *line) setWriter(f *match.Fields) {
	set := func(name string, n *int) {
		if v := f.Number(name); v >= 0 {
			*n = v
		}
	}
	set("rank", &l.Rank)
	set("local", &l.Local)
	set("pid", &l.PID)
	l.Host = cmp.Or(f.Text("host"), l.Host)
}

// signalNumber returns the number of a signal, which launchers give as a number, a name
// or a meaning.
func signalNumber(text string) int {
	n, err := strconv.Atoi(text)
	switch {
	case err == nil:
		return n
	case strings.HasPrefix(text, "SIG"):
		return int(cmp.Or(unix.SignalNum(text), unix.SIGTERM))
	case strings.HasPrefix(text, "Segmentation"):
		return int(unix.SIGSEGV)
	case strings.EqualFold(text, "killed"):
		return int(unix.SIGKILL)
	}
	return int(unix.SIGABRT)
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

// addSpawnEnd records the end of a process that torch.multiprocessing started, as its
// exception tells it. ok reports whether text is such an exception.
func (s *Scanner) addSpawnEnd(text string, l *line) (ok bool) {
	f := match.FindFields(spawnLine(), []byte(text))
	if f == nil {
		return false
	}
	e := s.newEvent(s.matcher.byKey[catalogue.RowNoReason], l)
	e.text = match.PlainText([]byte(text))
	if e.rank < 0 {
		e.local = f.Number("local")
	}
	code := f.Number("code")
	if signal := f.Text("signal"); signal != "" {
		code = -signalNumber(signal)
	}
	s.addEnd(workerEnd{event: e, code: code, isRoot: true})
	return true
}

var (
	spawnLine   = match.Lazy(`^(?:\S*ProcessExitedException|Exception): process (?P<local>\d+) terminated with (?:signal (?P<signal>SIG\w+)|exit code (?P<code>\d+))`)
	spawnedLine = match.Lazy(`^-- Process (\d+) terminated with the following error`)
)

// exitCode matches an exit code in any words.
const exitCode = `(?i)\bexit(?:ed|ing)?(?: ?code| status| value|ed with|s with| with (?:code|status|value|exit|return|error|non))(?: (?:non-?zero|code|status|exit|return|error))* ?[:= (]*(?P<code>-?\d+)|\b(?:finished|ended|completed|terminated|failed|stopped|done)(?: at \S+)?,? with (?:exit (?:status|code)|rc|non-?zero status)[ =:]*(?P<code3>-?\d+)|^\S*(?:\[\S+\] )?\S+ (?:\S+ )?(?:finished|ended|terminated|failed) with (?:status|code) (?P<code5>[1-9]\d{0,2}) at |\(return value (?P<code4>\d+)\)|\breturn(?:ed)?(?: non-?zero)?(?: exit)? (?:code|status):?[ =]+(?P<code2>-?\d+)|(?P<core>\(core dumped\)|core dumped$)`

// exitSignal matches a process's end by a signal, in any program's words.
const exitSignal = `\bNegsignal\.(?P<signal>SIG\w+)|\bcode=(?:killed|dumped), status=(?P<signal2>\d+)/|\b(?:killed|terminated|died|crashed) (?:by|with|from|on|due to) signal:? ?(?P<signal3>SIG\w+|\d+)\b|\bsignal: (?P<signal4>killed)\b`

// readExitCode reads an exit code in any words. One that is not 0 shows that the job
// failed. An event of it has the row that the code means.
func (s *Scanner) readExitCode(l *line, f *match.Fields) {
	code := f.Number("code")
	if f.Has("core") {
		code = 1
	}
	if code == 0 || code > 255 || isHTTPCode(code, l.raw) || s.matcher.wordings.GoesOn(l.raw) || kubeletEvent().Match(l.raw) || serviceLine().Match(l.raw) {
		return
	}
	if _, stopped := meaningOfCode(code); !stopped || code > 0 {
		s.job.failed = true
		if !isQuoted(l.raw, f.Start) {
			s.recordExit(l, code)
		}
	}
	s.endNamed(l, code)
}

// isHTTPCode reports whether the code in a line is rather that of a server's answer.
func isHTTPCode(code int, line []byte) bool {
	return code >= 200 && code < 600 && !bytes.Contains(bytes.ToLower(line), []byte("exit"))
}

// kubeletEvent matches events of Kubernetes about programs that the kubelet runs itself.
var kubeletEvent = match.Lazy(`\bFailed(?:Mount|Sync)\b`)

// serviceLine matches the front of a line of a system's log that a service of the node
// wrote, whose ends are not those of the job.
var serviceLine = match.Lazy(`^(?:nvidia-[\w.-]+|nv-\w+|dcgm\S*|containerd|dockerd|kubelet|crond?|CRON|snapd|\S+-exporter|\S+-daemon)\[\d+\]: `)

// readSignal reads the end of a process by a signal.
func (s *Scanner) readSignal(l *line, f *match.Fields) {
	code := -signalNumber(f.Text("signal"))
	if s.matcher.wordings.GoesOn(l.raw) || isQuoted(l.raw, len(l.raw)) {
		return
	}
	if _, stopped := meaningOfCode(code); !stopped {
		s.recordExit(l, code)
		s.job.failed = true
	}
}

// recordExit keeps the last line with an exit code, or a line shortly before it whose
// code says more.
func (s *Scanner) recordExit(l *line, code int) {
	key, _ := meaningOfCode(code)
	if last := s.job.lastExit; key == "" && last != nil && last.row.Key != catalogue.RowNoReason && last.log == l.stream.log && l.number-last.number < detailLines {
		return
	}
	e := s.newEvent(s.matcher.byKey[cmp.Or(key, catalogue.RowNoReason)], l)
	e.nameOrigin(s.matcher.wordings, l.raw)
	s.job.lastExit = e
	if s.job.firstExit == nil {
		s.job.firstExit = e
	}
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
	isSame := func(old workerEnd) bool { return e.isAbort && old.isAbort && old.event.rank == e.event.rank }
	if len(s.job.ends) < maxTracked && !slices.ContainsFunc(s.job.ends, isSame) {
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
		row: s.matcher.byKey[catalogue.RowNoReason], log: n, number: s.number, text: text,
		origin: origin{rank: log.Rank, local: log.Local, task: -1, pid: pid, host: log.Host}, stream: streamKey{log: n},
	}})
}

// endEvents returns the events that the ends of workers make.
func (s *Scanner) endEvents() []*event {
	var all []*event
	for _, end := range s.job.ends {
		key, text := end.meaning()
		if key == "" {
			continue
		}
		e := *end.event
		e.row = s.matcher.byKey[key]
		e.kind, e.text = e.row.Kind, cmp.Or(text, e.text)
		if text == end.lastWords {
			e.excerpt = end.excerpt
		}
		if key == catalogue.RowKilled && !end.isRoot {
			e.kind = catalogue.Consequence // the launcher killed it as a last resort
		}
		all = append(all, &e)
	}
	hasWords := func(e *event) bool {
		return e.row.Key == catalogue.RowLastWords || e.row.Key == catalogue.RowLastLine || e.row.Key == catalogue.RowAborted
	}
	if slices.ContainsFunc(all, hasWords) {
		all = slices.DeleteFunc(all, func(e *event) bool { return e.row.Key == catalogue.RowNoReason })
	}
	return all
}

// meaning returns the row of an end and the line that explains it, if there is one. The
// row is "" if the worker was stopped.
func (end *workerEnd) meaning() (key, text string) {
	key, stopped := meaningOfCode(end.code)
	switch {
	case key == catalogue.RowNotFound && end.lastWords != "" && !notFoundWords().MatchString(end.lastWords): // a program that ran
		return catalogue.RowLastWords, end.lastWords
	case stopped, key != "":
		return key, ""
	case end.noStderr:
		return catalogue.RowNoStderr, ""
	case end.lastLine != "" && end.code > 0:
		return catalogue.RowLastLine, end.lastLine
	case end.lastWords == "" || end.code <= 0 && end.code != -int(unix.SIGABRT):
		return catalogue.RowNoReason, ""
	case end.isAbort:
		return catalogue.RowAborted, end.lastWords
	}
	return catalogue.RowLastWords, end.lastWords
}

// notFoundWords matches what a shell or a launcher says of a program that it cannot run.
var notFoundWords = match.Lazy(`(?i)not found|no such|permission denied|cannot (?:execute|exec|open|run)|exec format|execvp?|\bmodule\b`)

// meaningOfCode returns the row of an exit code that says why a process ended, "" if it
// does not. stopped reports whether a signal from outside ended the process.
func meaningOfCode(code int) (key string, stopped bool) {
	if code > 128 && code < 160 { // a shell reports a signal as 128 plus its number
		code = 128 - code
	}
	switch code {
	case 126, 127: // as shells say it
		return catalogue.RowNotFound, false
	case -int(unix.SIGILL):
		return catalogue.RowIllegal, false
	case -int(unix.SIGFPE), -int(unix.SIGSEGV):
		return catalogue.RowCrashed, false
	case -int(unix.SIGBUS):
		return catalogue.RowBusError, false
	case -int(unix.SIGKILL):
		return catalogue.RowKilled, false
	case -int(unix.SIGTERM), -int(unix.SIGINT), -int(unix.SIGHUP):
		return "", true
	}
	return "", false
}
