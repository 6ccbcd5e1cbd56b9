package diagnose

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strconv"
	"strings"

	"github.com/gorun/gorun/launch/diagnose/catalogue"
	"github.com/gorun/gorun/launch/diagnose/match"
)

// wording is a class of words by which the scanner weighs a line that only a general row
// knows, whatever program prints it.
type wording int

const (
	// cascadeWords make an error a consequence of an earlier one: a connection that the
	// other side closed, another rank that failed, a stop from outside.
	cascadeWords wording = iota
	// summaryWords make an error the sum of another one.
	summaryWords
	// goesOnWords say that the program overcomes an error.
	goesOnWords
	// giveUpWords say that the program no longer tries to overcome an error.
	giveUpWords
	// quietWords are of lines that are no errors: at a lower level, a number that is
	// called an error, a line of a launcher that another reader understands.
	quietWords
	// metricWords are of a number that is called an error, unless the line speaks of a failure.
	metricWords
	failWords
	// progressWords show that the job went on.
	progressWords
	// endWords are of lines that a program prints while it ends.
	endWords
	// rankWords and hostWords name the rank and the host that a line is about.
	rankWords
	hostWords
	// hintWords are of a failure, in the last lines of a log that shows none otherwise.
	hintWords
)

// wordings returns the expression of each class.
func wordings() [][]string {
	return [][]string{
		cascadeWords: {
			catalogue.ConnectionClosed, `connection (?:was )?(?:lost|aborted|terminated|shut ?down)|transport endpoint`, `(?:connection|socket|stream|peer|remote|worker|rank|rpc)\b.{0,80}\b(?:end of file|unexpected eof)|\b(?:end of file|unexpected eof)\b.{0,80}(?:connection|socket|stream|peer|remote|worker|rank|rpc)`,
			`(?:another|other|a peer|remote) (?:rank|task|worker|process|node|peer|replica)(?:s|es)? .{0,40}(?:fail|died|exit|crash|abort|lost|dead|disconnect|terminat)`,
			`\bpeer .{0,30}(?:fail|died|gone|exit|lost|disconnect|unreachable)`,
			`\b(?:shut(?:ting)? ?down|SIGTERM|cancell?ed|cancell?ing|interrupted|aborted by|aborting (?:all|other|remaining|the (?:job|run))|terminating (?:process|worker|all)|killing (?:process|worker|all|remaining))\b`,
		},
		summaryWords: {
			`\b(?:sub)?process(?:es)? .{0,40}(?:exited|died|failed|terminated|non-?zero)`,
			`(?:^|[^:\w])(?:workers?|child|job|trial|task|run|training|step|pod|container|command|engine\w*|program|script|launcher|rank) (?:\S+ ){0,2}(?:failed|exited|died|aborted|terminated|returned)(?:\W*$|\W+(?:unexpectedly|prematurely|abruptly|with|see|due|on|after|to (?:start|initiali[sz]e|launch|run))\b)`,
			`\b(?:workers?|process(?:es)?|children|actors?) (?:is|are|was|were) (?:no longer|not) alive\b|\b(?:check|inspect|see|read) (?:\w+ ){1,3}(?:above|previous|earlier)\b`,
			`\bsee (?:the )?(?:root cause|above|other|stack|traceback|logs?|output)|(?:exception|error) (?:occurred )?in a (?:background |sub)?process|check the (?:earlier|previous) (?:errors?|logs?)|exit(?:ed)? (?:status|code)|return code|see stack trace|^ray\.exceptions\.RayTaskError\(|^exiting|core dumped|^(?:Fatal Python error: )?Aborted|\btrial task failed\b|Error processing event\.$|ExecuteUserScriptError|was aborted\. please check|^\W*(?:abort|aborting|exiting|quitting|terminating|stopping)(?: \w+)?\W*$`,
		},
		goesOnWords: {`\b(?:retry|retrying|retries|retried|reconnect\w*|ignor(?:ed|ing)|non-?fatal|harmless|skipp(?:ed|ing)|fall(?:ing)? ?back|continu(?:e|es|ing)|attempt \d+|tolerated|recover(?:ed|ing)|using (?:the |a )?default|defaulting to|backing off)\b`, `(?:^|[^:\w])optional\b`},
		giveUpWords: {
			`\bderived errors ignored\b`,
			`\b(?:giving up|gave up|bailing out|exhausted)\b|\btoo many (?:re)?(?:tries|\w*attempts|failures|restarts)\b|\b(?:retries|retry|attempts?|tries)\b.{0,20}\b(?:exceeded|reached)\b|\bexceeded\b.{0,20}\b(?:retries|retry|attempts|tries)\b|\bafter (?:\d+|all|several|multiple|max\w*) (?:re)?(?:tries|attempts)\b`,
			`\bg(?:ives?|iven|ave) up\b|\b(?:max(?:imum)?|no more|out of|all) (?:\w+ ){0,3}(?:retr(?:y|ies)|attempts?|restarts?|reconnects?)\b`,
			`\b(?:cannot|can not|can't|unable to|could not|couldn't|failed to|not|never) (?:be )?(?:\w+ )?(?:continu|recover|retr[yi]|reconnect|ignor|skip|fall)|\byou (?:can|may|must|should|could) (?:\w+ )?(?:continu|retr[yi]|resum)`,
		},
		quietWords: {
			` NCCL (?:INFO|WARN|TRACE) `, `torch/distributed/\S+\.py:\d+\]|torch\.distributed\.elastic\.\S+:|torch\.distributed\.(?:run|launch)|ChildFailedError|\[launch\.py:|sigkill_handler`, `^(?:srun|slurmstepd(?:-[\w.-]+)?|salloc|sbatch)(?:: error)?: (?:\S+: tasks? |\*\*\*|Terminating|Force )`,
			`(?:^|[\s\[|<(:"=])(?:WARN(?:ING)?|INFO|DEBUG|NOTICE)(?:[\]:|>)",/ ]|$)`,
			`^\S+ FAILED$`, `^Permission denied, please try again`, `PETSC ERROR: (?:-{5}|$|#\d+ |\w+\(\) line \d+ in |Try option|or see |or try |configure using|to get more|See https|Configure options|Petsc Release|Run with|\S+ on a |No error traceback|likely location|Note: )`,
			`unable to register cu\w+ factory|oneDNN custom operations|Error in atexit\._run|Exception ignored in|^ptrace: `, `\b\d+ (?:successful operations|derived errors ignored)\.|\bHint: If you want to see a list of allocated|Recent warning and error logs:|\[\[\{\{node `, `\b(?:py-spy|pstack|gstack|strace|cuda-gdb): (?:command )?not found`,
		},
		metricWords:   {`(?:\b|_)errors?[ :=]+[-+]?[\d.]+(?:e-?\d+)?%?(?:[ ,;)]|$)`},
		failWords:     {`\bfail(?:ed|ure|s)?\b`, `\binternal errors?\b`},
		progressWords: {`\b(?:steps?|epochs?|iter(?:ation)?s?|loss|batch(?:es)?|samples|tokens|eval\w*|sav(?:ed|ing)|checkpoint\w*|INFO|DEBUG)\b`, `\bit/s\b`, `\bs/it\b`, ` HTTP/\d`},
		endWords:      {`\b(?:clean(?:ing|ed)?[ -]?up|shut(?:ting)? ?down|tear(?:ing)? ?down|unload(?:ing|ed)|terminating|stopping|exiting)\b`},
		rankWords:     {`\brank[ =:#]{0,2}(\d{1,6})\b`, `\bpe=0(\d{1,6})\b`, `\bproc[ =:#](\d{1,6})\b`, `\bprocessor (\d{1,6}) exiting\b`, `\[(\d{1,6})\] is setting up NCCL communicator`},
		hostWords:     {`\b(?:on|from|at) (?:host|node|broker):? ([\w.-]*\w)`, `\b(?:slot|glidein)\w*@([\w.-]*\w)`, `\bon pe \d+ \(([\w.-]*\w)\)`},
		hintWords:     {`fail(?:ed|ure|s|ing)?\b|errors?\b|exceptions?\b|\b(?:invalid|unsupported|insufficient|corrupt(?:ed)?|mismatch(?:ed)?|unable|cannot|aborting|aborted|giving up|exiting|exceeded|expired|denied|refused|unexpected|illegal|timed out|timeout|crash(?:ed)?|killed|missing|incompatible|exploded|diverged)\b`, `\b(?:can't|couldn't|could not|too (?:many|few|large|small|long|old)|not enough|out of memory|disk full|no (?:such|usable|free|cuda|gpus?|devices?|module|space|permission)|stopping (?:the )?\w+|must (?:be|have|match|not)|expected .* (?:but|got|found)|(?:is|are|was|were) (?:not|no)\b|not (?:found|supported|available|divisible|compatible|allowed|installed|valid|implemented|permitted|defined|recogni[sz]ed))`, `错误|失败|异常`},
	}
}

// gpuMemory matches words about the memory of a GPU.
var gpuMemory = match.Lazy(`(?i)\b(?:[gnxth]pus?|mlu|dcu|cuda\w*|hip|vram|hbm|(?:on|of|for) (?:the )?device)\b`)

// glogWarning matches the front of a line that glog or torch wrote as a warning or as
// information.
var glogWarning = match.Lazy(`^\[?[WI]\d{3,4} `)

// daemonLine matches the front of lines of a system's log that the kernel and services of
// every node write. The rows know those that matter.
var daemonLine = match.Lazy(`^(?:kernel|sshd|dbus-daemon|systemd(?:-\w+)?|snapd|NetworkManager|chronyd|ntpd|rsyslogd|cron|CRON|sudo|su|polkitd|udevd|multipathd|smartd|nscd|sssd\S*|postfix\S*)(?:\[\d+\])?: `)

// sourceLine matches the front of lines of source code.
var sourceLine = match.Lazy(`^\s*(?:>>>|#|//|\+ |raise |return |print|echo |assert |if |except |except:)`)

// wordingMatcher finds the wordings of a line. Its finder has an entry for each
// expression.
type wordingMatcher struct {
	finder *match.Finder
	of     []wording // by entry
	re     []func() *regexp.Regexp
}

func newWordingMatcher() *wordingMatcher {
	m := &wordingMatcher{}
	var words [][]string
	for w, patterns := range wordings() {
		for _, pattern := range patterns {
			words = append(words, match.Literals(pattern))
			m.of = append(m.of, wording(w))
			m.re = append(m.re, match.Lazy("(?i)"+pattern))
		}
	}
	m.finder = match.NewFinder(words)
	return m
}

// match returns the expression of w that matches a line, nil if there is none.
func (m *wordingMatcher) match(w wording, text []byte) *regexp.Regexp {
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

// has reports whether a line has the words of w.
func (m *wordingMatcher) has(w wording, text []byte) bool { return m.match(w, text) != nil }

// named returns what the expression of w names in a line, nil if it does not name one
// thing only.
func (m *wordingMatcher) named(w wording, text []byte) []byte {
	if re := m.match(w, text); re != nil {
		if all := re.FindAllSubmatch(text, 2); len(all) == 1 {
			return all[0][1]
		}
	}
	return nil
}

// nameOrigin gives e the host and the rank that a text names, where nothing else does.
func (m *wordingMatcher) nameOrigin(e *event, text []byte) {
	if host := m.named(hostWords, text); host != nil && e.host == "" {
		e.host = match.PlainText(host)
	}
	if rank := m.named(rankWords, text); rank != nil && e.rank < 0 {
		e.rank, _ = strconv.Atoi(string(rank))
	}
}

// goesOn reports whether a line says that the program overcomes an error.
func (m *wordingMatcher) goesOn(text []byte) bool {
	return m.has(goesOnWords, text) && !m.has(giveUpWords, text)
}

// progresses reports whether a line shows that the job went on.
func (m *wordingMatcher) progresses(text []byte) bool {
	return m.has(progressWords, text) && !m.has(endWords, text)
}

// isUnloud reports whether a line that looks like an error is none.
func (m *wordingMatcher) isUnloud(text []byte) bool {
	if glogWarning().Match(text) || daemonLine().Match(text) {
		return true
	}
	return m.goesOn(text) || m.has(quietWords, text) || m.has(metricWords, text) && !m.has(failWords, text) || sourceLine().Match(text)
}

// recordLoud records a line that only a general row knows: an error in words of its own.
func (s *Scanner) recordLoud(row *compiledRow, f *match.Fields, l *line) {
	if s.unfinished.joined == l.number && row.Kind != catalogue.Fatal && row.Kind != catalogue.SystemError { // the event before it has its text
		return
	}
	e := s.newMatch(row, f, l)
	e.readFields(l.raw)
	words := s.matcher.wordings
	words.nameOrigin(e, l.raw)
	switch {
	case row.Key == catalogue.RowNoMemory && gpuMemory().Match(l.raw):
		e.row = s.matcher.byKey[catalogue.RowNoGPUMemory]
	case stopText().Match(l.raw):
		e.row = s.matcher.byKey[catalogue.RowStopSignal]
	case words.has(cascadeWords, l.raw):
		e.row = s.matcher.byKey[catalogue.RowCascade]
	case row.Kind != catalogue.SystemError && words.has(summaryWords, l.raw):
		e.row = s.matcher.byKey[catalogue.RowSummary]
	}
	if e.row.Kind.Tier() > catalogue.TierWarning {
		e.kind = e.row.Kind
	}
	s.record(e, e.text[:min(len(e.text), 80)])
	if last := s.lastLoud; e.kind == catalogue.Fatal && last != nil && last.stream == e.stream && e.number-last.number <= 3 && last.kind.Has(catalogue.General) {
		last.kind = catalogue.Fatal // the line before the fatal one has the reason
	}
	s.lastLoud = e
	if isHeadline(strings.TrimRight(e.text, " |*")) {
		s.unfinished = unfinished{event: e, from: l.number}
	}
}

// glogFatal matches the front of a line with which glog ends the program.
var glogFatal = match.Lazy(`^F\d{3,4} \S+ +\d+ \S+:\d+\] `)

// readCheckFailure reads the line with which glog begins the stack of an error. The line
// before it has the error, in any words.
func (s *Scanner) readCheckFailure(l *line, _ *match.Fields) {
	for h, text := range s.linesBefore(1) {
		if last := s.lastLoud; glogFatal().Match(text) && (last == nil || last.number != l.number-1) {
			e := s.newEvent(s.matcher.byKey[catalogue.RowFatal], &line{Head: h, raw: text, number: l.number - 1, stream: l.stream})
			s.matcher.wordings.nameOrigin(e, text)
			e.excerpt = &excerpt{isOver: true} // the line before the present one is e
			s.record(e, e.text[:min(len(e.text), 80)])
		}
	}
}

// errorStack matches the line of an error of MPICH or HDF5 whose reason is in a stack below.
var errorStack = match.Lazy(`^.*(?:error stack:|HDF5-DIAG: Error detected in .*:)`)

// headlineEnd matches the end of the text of an error whose reason is in the next line.
var headlineEnd = match.Lazy(`:$|\b(?:due to|because of|an?|the|of|to|from|with|and|or|is|are|was|were|be|not|that)$|(?i)\b(?:fatal|error)\b[!: ]*(?:\([^)]*\))?$`)

// isHeadline reports whether the reason of an error is in the line after its text.
func isHeadline(text string) bool {
	end := text[max(0, len(text)-12):] // of all the expression reads a microsecond for each word
	if strings.HasSuffix(text, ")") {
		end = text[max(0, len(text)-80):]
	}
	last := end[strings.LastIndexByte(end, ' ')+1:]
	mayEnd := len(last) < 8 || strings.ContainsAny(last[len(last)-1:], ":!)")
	return strings.HasPrefix(text, "terminate called after") || mayEnd && headlineEnd().MatchString(end) ||
		banner().MatchString(text) && strings.ContainsAny(text[len(text)-1:], "-=*#")
}

// reasonLabel matches a line that only announces the reason of the error above it.
var reasonLabel = match.Lazy(`^\s*(?i:caused by|reason|cause|root cause|error message):\s*$`)

// banner matches a headline with a rule on both sides: the box below it has the reason.
var banner = match.Lazy(`^[-=*#]{3,} `)

// stackLine matches a line of the stack of an error of MPICH or HDF5: the function and, in
// the last lines, the reason.
var stackLine = match.Lazy(`^\w+\(\d+\)[. ]*:|^\s*#\d+: .* in \w+\(\): |^\s+(?:major|minor): .*`)

// unfinished is an error whose text goes on in the next line.
type unfinished struct {
	event  *event
	from   int64 // the line after which it goes on
	joined int64 // the last line of the text of this or the one before
}

// continueText adds the next line that has words to the text of an error that ended like
// a headline. To an error with a stack it adds the last reason of the stack. It reports
// whether the line is of such a stack.
func (s *Scanner) continueText(l *line) (ofStack bool) {
	if last := s.lastLoud; last != nil && last.stream == l.stream && l.number-last.number < besideSpan && bytes.HasSuffix(l.raw, []byte(":")) && reasonLabel().Match(l.raw) {
		s.unfinished = unfinished{event: last, from: l.number}
		return false
	}
	e, distance := s.unfinished.event, l.number-s.unfinished.from
	if e == nil || e.stream != l.stream {
		return false
	}
	text := match.PlainText(l.raw)
	if head := errorStack().FindString(e.text); head != "" && distance < detailLines {
		at := stackLine().FindIndex(l.raw)
		if at == nil {
			s.unfinished = unfinished{}
		} else if reason := match.PlainText(bytes.TrimSpace(l.raw[at[1]:])); reason != "" && len(head)+len(reason) < match.MaxText {
			e.text = head + " " + reason
		}
		return at != nil
	}
	if strings.Trim(text, "-=*#|+ ") == "" && distance < 4 {
		return false
	}
	if distance > 2 || !banner().MatchString(e.text) {
		s.unfinished = unfinished{}
	}
	if distance < 4 && len(e.text)+len(text) < match.MaxText {
		e.text += " " + text
		if e.kind == catalogue.Fatal { // the reason names who failed
			s.matcher.wordings.nameOrigin(e, l.raw)
		}
		if strings.HasSuffix(text, ":") {
			s.unfinished = unfinished{event: e, from: l.number - distance}
		}
		s.unfinished.joined = l.number
	}
	return false
}

// readFields reads the fields of a line in JSON that loggers write.
func (e *event) readFields(raw []byte) {
	if len(raw) == 0 || raw[0] != '{' {
		return
	}
	var field struct {
		Msg, Message, Error, Err jsonText
		Rank                     *int
		Host, Hostname, Node     string
	}
	if json.Unmarshal(raw, &field) != nil {
		return
	}
	if field.Rank != nil && *field.Rank >= 0 {
		e.rank = *field.Rank
	}
	for _, host := range []string{field.Host, field.Hostname, field.Node} {
		if host != "" {
			e.host = match.PlainText([]byte(host))
		}
	}
	text := string(field.Msg + field.Message)
	switch cause := string(field.Error + field.Err); {
	case text == "":
		text = cause
	case cause != "":
		text += ": " + cause
	}
	if text != "" {
		e.text = match.PlainText([]byte(text))
	}
}

// jsonText is a field that holds a text, or an object with a text.
type jsonText string

// UnmarshalJSON reads the text. Values of other types have none.
func (t *jsonText) UnmarshalJSON(p []byte) error {
	var text string
	if json.Unmarshal(p, &text) == nil {
		*t = jsonText(text)
		return nil
	}
	var object struct{ Message, Msg, Detail, Error string }
	if json.Unmarshal(p, &object) == nil {
		*t = jsonText(object.Message + object.Msg + object.Detail + object.Error)
	}
	return nil
}
