// Package diagnose says what captured output means: of one worker, whether it
// fell over because a peer had (IsConsequence); of a whole job, what its root
// cause is, whom to blame, why the other errors are only consequences, and what
// to do (Scanner). It is given text and does not know who captured it.
//
// What lines mean is data: the rows of the map (Rows), from which docs/explain.md
// is written. A finder looks for words of all rows at once, and only a line that
// has one is read further. Order in time and the class of lines decide, not the
// first match and not the loudest line.
//
// Invariants: a finding needs evidence in the text, so the text of a job that
// works has none; the cost is linear in the text and memory is bounded, whatever
// the text; the same text gives the same findings.
package diagnose

import (
	"strings"
)

const (
	// maxLines and maxLine bound what is looked at, in lines and bytes; a worker's
	// tail has 20 lines of 4 KiB.
	maxLines = 200
	maxLine  = 8 << 10
	// lastWords is how many lines before the end an error of a program without
	// tracebacks may stand; more output than that after it means that the
	// program went on.
	lastWords = 8
)

// IsConsequence reports whether the end of a worker's standard error shows that
// it failed only because a peer, or the store that its peers share, was gone.
//
// It judges by what ended the worker: the exception of the last traceback, or,
// if that was raised while another was handled, the first of them. A program
// without tracebacks is judged by its last lines. A failure of its own makes it
// no consequence, whatever else is said: to call a cause a consequence hides
// it, to call a consequence a cause costs only the order of the report.
func IsConsequence(tail []string) bool {
	lines := clean(tail)
	if found := exceptions(lines); len(found) > 0 {
		return origin(found).lostPeer()
	}
	return nativeLostPeer(lines)
}

// nativeLostPeer judges programs without Python's tracebacks.
func nativeLostPeer(lines []string) bool {
	words := 0
	lost := false
	for i := len(lines) - 1; i >= 0; i-- {
		line := lines[i]
		switch {
		case harmless().MatchString(line):
			continue
		case lostPeer().MatchString(line) && !ownFault().MatchString(line):
			lost = lost || words < lastWords
		case ownFault().MatchString(line) || ownNative().MatchString(line):
			return false
		}
		words++
	}
	return lost
}

var (
	colours = lazily("\x1b\\[[0-?]*[ -/]*[@-~]")
	// torch puts the rank before the lines of a traceback.
	torchRank = lazily(`^\[rank\d+\]:? ?`)
)

// clean returns the last lines without what only decorates them. Indentation stays.
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
