package report

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gorun/gorun/internal/term"
	"github.com/gorun/gorun/rendezvous"
)

// maxTextLines is the number of lines of a traceback that are shown.
const maxTextLines = 200

// failureLines returns the lines of one failure, in torchrun's layout to the byte.
// Consequences show no traceback, because there may be many.
func failureLines(n int, c *rendezvous.Cause, zone *time.Location, root bool) []string {
	lines := []string{fmt.Sprintf("[%d]:", n)}
	at := c.Time
	if !c.ErrorTime.IsZero() { // the time of the exception, not of the process's end
		at = c.ErrorTime
	}
	lines = append(lines, field("time", at.In(zone).Format("2006-01-02_15:04:05"))...)
	lines = append(lines, field("host", orNA(oneLine(c.Host)))...)
	if c.Rank < 0 {
		lines = append(lines, field("rank", "none ("+eventText(c.Kind)+")")...)
		lines = append(lines, ownField("reason", orNA(reasonText(c)))...)
		if text := strings.TrimSpace(c.Traceback); root && text != "" { // the output of a compiler
			lines = append(lines, ownField("output", plainLines(strings.Split(text, "\n")))...)
		}
		return lines
	}
	lines = append(lines, field("rank", fmt.Sprintf("%d (local_rank: %d)", c.Rank, c.LocalRank))...)
	lines = append(lines, field("exitcode", exitText(c))...)
	lines = append(lines, field("error_file", orNA(oneLine(c.ErrorFile)))...)
	return append(lines, field("traceback", tracebackText(c, root || !c.Consequence))...)
}

// field returns the lines of a field of torchrun's. The lines after the first are
// indented by 2, as there. A line that would look like a field is indented by 4, so that
// no text of a worker is taken for one.
func field(name, value string) []string {
	first, rest, _ := strings.Cut(value, "\n")
	lines := []string{fmt.Sprintf("  %-10s: %s", name, first)}
	if len(first) == len(value) {
		return lines
	}
	for line := range strings.SplitSeq(rest, "\n") {
		if fieldLike.MatchString(line) {
			line = "  " + line
		}
		lines = append(lines, "  "+line)
	}
	return lines
}

// ownField returns the lines of a field that torchrun does not have. The lines after
// the first are indented by 4, deeper than the fields.
func ownField(name, value string) []string {
	lines := strings.Split(fmt.Sprintf("  %-10s: %s", name, strings.ReplaceAll(value, "\n", "\n    ")), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return lines
}

// fieldLike matches what, indented by 2, looks like a field of the report.
var fieldLike = regexp.MustCompile(`^(?:time|host|rank|exitcode|error_file|traceback|node|logs|stderr|reason|output|likely cause|fix) *:`)

// moreLines returns what torchrun's report does not have of the root cause: node, log
// files, standard error without what the traceback shows, cause and fix.
func moreLines(c *rendezvous.Cause, explanation []string) []string {
	var lines []string
	if node := nodeText(c); node != "" {
		lines = append(lines, ownField("node", node)...)
	}
	if len(c.Logs) > 0 {
		lines = append(lines, ownField("logs", oneLine(strings.Join(c.Logs, ", ")))...)
	}
	if tail := withoutTraceback(c.Tail, c.Traceback); len(tail) > 0 {
		lines = append(lines, ownField("stderr", plainLines(tail))...)
	}
	return append(lines, explanation...)
}

// otherLine says of another failure what torchrun's report does not have; "": nothing.
func otherLine(c *rendezvous.Cause) string {
	var parts []string
	if node := nodeText(c); node != "" {
		parts = append(parts, "node "+node)
	}
	if c.Consequence {
		parts = append(parts, "consequence of the root cause (its peer had ended)")
	} else if len(c.Logs) > 0 {
		parts = append(parts, oneLine(strings.Join(c.Logs, ", ")))
	}
	if c.Rank < 0 || len(parts) == 0 {
		return ""
	}
	return fmt.Sprintf("gorun: rank %d: %s", c.Rank, strings.Join(parts, "; "))
}

// rankPrefix matches what torch puts before the lines of an exception that ends a rank.
var rankPrefix = regexp.MustCompile(`^\[rank\d+\]: ?`)

// withoutTraceback removes the last traceback from a worker's standard error if its last
// line is that of the error file's traceback. Since torch 2.2 each line begins with the
// rank.
func withoutTraceback(tail []string, traceback string) []string {
	plain := func(line string) string { return rankPrefix.ReplaceAllString(line, "") }
	last := strings.TrimRight(traceback, "\n")
	last = last[strings.LastIndexByte(last, '\n')+1:]
	end := -1
	for i, line := range tail {
		if last != "" && plain(line) == last {
			end = i
		}
	}
	if end < 0 {
		return tail
	}
	begin := end
	for begin > 0 && !strings.HasPrefix(plain(tail[begin]), "Traceback (most recent call last)") {
		begin--
	}
	return slices.Concat(tail[:begin], tail[end+1:])
}

// nodeText returns the node's group rank and address, as far as they are known.
func nodeText(c *rendezvous.Cause) string {
	addr := oneLine(c.Addr)
	switch {
	case c.GroupRank < 0:
		return addr
	case addr == "":
		return strconv.Itoa(c.GroupRank)
	default:
		return fmt.Sprintf("%d (%s)", c.GroupRank, addr)
	}
}

// eventText names the event of a failure that is not one of a worker.
func eventText(k rendezvous.Kind) string {
	switch k {
	case rendezvous.KindLost:
		return "node lost"
	case rendezvous.KindStopped:
		return "gorun was stopped"
	case rendezvous.KindAborted:
		return "the job was aborted"
	case rendezvous.KindRendezvous:
		return "the nodes did not come together"
	case rendezvous.KindAgent:
		return "gorun failed on that node"
	default:
		return "no worker failed"
	}
}

// reasonText returns the message of a failure that is not one of a worker.
func reasonText(c *rendezvous.Cause) string {
	if c.Message == "" && c.Kind == rendezvous.KindStopped && c.Signal != 0 {
		return "received " + rendezvous.SignalName(c.Signal)
	}
	return plainLines(strings.Split(strings.TrimSpace(c.Message), "\n"))
}

// exitText returns the exit code as in Python's subprocess: a signal is negative.
func exitText(c *rendezvous.Cause) string {
	code := orNA("")
	switch {
	case c.Kind == rendezvous.KindStart:
		return code + " (not started)"
	case c.Signal != 0:
		code = strconv.Itoa(-int(c.Signal))
	case c.ExitCode != 0 || c.Kind == rendezvous.KindExit:
		code = strconv.Itoa(c.ExitCode)
	}
	return fmt.Sprintf("%s (pid: %d)", code, c.PID)
}

// tracebackText returns the worker's traceback or, without one, its message or signal.
// If whole is false, it returns one line.
func tracebackText(c *rendezvous.Cause, whole bool) string {
	text := strings.TrimRight(c.Traceback, "\n")
	switch {
	case text != "" && whole:
		return plainLines(strings.Split(c.Traceback, "\n")) // with its last line break, as torchrun
	case c.Message != "" && whole:
		return plainLines(strings.Split(c.Message, "\n"))
	case c.Message != "":
		return oneLine(c.Message)
	case text != "":
		return oneLine(text[strings.LastIndexByte(text, '\n')+1:])
	case c.Signal != 0:
		return fmt.Sprintf("Signal %d (%s) received by PID %d", int(c.Signal), rendezvous.SignalName(c.Signal), c.PID)
	default:
		return "To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html"
	}
}

// plainLines joins the last maxTextLines of lines.
func plainLines(lines []string) string {
	var out []string
	if more := len(lines) - maxTextLines; more > 0 {
		out = append(out, fmt.Sprintf("... (%d lines left out)", more))
		lines = lines[more:]
	}
	for _, line := range lines {
		out = append(out, term.Shorten(term.Plain(line), maxMessage))
	}
	return strings.Join(out, "\n")
}
