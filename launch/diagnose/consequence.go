package diagnose

import (
	"strings"

	"github.com/gorun/gorun/launch/diagnose/catalogue"
	"github.com/gorun/gorun/launch/diagnose/match"
	"github.com/gorun/gorun/launch/diagnose/python"
)

const (
	// maxLines and maxLine bound what IsConsequence reads, in lines and in
	// bytes of a line. A worker's tail has 20 lines of 4 KiB.
	maxLines = 200
	maxLine  = 8 << 10
	// lastLines is the number of lines at the end in which an error of a
	// program without tracebacks counts. More output after an error means that
	// the program survived the error.
	lastLines = 8
)

// closedConnection matches what programs print about a connection that the other side
// closed.
var closedConnection = match.AnyOf(
	"(?i)"+catalogue.ConnectionClosed, `ConnectionResetError`, `BrokenPipeError`, `ConnectionAbortedError`, `^EOFError\b`,
	`(?i)\bunexpected eof\b`, `(?i)\bclosed by (?:the )?(?:remote |other )?(?:peer|host|side)\b`,
)

// IsConsequence reports whether the end of a worker's standard error shows that
// the worker failed only because it lost a peer, or the store that the peers
// share.
//
// After a failure of the worker itself the answer is no, whatever else the lines say. A
// cause that is called a consequence is hidden. A consequence that is called a cause only
// changes the order of the report.
func IsConsequence(tail []string) bool {
	lines := clean(tail)
	s := NewScanner()
	s.ReadStderr(-1, -1, "", strings.Join(lines, "\n"))
	lost := int64(0) // the last line that shows a lost peer
	for _, h := range s.hypotheses() {
		switch {
		case h.row.Kind.Has(catalogue.LossOfPeer):
			for _, e := range h.events {
				lost = max(lost, e.number)
			}
		case h.tier < catalogue.TierLogged:
			return false
		}
	}
	after := 0 // lines that show that the worker went on
	for _, line := range lines[lost:] {
		if !isShutdownLine([]byte(line)) {
			after++
		}
	}
	return lost > 0 && after < lastLines
}

// ShowsClosedConnection reports whether the last words of a worker are about a
// connection that the other side closed. Unlike the words of IsConsequence they do not
// say whose connection it was: a peer's, or that of a server that failed.
func ShowsClosedConnection(tail []string) bool {
	lines := clean(tail)
	if found := python.Exceptions(lines); len(found) > 0 {
		e := python.FirstOfChain(found)
		return closedConnection().MatchString(e.Class + ": " + strings.Join(e.Message, "\n"))
	}
	for i := len(lines) - 1; i >= 0; i-- {
		if !noWords().MatchString(lines[i]) {
			return closedConnection().MatchString(lines[i]) && !workerFault().MatchString(lines[i])
		}
	}
	return false
}

var (
	colours = match.Lazy("\x1b\\[[0-?]*[ -/]*[@-~]")
	// torchRank matches the rank that torch puts before the lines of a
	// traceback.
	torchRank = match.Lazy(`^\[rank\d+\]:? ?`)
)

// clean returns the last lines without colours, torch's ranks and empty lines.
// Indentation stays.
func clean(tail []string) []string {
	tail = tail[max(0, len(tail)-maxLines):]
	lines := make([]string, 0, len(tail))
	for _, line := range tail {
		line = line[:min(len(line), maxLine)]
		if strings.Contains(line, "\x1b") {
			line = colours().ReplaceAllString(line, "")
		}
		line = strings.TrimRight(torchRank().ReplaceAllString(line, ""), " \t\r")
		if line != "" {
			lines = append(lines, line)
		}
	}
	return lines
}
