package diagnose

import (
	"strings"
)

// exception is one of Python's tracebacks.
type exception struct {
	class   string   // "torch.distributed.DistBackendError"
	message []string // the rest of its line, and lines that follow
	file    string   // the innermost frame: `  File "…", line 1, in f`
	source  string   // and the program's line there
	chained bool     // raised while the exception before it was handled, or from it
}

// maxMessageLines is how many lines of an exception's message are looked at.
const maxMessageLines = 8

var (
	tracebackLine = lazily(`^Traceback \(most recent call last\):`)
	frameLine     = lazily(`^\s+File ".*", line \d+`)
	ignoredLine   = lazily(`^Exception ignored (?:in|on)\b`)
	chainLine     = lazily(`^(?:During handling of the above exception, another exception occurred|The above exception was the direct cause of the following exception):`)
	classLine     = lazily(`^((?:[A-Za-z_]\w*\.)*[A-Za-z_]\w*)(?::\s*(.*))?$`)
	// messageEnd begins a line that is no part of a message before it.
	messageEnd = anyOf(`^terminate called`, `^frame #\d+: `, `^Exception raised from `, `^\[[WEIF]\d* `,
		`^\[rank\d+\]`, ` NCCL (?:INFO|WARN) `, `Warning: `)
)

// exceptions finds the tracebacks in lines, in their order, without those that
// Python ignored. The beginning of the first may be cut off.
func exceptions(lines []string) []exception {
	var found []exception
	var e exception
	const (
		outside = iota
		frames
		message
	)
	state := outside
	chained, ignored := false, false
	finish := func() {
		if state == message && !ignored {
			found = append(found, e)
		}
		if state == message {
			ignored = false
		}
		state = outside
	}
	for _, line := range lines {
		switch {
		case chainLine().MatchString(line):
			finish()
			chained = true
		case ignoredLine().MatchString(line):
			finish()
			ignored = true
		case tracebackLine().MatchString(line), frameLine().MatchString(line) && state != frames:
			finish()
			e = exception{chained: chained && len(found) > 0}
			chained, state = false, frames
			if line[0] != 'T' {
				e.file = line
			}
		case state == frames && frameLine().MatchString(line):
			e.file, e.source = line, ""
		case state == frames && (line[0] == ' ' || line[0] == '\t'):
			if strings.Trim(line, " ^~") != "" {
				e.source = line
			}
		case state == frames:
			state = message
			if m := classLine().FindStringSubmatch(line); m != nil {
				e.class, e.message = m[1], []string{m[2]}
			} else {
				e.message = []string{line}
			}
		case state == message && (len(e.message) == maxMessageLines || messageEnd().MatchString(line)):
			finish()
		case state == message:
			e.message = append(e.message, line)
		}
	}
	finish()
	return found
}

// origin returns the exception that the last one goes back to.
func origin(found []exception) exception {
	i := len(found) - 1
	for i > 0 && found[i].chained {
		i--
	}
	return found[i]
}

// lostPeer reports whether e was raised because a peer or the store was gone.
func (e exception) lostPeer() bool {
	text := e.class + ": " + strings.Join(e.message, "\n")
	if ownFault().MatchString(text) {
		return false
	}
	for _, line := range strings.Split(text, "\n") {
		if lostPeer().MatchString(line) {
			return true
		}
	}
	return e.distributed() && weakLostPeer().MatchString(text)
}

var (
	distributedFile = lazily(`/torch/distributed/|torch[/\\]_?c10d`)
	// Old versions raise a bare "RuntimeError: Connection reset by peer" from a
	// method of the store, which is no Python frame: the line that calls it tells.
	storeSource = lazily(`(?i)store(?:\(\))?\.(?:get|set|add|wait|check|compare_set|delete_key|num_keys)\(`)
)

// distributed reports whether e came out of torch.distributed.
func (e exception) distributed() bool {
	return strings.HasPrefix(e.class, "torch.distributed.") ||
		e.class == "RuntimeError" && (distributedFile().MatchString(e.file) || storeSource().MatchString(e.source))
}
