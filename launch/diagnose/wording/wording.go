// Package wording weighs a line by its words, whatever program prints it: whether it
// speaks of another failure, sums one up, says that the program goes on, or is no error.
//
// A Class has expressions. Its words name the writer's state, never a cause: causes are in
// the catalogue.
package wording

import (
	"regexp"

	"github.com/gorun/gorun/launch/diagnose/catalogue"
	"github.com/gorun/gorun/launch/diagnose/match"
)

// Class is a class of words by which a line is weighed.
type Class int

const (
	// Cascade words make an error a consequence of an earlier one: a connection that the
	// other side closed, another rank that failed, a stop from outside.
	Cascade Class = iota
	// Summary words make an error the sum of another one.
	Summary
	// Overcome words say that the program overcomes an error.
	Overcome
	// GiveUp words say that the program no longer tries to overcome an error.
	GiveUp
	// Quiet words are of lines that are no errors: at a lower level, a number that is
	// called an error, a line of a launcher that another reader understands.
	Quiet
	// Metric words are of a number that is called an error, unless the line speaks of a failure.
	Metric
	// Fail words speak of a failure.
	Fail
	// Progress words show that the job went on.
	Progress
	// Step words are of a line that shows a number of the training: a step, a loss, a rate.
	Step
	// End words are of lines that a program prints while it ends.
	End
	// Rank and Host words name the rank and the host that a line is about.
	Rank
	Host
	// Hint words are of a failure, in the last lines of a log that shows none otherwise.
	Hint
)

// Wordings returns the expressions of each Class.
func Wordings() [][]string {
	return [][]string{
		Cascade: {
			catalogue.ConnectionClosed, `connection (?:was )?(?:lost|aborted|terminated|shut ?down)|transport endpoint`, `(?:connection|socket|stream|peer|remote|worker|rank|rpc)\b.{0,80}\b(?:end of file|unexpected eof)|\b(?:end of file|unexpected eof)\b.{0,80}(?:connection|socket|stream|peer|remote|worker|rank|rpc)`,
			`(?:another|other|a peer|remote) (?:rank|task|worker|process|node|peer|replica)(?:s|es)? .{0,40}(?:fail|died|exit|crash|abort|lost|dead|disconnect|terminat)`,
			`\b(?:failed|unable) to (?:gracefully )?(?:disconnect|deregister|unregister|shut ?down|tear ?down|stop|terminate|kill|clean ?up)\b`,
			`\bpeer .{0,30}(?:fail|died|gone|exit|lost|disconnect|unreachable)`,
			`\b(?:job step aborted|shut(?:ting)? ?down|SIGTERM|cancell?ed|cancell?ing|interrupted|aborted by|aborting (?:all|other|remaining|the (?:job|run))|terminating (?:process|worker|all)|killing (?:process|worker|all|remaining))\b`,
		},
		Summary: {
			`\bJobState\.FAILED\b`, `\bcompletely failed\b|\bof the failed (?:job|task|step)\b|\b(?:contains?|with) [1-9]\d* failed (?:jobs|tasks|steps)\b|\breturned an error: [1-9]\d{0,2}$`,
			`\b(?:sub)?process(?:es)? .{0,40}(?:exited|died|failed|terminated|non-?zero)`,
			`(?:^|[^:\w])(?:worker\w*|child|job|trial|task|run|training|step|pod|container|command|engine\w*|program|script|launcher|rank) (?:\S+ ){0,2}(?:failed|exited|died|aborted|terminated|returned)(?:\W*$|\W+(?:unexpectedly|prematurely|abruptly|with|see|due|on|after|to (?:start|initiali[sz]e|launch|run))\b)`,
			`\b(?:workers?|process(?:es)?|children|actors?) (?:is|are|was|were) (?:no longer|not) alive\b|\b(?:check|inspect|see|read) (?:\w+ ){1,3}(?:above|previous|earlier)\b`,
			`\bsee (?:the )?(?:root cause|above|other|stack|traceback|logs?|output)|(?:exception|error) (?:occurred )?in a (?:background |sub)?process|check the (?:earlier|previous) (?:errors?|logs?)|exit(?:ed)? (?:status|code)|return code|see stack trace|^ray\.exceptions\.RayTaskError\(|^exiting|core dumped|^(?:Fatal Python error: )?Aborted|\btrial task failed\b|\bsomeone died\b|on an \x60Err\x60 value: Any \{|An error occurred while calling o\d+\.|^[\w.]*(?:Exception|Error): (?:\w+ ){1,2}failed\.?$|\b(?:job|task|trial|worker|function) (?:triggered|raised|threw|encountered|hit) an? (?:exception|error)\b|Error processing event\.$|\b(?:NCCL error|nccl\w+ failed): (?:internal error|unhandled (?:cuda|system) error)\b|ExecuteUserScriptError|was aborted\. please check|^\W*(?:abort|aborting|exiting|quitting|terminating|stopping)(?: \w+)?\W*$`,
		},
		Overcome: {`\b(?:retry|retrying|retries|retried|reconnect\w*|ignor(?:ed|ing)|non-?fatal|harmless|skipp(?:ed|ing)|fall(?:ing)? ?back|continu(?:e|es|ing)|attempt \d+|tolerated|recover(?:ed|ing)|using (?:the |a )?default|defaulting to|backing off|switch(?:ed|ing)? to|revert(?:ed|ing)? to|so (?:set|use|using)|will (?:use|be used))\b`, `(?:^|[^:\w])optional\b`},
		GiveUp: {
			`\bderived errors ignored\b`,
			`\b(?:giving up|gave up|bailing out|exhausted)\b|\btoo many (?:re)?(?:tries|\w*attempts|failures|restarts)\b|\b(?:retries|retry|attempts?|tries)\b.{0,20}\b(?:exceeded|reached)\b|\bexceeded\b.{0,20}\b(?:retries|retry|attempts|tries)\b|\bafter (?:\d+|all|several|multiple|max\w*) (?:re)?(?:tries|attempts)\b`,
			`\bg(?:ives?|iven|ave) up\b|\b(?:max(?:imum)?|no more|out of|all) (?:\w+ ){0,3}(?:retr(?:y|ies)|attempts?|restarts?|reconnects?)\b`,
			`\b(?:cannot|can not|can't|unable to|could not|couldn't|failed to|not|never) (?:be )?(?:\w+ )?(?:continu|recover|retr[yi]|reconnect|ignor|skip|fall)|\byou (?:can|may|must|should|could) (?:\w+ )?(?:continu|retr[yi]|resum)`,
		},
		Quiet: {
			` NCCL (?:INFO|WARN|TRACE) `, `torch/distributed/\S+\.py:\d+\]|torch\.distributed\.elastic\.\S+:|torch\.distributed\.(?:run|launch)|ChildFailedError|\[launch\.py:|sigkill_handler`, `^(?:srun|slurmstepd(?:-[\w.-]+)?|salloc|sbatch)(?:: error)?: (?:\S+: tasks? |\*\*\*|Terminating|Force |Failed to send MESSAGE_TASK_EXIT)`,
			`(?:^|[\s\[|<(:"=])(?:WARN(?:ING)?|INFO|DEBUG|NOTICE)(?:[\]:|>)",/ ]|$)`,
			`^\S+ FAILED$`, `^Permission denied, please try again`, `PETSC ERROR: (?:-{5}|$|#\d+ |\w+\(\) line \d+ in |Try option|or see |or try |configure using|to get more|See https|Configure options|Petsc Release|Run with|\S+ on a |No error traceback|likely location|Note: )`,
			`^Refer to the documentation\b`, `Set MCA parameter "orte_base_help_aggregate"`, `severity=Corrected\b|\bCorrected error received`, `unable to register cu\w+ factory|oneDNN custom operations|Error in atexit\._run|Exception ignored in|^ptrace: `, `\bnot an error\b`, `^\[(?:mpiexec|proxy:[\d:]+)@[\w.-]+\] .*(?:callback returned error|demux engine error|process manager error|launcher returned error|error waiting for|assert \(!closed\)|terminated badly|connection to proxy)`, `^\s+at .*(?:\.java:\d+|\.scala:\d+|Native Method|Unknown Source)\)$`, `\b\d+ (?:successful operations|derived errors ignored)\.|\bHint: If you want to see a list of allocated|Recent warning and error logs:|\[\[\{\{node `, `\b(?:py-spy|pstack|gstack|strace|cuda-gdb): (?:command )?not found`,
		},
		Metric:   {`(?:\b|_)errors?[ :=]+[-+]?[\d.]+(?:e-?\d+)?%?(?:[ ,;)]|$)`},
		Fail:     {`\bfail(?:ed|ure|s)?\b`, `\binternal errors?\b`},
		Progress: {`\b(?:steps?|epochs?|iter(?:ation)?s?|loss|batch(?:es)?|samples|tokens|eval\w*|sav(?:ed|ing)|checkpoint\w*|INFO|DEBUG)\b`, `(?:\b|\d)(?:it/s|s/it)\b`, ` HTTP/\d`},
		Step:     {`(?:\b|_)(?:steps?|epochs?|iter(?:ation)?s?|loss)\b["']?[^a-z\n]{0,12}\d|\d(?:it/s|s/it)\b`},
		End:      {`\b(?:clean(?:ing|ed)?[ -]?up|shut(?:ting)? ?down|tear(?:ing)? ?down|unload(?:ing|ed)|terminating|stopping|exiting)\b`},
		Rank:     {`(?:^|[^a-z ] ?|\b(?:on|of|from|at|by|for|in|with|to|global|process|worker|node|this|mpi|and|that|the|peer|task) )rank[ =:#]{0,2}(\d{1,6})\b`, `\bpe=0(\d{1,6})\b`, `\bproc[ =:#](\d{1,6})\b`, `\bprocessor (\d{1,6}) exiting\b`, `\[(\d{1,6})\] is setting up NCCL communicator`},
		Host:     {`\bon (?:host|node|broker):? ([\w.-]*\w)`, `\b(?:from|at) (?:host|node|broker):? ([a-zA-Z][\w-]*[\d-][\w.-]*\w|(?:\d{1,3}\.){3}\d{1,3})`, `\b(?:slot|glidein)\w*@([\w.-]*\w)`, `\bkubelet, ([\w.-]*\w)`, `\((?:host|node)[ :=]([\w.-]*\d[\w-]*)\)`, `\bon pe \d+ \(([\w.-]*\w)\)`},
		Hint:     {`fail(?:ed|ure|s|ing)?\b|errors?\b|exceptions?\b|\b(?:invalid|unsupported|insufficient|corrupt(?:ed)?|mismatch(?:ed)?|unable|cannot|aborting|aborted|giving up|exiting|exceeded|expired|denied|refused|unexpected|illegal|timed out|timeout|crash(?:ed)?|killed|missing|incompatible|exploded|diverged)\b`, `\b(?:can't|couldn't|could not|too (?:many|few|large|small|long|old)|not enough|out of memory|disk full|no (?:such|usable|free|cuda|gpus?|devices?|module|space|permission)|stopping (?:the )?\w+|(?:end of|unexpected) file|(?:does|do|did)(?: not|n't)\b|is nan\b|must (?:be|have|match|not)|expected .* (?:but|got|found)|(?:is|are|was|were) (?:not|no)\b|not (?:found|supported|available|divisible|compatible|allowed|installed|valid|implemented|permitted|defined|recogni[sz]ed))`, `\b(?:infinity|unavailable|rejected|undefined|unexpectedly|diverg\w+|not submitted|attempt to)\b|\bNaN (?:detected|found|in|at|loss)|\b(?:simulation|job|run|program|training|calculation|execution) (?:stopped|stops|terminated|ended|aborts?|halted)\b|\b(?:stopping|quitting|terminating)\b[.! ]*$|\b(?:maximum|limit) .{0,40}(?:already|reached|exceeded)`, `错误|失败|异常`},
	}
}

// glogWarning matches the front of a line that glog or torch wrote as a warning or as
// information.
var glogWarning = match.Lazy(`^\[?[WI]\d{3,4} |^[WI] \S+\.cc:\d+\] `)

// daemonLine matches the front of lines of a system's log that the kernel and services of
// every node write. The rows know those that matter.
var daemonLine = match.Lazy(`^(?:kernel|sshd|dbus-daemon|systemd(?:-\w+)?|snapd|NetworkManager|chronyd|ntpd|rsyslogd|cron|CRON|sudo|su|polkitd|udevd|multipathd|smartd|nscd|sssd\S*|postfix\S*)(?:\[\d+\])?: `)

// sourceLine matches the front of lines of source code.
var sourceLine = match.Lazy(`^\s*(?:>>>|#|//|\+ |raise |return |print|echo |assert |if |except |except:)`)

// Matcher finds the wordings of a line. Its finder has an entry for each
// expression.
type Matcher struct {
	finder *match.Finder
	of     []Class // by entry
	re     []func() *regexp.Regexp
}

// NewMatcher returns a matcher of all wordings.
func NewMatcher() *Matcher {
	m := &Matcher{}
	var words [][]string
	for w, patterns := range Wordings() {
		for _, pattern := range patterns {
			words = append(words, match.Literals(pattern))
			m.of = append(m.of, Class(w))
			m.re = append(m.re, match.Lazy("(?i)"+pattern))
		}
	}
	m.finder = match.NewFinder(words)
	return m
}

// match returns the expression of w that matches a line, nil if there is none.
func (m *Matcher) match(w Class, text []byte) *regexp.Regexp {
	var found *regexp.Regexp
	tried := -1
	m.finder.Find(text, func(entry, _ int) bool {
		if entry != tried && m.of[entry] == w {
			tried = entry
			if re := m.re[entry](); re.Match(text) {
				found = re
			}
		}
		return found == nil
	})
	return found
}

// Has reports whether a line has the words of w.
func (m *Matcher) Has(w Class, text []byte) bool { return m.match(w, text) != nil }

// Named returns what the expression of w names in a line, nil if it does not name one
// thing only.
func (m *Matcher) Named(w Class, text []byte) []byte {
	if re := m.match(w, text); re != nil {
		if all := re.FindAllSubmatch(text, 2); len(all) == 1 {
			return all[0][1]
		}
	}
	return nil
}

// GoesOn reports whether a line says that the program overcomes an error.
func (m *Matcher) GoesOn(text []byte) bool {
	return m.Has(Overcome, text) && !m.Has(GiveUp, text)
}

// Progresses reports whether a line shows that the job went on.
func (m *Matcher) Progresses(text []byte) bool {
	return m.Has(Progress, text) && !m.Has(End, text)
}

// IsNoError reports whether a line that looks like an error is none.
func (m *Matcher) IsNoError(text []byte) bool {
	if glogWarning().Match(text) || daemonLine().Match(text) {
		return true
	}
	return m.GoesOn(text) || m.Has(Quiet, text) || m.Has(Metric, text) && !m.Has(Fail, text) || sourceLine().Match(text)
}
