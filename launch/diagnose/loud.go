package diagnose

import (
	"encoding/json"
	"strconv"
	"strings"
)

// cascadeLine matches words that make an error a consequence of an earlier one, whatever
// program prints it: a connection that the other side closed, another rank that failed,
// a stop from outside.
var cascadeLine = anyOf(
	`(?i)`+connectionClosed, `(?i)connection (?:was )?(?:lost|aborted|terminated|shut ?down)|transport endpoint|end of file|\bEOF\b`,
	`(?i)(?:another|other|a peer|remote) (?:rank|ranks|task|tasks|worker|workers|process|processes|node|peer|replica)s? .{0,40}(?:fail|died|exit|crash|abort|lost|dead|disconnect|terminat)`,
	`(?i)peer .{0,30}(?:fail|died|gone|exit|lost|disconnect|unreachable)`,
	`(?i)\b(?:shut(?:ting)? ?down|SIGTERM|cancell?ed|cancell?ing|interrupted|aborting|aborted by|terminating (?:process|worker|all)|killing (?:process|worker|all|remaining))\b`,
)

// summaryLine matches words of an error that only sum up another one.
var summaryLine = anyOf(
	`(?i)\b(?:sub)?process(?:es)? .{0,40}(?:exited|died|failed|terminated|non-?zero)`,
	`(?i)\b(?:workers?|job|trial|task|run|training|step|pod|container|command|engine\w*|program|script|launcher|rank) (?:\S+ ){0,2}(?:failed|exited|died|aborted|terminated|returned)(?:\W*$|\W+(?:with|see|due|on|after)\b)`,
	`(?i)see (?:the )?(?:root cause|(?:above|other|stack)|logs?)|exit(?:ed)? (?:status|code)|return code|^exiting|core dumped|^Aborted`,
)

// goesOnLine matches words which say that the program overcomes an error.
var goesOnLine = lazyRegexp(`(?i)\b(?:retry|retrying|retries|reconnect\w*|ignor(?:ed|ing)|non-?fatal|harmless|skipp(?:ed|ing)|fall(?:ing)? ?back|continu(?:e|es|ing)|optional|attempt \d+|tolerated|recover(?:ed|ing))\b`)

// quietLine matches lines of launchers that other readers understand, lines at a lower
// level, numbers that are called errors, and source code.
var quietLine = anyOf(
	` NCCL (?:INFO|WARN|TRACE) `, `torch[./]distributed[./](?:elastic|run|launch)|ChildFailedError|\[launch\.py:|sigkill_handler`, `^(?:srun|slurmstepd|salloc|sbatch)(?:: error)?: (?:\S+: tasks? |\*\*\*|Terminating|Force )`,
	`(?i)\b(?:WARN|WARNING|INFO|DEBUG|NOTICE)\b`, `(?i)"(?:level|severity|levelname)"\s*:\s*"(?:info|warn|warning|debug|notice)"`, `(?i)\berrors?[ :=]+[-+]?[\d.]+(?:e-?\d+)?%?(?:[ ,;)]|$)`,
	`(?i)unable to register cu\w+ factory|oneDNN custom operations`, `^\s*(?:>>>|#|//|\+ |raise |return |print|echo |assert |if |except |except:)`,
)

// isUnloud reports whether a line that looks like an error is none.
func isUnloud(text []byte) bool { return goesOnLine().Match(text) || quietLine().Match(text) }

// recordLoud records a line that only a general row knows: an error in words of its own.
func (s *Scanner) recordLoud(row *compiledRow, l *line) {
	if t := s.tracebacks[l.stream]; t != nil && t.state != outside {
		return
	}
	e := s.newEvent(row, l)
	e.readFields(l.raw)
	if m := namedHost().FindSubmatch(l.raw); m != nil && e.host == "" {
		e.host = plainText(m[1])
	}
	if e.rank < 0 {
		if m := namedRank().FindAllSubmatch(l.raw, 2); len(m) == 1 {
			e.rank, _ = strconv.Atoi(string(m[0][1]))
		}
	}
	switch {
	case cascadeLine().Match(l.raw):
		e.row = s.matcher.byKey[rowCascade]
	case summaryLine().Match(l.raw):
		e.row = s.matcher.byKey[rowSummary]
	}
	e.kind = e.row.Kind
	s.record(e, e.text[:min(len(e.text), 80)])
	if strings.HasSuffix(e.text, ":") {
		s.unfinished = e
	}
}

// continueText adds a line to the text of the error that ended with a colon before it.
func (s *Scanner) continueText(l *line) {
	e := s.unfinished
	if e == nil || e.stream != l.stream {
		return
	}
	s.unfinished = nil
	if text := plainText(l.raw); l.number-e.number < 3 && len(e.text)+len(text) < maxText {
		e.text += " " + text
	}
}

var namedHost = lazyRegexp(`(?i)\b(?:on|from|at) (?:host|node) ([\w.-]*\w)`)

var namedRank = lazyRegexp(`(?i)\brank[ =:#]{0,2}(\d{1,6})\b`)

// readFields reads the fields of a line in JSON that loggers write.
func (e *event) readFields(raw []byte) {
	if len(raw) == 0 || raw[0] != '{' {
		return
	}
	var field struct {
		Msg, Message, Error, Err string
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
			e.host = plainText([]byte(host))
		}
	}
	text := field.Msg + field.Message
	if cause := field.Error + field.Err; cause != "" {
		text += ": " + cause
	}
	if text != "" {
		e.text = plainText([]byte(text))
	}
}
