package report

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/gorun/gorun/internal/term"
	"github.com/gorun/gorun/rendezvous"
)

// maxTextLines is the number of lines of a traceback that are shown.
const maxTextLines = 200

// failureLines returns the lines of one failure in torchrun's layout. There may be
// many failures. So only the root cause shows its standard error, and consequences
// show no traceback.
func failureLines(n int, c *rendezvous.Cause, zone *time.Location, root bool) []string {
	lines := []string{fmt.Sprintf("[%d]:", n)}
	field := func(name, value string) {
		// The lines of a field after the first are indented by 4, deeper than the
		// fields. So no text of a worker looks like a field.
		for i, line := range strings.Split(value, "\n") {
			if i == 0 {
				line = fmt.Sprintf("  %-10s: %s", name, line)
			} else {
				line = "    " + line
			}
			lines = append(lines, strings.TrimRight(line, " "))
		}
	}
	at := c.Time
	if !c.ErrorTime.IsZero() { // as in torchrun: the time of the exception, not of the process's end
		at = c.ErrorTime
	}
	field("time", at.In(zone).Format("2006-01-02_15:04:05"))
	field("host", orNA(oneLine(c.Host)))
	if node := nodeText(c); node != "" {
		field("node", node)
	}
	if c.Rank < 0 {
		field("rank", "none ("+eventText(c.Kind)+")")
		field("reason", orNA(reasonText(c)))
		if text := strings.TrimSpace(c.Traceback); root && text != "" { // the output of a compiler
			field("output", plainLines(strings.Split(text, "\n")))
		}
	} else {
		field("rank", fmt.Sprintf("%d (local_rank: %d)", c.Rank, c.LocalRank))
		field("exitcode", exitText(c))
		field("error_file", orNA(oneLine(c.ErrorFile)))
		field("traceback", tracebackText(c, root || !c.Consequence))
	}
	if len(c.Logs) > 0 && (root || !c.Consequence) {
		field("logs", oneLine(strings.Join(c.Logs, ", ")))
	}
	if root && len(c.Tail) > 0 {
		field("stderr", plainLines(c.Tail))
	}
	if c.Consequence && !root {
		field("note", "consequence of the root cause (its peer had ended)")
	}
	return lines
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
		return plainLines(strings.Split(text, "\n"))
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
