package diagnose

import (
	"bytes"
	"strings"

	"github.com/gorun/gorun/launch/diagnose/catalogue"
	"github.com/gorun/gorun/launch/diagnose/match"
	"github.com/gorun/gorun/launch/diagnose/prefix"
)

// outcomes holds the lines that say that all errors before them were overcome: the
// last such line of each log.
type outcomes map[int]int64

// successLine matches what programs and launchers print when a job ended well.
const successLine = `(?i)worker group successfully finished|\b\d+ passed\b.* in [\d.]+ ?s|\[  PASSED  \]|\b(?:done|finished|completed) training\b|\btrain(?:ing)? (?:was |is |has )?(?:finished|complete[d]?\b)|` +
	"Trainer\\.fit` stopped:" + `|Out of bounds values : 0 OK|\ball \d+ tests passed|\b100% tests passed|^test result: ok\b|^# fail 0\b|^Ran \d+ tests? in [\d.]+s$|^ok  \t|^Tests: .*\d+ passed, \d+ total|'train_runtime': |\btraining is done\b|Total run time: |^total images/sec: |^Total img/sec on \d`

// jobSuccessLine matches what programs that start jobs print when a job ended well.
const jobSuccessLine = `(?i)\b(?:job|run|workflow|experiment|pipeline|execution|analysis|simulation|calculation)\b.{0,60}\b(?:succeeded|successful|completed successfully|finished successfully)\b|^(?:all )?(?:done|finished|completed) successfully|\b(?:execution|pipeline|workflow|job|run|exit) status: OK$|^\d+ of \d+ steps \(100%\) done|^All tests passed\b|\bBUILD SUCCESS\b|^\S*job\S*/\S+\s+(?:Succeeded|Complete)\b|(?-i:\bFinal app status: SUCCEEDED\b|\b\d+ COMPLETED$|\bCOMPLETED +(?:exit )?0:0\b|REQUEST_COMPLETE_BATCH_SCRIPT, error:0 status:0$|\bMarking task as SUCCESS\b|^(?:integration|all|overall|result|suite|checks?|tests?)\b.{0,20}: PASSED$)|\b\d+ passed, 0 failed$|\bdone, 0 errors\b|^exit status 0$|\b(?:horovodrun|torchrun|mpirun|mpiexec|srun|sbatch|deepspeed|launcher|script|job) exited with (?:exit |return )?(?:code|status)[ :=]+0\b|\b(?:stopped|finished|done|ended|completed|exited)(?: with rc=0|, rc=0|: rc=0| \(rc=0| rc=0)\b|\bJob \d+ finished: .*, took [\d.]+ s$|^PASSED$|\b(?:finished|completed|done|ended)\b.{0,60}, exit(?: code| status)? 0$|^\[job\] .*\bexit status 0\b|(?:^|[\s\]])(?:torchrun|mpirun|mpiexec|srun|deepspeed|accelerate|horovodrun|launcher|script|job|run) exit (?:code|status)[ :=]+0\b|\bjob-controller\s+Job completed$|\b\w*JobSucceeded\b|^[a-z0-9][a-z0-9.-]* +Succeeded +\d+[smhd]`

// failedState matches a job or task in a table of Slurm that did not end well.
const failedState = `(?-i:^\s*\d\S*\s.*\b(?:FAILED|TIMEOUT|NODE_FAIL|OUT_OF_ME\w*|BOOT_FAIL|CANCELLED\S*)) +\d+:\d+(?:\s|$)`

// failedTaskLine matches the end of a task in a log of Airflow that did not end well.
const failedTaskLine = `(?-i:\bMarking task as FAILED\b)`

// failedEnd matches what stands in the last lines of a job that failed: the end of its
// script, and what schedulers and their tables say.
var failedEnd = match.Lazy(`(?i), exit [1-9]\d{0,2}\b|^\W*exit [1-9]\d{0,2}$|\bexit_status:?\s+[1-9]\d{0,2}\b|\bjob \S+ (?:has )?failed\b|\bjob execution failed\b|code=exited, status=[1-9]|\bJob was held\b|^[a-z0-9][a-z0-9.-]*\s+(?:\d+/\d+\s+)?(?-i:Error|Failed|Aborted)\s|\bstatus: +failed$|Received sigquit from a child process|\bBackoffLimitExceeded\b|\bJob allocation \d+ has been revoked\b|\bJobHoldMaxRequeue\b|\bhas terminated without calling MPI_Finalize\b|\bwith status [1-9]\d{0,2}$|\bPods Statuses:.* [1-9]\d* Failed\b|\bswitched from state \w+ to FAILED\b|\bJob is in error state\b|^(?:job|script|run) (?:finished|ended|exited) with [1-9]\d{0,2}$`)

// exitZeroLine matches the good end of a process or a task that may not be the whole job.
const exitZeroLine = `(?i)\b(?:task|trial)\b.{0,60}\b(?:succeeded|successful|completed successfully|finished successfully)\b|\bexit(?:ed with)? (?:code|status)[ :=]+0\b|\bexited with (?:return|exit) code 0\b|^exit[ =:]0$|"exit_?code":\s*0\b`

// failedTests matches a summary of tests of which some failed.
var failedTests = match.Lazy(`(?i)\b[1-9]\d* (?:failed|errors?)\b`)

// restartLine matches what launchers print when they start the workers once more.
const restartLine = `(?i)will restart worker group|\b(?:job|attempt|run|training)\b.{0,60}\b(?:relaunching|relaunched|resubmitting|resubmitted)\b|\b(?:relaunching|relaunched|resubmitting|resubmitted)\b.{0,30}\b(?:job|run|training|nodes)\b|\breset workers: \d+|: restoring the last commit|\brecovered from (?:the |a )?failure|gorun\S*: restart \d+ of \d+: `

// resumeLine matches what a program prints when it goes on from a checkpoint: an end of
// the job before it, from outside, was overcome.
const resumeLine = `(?i)\bSLURM_RESTART_COUNT[=:] ?[1-9]|\bresum(?:ing|ed)(?: training| run)? from\b|\bresume: found\b|\(restart [1-9]\d*\)$|\brestor(?:ing|ed) (?:\w+ )?from (?:checkpoint|step|epoch)\b|\brestoring (?:the )?(?:last |latest )?checkpoint\b`

// readSuccess reads a line that says that the job, or its part, ended well.
func (s *Scanner) readSuccess(l *line, _ *match.Fields) {
	switch {
	case failedTests().Match(l.raw), noSuccess().Match(l.raw), isPartly(l.raw), s.logs[l.stream.log].isTail:
	case l.Rank > 0 || l.Local > 0 || l.Task > 0: // rank 0 speaks for all
		s.overcomeIn(l.stream)
	default:
		s.overcome(l)
		s.job.wentWell[l.stream.log] = true
	}
}

// noSuccess matches a line that has the words of a good end and means something else.
var noSuccess = match.Lazy(`(?i)\b(?:not|no|never|cannot|can't|won't|without success|un\w*success\w*)\b|, but |\bwith (?:\d+ )?errors?\b|: false\b|\(failed\)|\b(?:previous|last|earlier) (?:job|run|attempt|task)\b|\bsync\w*\b|\b(?:epoch|step|iter\w*) \d`)

// partOf matches a number of parts.
var partOf = match.Lazy(`\b(\d+) (?:of|/) (\d+)\b`)

// isPartly reports whether a line speaks of some of several parts.
func isPartly(line []byte) bool {
	m := partOf().FindSubmatch(line)
	return m != nil && !bytes.Equal(m[1], m[2])
}

// readFailedState reads a task that did not end well. That other tasks of the
// table completed says nothing then.
func (s *Scanner) readFailedState(l *line, _ *match.Fields) {
	s.readFailure(l, nil)
	s.job.failedTask = l.ref()
	s.job.failedJobs.add(slurmJob(l.raw))
	if host := s.hostInTable(l.raw); host != "" {
		s.logs[l.stream.log].ranOn.add(host)
	}
}

// readFailedTask reads the end of a task of Airflow that did not end well.
func (s *Scanner) readFailedTask(l *line, _ *match.Fields) {
	s.readFailure(l, nil)
	s.job.failedTask = l.ref()
}

// weighEnd takes the job for failed if one of its last lines says so. A line that the job
// ended well ends what the lines before it say.
func (s *Scanner) weighEnd() {
	log := len(s.logs) - 1
	wasOvercome := s.job.overcome[log]
	if task := s.job.failedTask; task.log == log && task.number > wasOvercome && s.number-task.number < lastLines {
		s.job.failed = true
	}
	for l := range s.linesAtEnd(lastLines) {
		if l.number > wasOvercome && failedEnd().Match(l.raw) && !s.matcher.wordings.GoesOn(l.raw) && !serviceLine().Match(l.raw) {
			s.job.failed = true
		}
	}
}

// endOfPart matches the good end of one container of docker compose.
var endOfPart = match.Lazy(`^([\w.-]+) exited with code 0$`)

// readJobSuccess reads a line that says that the job ended well, which counts if no worker
// wrote it.
func (s *Scanner) readJobSuccess(l *line, f *match.Fields) {
	isBeside := s.job.failedTask.number > 0 && l.ref().near(s.job.failedTask, detailLines)
	failed := s.job.failedJobs.known()
	isOther := isBeside && (failed == "" || slurmJob(l.raw) != failed) // task of the table; the same one was requeued
	if l.Rank < 0 && l.Local < 0 && l.Task < 0 && !isOther {
		s.readSuccess(l, f)
	}
}

// slurmJob returns the job of a row of a table of Slurm: its first word, without the step.
func slurmJob(row []byte) string {
	row = bytes.TrimLeft(row, " ")
	return string(row[:max(0, bytes.IndexAny(row, " .|"))])
}

// readExitZero reads the good end of a process. It makes the errors before it doubtful, and
// those of the container that it names overcome.
func (s *Scanner) readExitZero(l *line, _ *match.Fields) {
	if m := endOfPart().FindSubmatch(l.raw); m != nil {
		h, _ := prefix.ReadHead(append(bytes.Clone(m[1]), " | "...))
		s.overcomeIn(streamKey{l.stream.log, h.Label})
	} else if l.Rank < 0 && l.Local < 0 && l.Task < 0 {
		s.job.wentWell[l.stream.log] = true
	}
}

// overcomeIn marks the errors of a stream as overcome.
func (s *Scanner) overcomeIn(stream streamKey) {
	for _, g := range s.groups {
		for _, e := range g.events {
			e.handled = e.handled || e.stream == stream
		}
	}
}

// failureLine matches lines which say that the job has failed: of Python's unittest,
// mpirun, and the runtime of Go.
const failureLine = `(?i)\bPML \S+ cannot be selected|^Error executing job with overrides:|FAILED \((?:failures|errors)=|\b(?:OR|PR)TE was unable to reliably start one or more daemons|^runtime stack:$|^fatal error: all goroutines are asleep`

// readFailure reads a line that says of those before it that the job failed.
func (s *Scanner) readFailure(l *line, _ *match.Fields) {
	delete(s.job.overcome, l.stream.log)
	s.job.failed = true
}

// readServerBack marks the events of a server as handled that answers again.
func (s *Scanner) readServerBack(l *line, f *match.Fields) {
	silent := "nfs: server " + f.Text("host") + " not responding"
	for _, g := range s.groups {
		if g.row.ID() != "X-NODE-HUNG" {
			continue
		}
		for _, e := range g.events {
			e.handled = e.handled || e.stream == l.stream && strings.Contains(e.text, silent)
		}
	}
}

// negation matches the words of a line that says that something does not happen.
var negation = match.Lazy(`(?i)\b(?:no|not|never|cannot|can't|won't|disabled)\b`)

// readRestart reads a launcher's line about a restart. The failure of the attempt
// before it is not why the job failed.
func (s *Scanner) readRestart(l *line, _ *match.Fields) {
	if !negation().Match(l.raw) {
		s.overcome(l)
		s.job.restarted[l.stream.log] = l.number
	}
}

// commandLine matches a command that starts a job, behind the prompt of a shell.
const commandLine = `^(?:[\w.-]+@[\w.-]+[^$]{0,60}|\[[\w.-]+@[^\]]{1,60}\]|)\$ (?:srun|mpirun|mpiexec|prterun|torchrun|accelerate|deepspeed|horovodrun|gorun|python[\d.]*|docker run|apptainer|singularity) .*`

// maxCommands bounds the commands that are kept.
const maxCommands = 64

// readCommand reads a command that the user typed. Where it is the same as one before, at
// the same prompt, the user tried again.
func (s *Scanner) readCommand(l *line, _ *match.Fields) {
	typed := command{l.stream, string(l.raw)}
	if s.job.commands[typed] {
		s.overcome(l)
		s.job.restarted[l.stream.log] = l.number
	} else if len(s.job.commands) < maxCommands {
		s.job.commands[typed] = true
	}
}

// command is a line with a command that the user typed.
type command struct {
	stream streamKey
	text   string
}

// readResume marks the ends from outside before the line as overcome.
func (s *Scanner) readResume(l *line, _ *match.Fields) {
	for _, g := range s.groups {
		for _, e := range g.events {
			e.handled = e.handled || e.kind == catalogue.Stop && e.log == l.stream.log
		}
	}
}

// overcome forgets the ends and the waits of the attempt that is over, and marks the
// errors before the line as overcome.
func (s *Scanner) overcome(l *line) {
	if s.logs[l.stream.log].isTail {
		return
	}
	s.endTracebacks(func(t *tracebackReader) bool { return t.firstLine <= l.number })
	s.job.overcome[l.stream.log] = l.number
	s.job.failed = false
	s.job.ends, s.job.firstExit = nil, nil
	s.job.firstTimeout = nil
	clear(s.job.timeouts)
	clear(s.job.stopped)
	clear(s.job.queued)
	clear(s.job.writers.agents)
	s.job.folded = 0
	clear(s.job.inits)
	s.job.writers.announced = newAnnouncements()
}

// endedWell reports whether a line after e says that the job, or its part, ended well.
func (s *Scanner) endedWell(e *event) bool {
	return s.wasOvercome(e) && s.job.restarted[e.log] < s.job.overcome[e.log]
}

// wasOvercome reports whether a later line of the log says that the job went on.
func (s *Scanner) wasOvercome(e *event) bool { return e.number < s.job.overcome[e.log] }

var (
	// warningLine matches the front of a line that a logger wrote as a warning.
	warningLine = match.Lazy(`^(?:[-\d:,.T |]*)?(?:\| |\[)?(?:WARNING|WARN)\b`)
	// dataLine matches the front of a line that shows a program's data.
	dataLine = match.Lazy(`(?i)^(?:question|answer|input|output|label|prompt|response|user|assistant|target|prediction)(?: \d+)?\s?[:=] `)
	// quotedMessage matches the front of a line of glog whose whole message is in quotes.
	quotedMessage = match.Lazy(`^[EWIF]\d{3,4} \S+ +\d+ \S+:\d+\] "`)
	levelKey      = match.Lazy(`"(?:level|severity|levelname)"\s*:`)
)

// errorFront matches the front of an error that quotes its cause, and of lines of klog and
// of loggers with fields, which quote their text.
var errorFront = match.Lazy(`(?i)^\W*(?:\w+ ){0,4}(?:failed|failure|error)\b|\.go:\d+\] "[^"]*$|\berr(?:or)?="[^"]*$|^\W*(?:message|reason|description|details?)"?: "`)

// isQuoted reports whether the match at the byte at stands in a text that the program
// quotes: a string that is open there, or a line of its data.
func isQuoted(raw []byte, at int) bool {
	if dataLine().Match(raw) {
		return true
	}
	if field := bytes.TrimLeft(raw[:min(len(raw), 40)], " "); bytes.HasPrefix(field, []byte(`"message": "`)) || bytes.HasPrefix(field, []byte(`"py_callstack": "`)) { // the same in several lines
		return false
	}
	if bytes.HasPrefix(raw, []byte(`ErrorMessage "`)) || bytes.HasPrefix(raw, []byte(`{"message": {"message": "`)) { // of SageMaker's training toolkit, of torch's error files
		return false
	}
	if quotedMessage().Match(raw) && bytes.HasSuffix(bytes.TrimRight(raw, " "), []byte{'"'}) {
		return false
	}
	if raw[0] == '"' && bytes.LastIndexByte(raw, '"') == len(bytes.TrimSpace(raw))-1 && bytes.Count(raw, []byte{'"'}) == 2 { // the whole line
		return false
	}
	if bytes.Count(raw[:at], []byte{'"'})%2 == 0 || errorFront().Match(raw[:at]) {
		return false
	}
	return raw[0] != '{' || !levelKey().Match(raw)
}

// readExit reads a warning that torch prints when a program ends normally and left its
// process group open.
func (s *Scanner) readExit(l *line, _ *match.Fields) {
	if l.Rank >= 0 && len(s.job.exited) < maxEntries && s.job.exited[l.Rank] == nil {
		s.job.exited[l.Rank] = s.newEvent(s.matcher.byKey[catalogue.RowPeerExited], l)
	}
}

// readStopping notes the first line that says that a worker was told to stop. What the
// workers print after it may be an effect.
func (s *Scanner) readStopping(l *line, _ *match.Fields) {
	if s.job.stopping == nil {
		s.job.stopping = s.newEvent(s.matcher.byKey[catalogue.RowStopped], l)
	}
}
