package diagnose

import (
	"slices"
	"strings"

	"github.com/gorun/gorun/launch/diagnose/catalogue"
	"github.com/gorun/gorun/launch/diagnose/match"
)

// exception is one traceback of Python.
type exception struct {
	class   string   // "torch.distributed.DistBackendError"
	message []string // the rest of the line of the class, and the lines that follow
	file    string   // the innermost frame: `  File "…", line 1, in f`
	script  string   // the innermost frame outside libraries
	source  string   // the line of source of the innermost frame
	// isBare means that the line of the class has no message.
	isBare bool
	// fromLauncher means that a frame is of a launcher.
	fromLauncher bool
	// chained means that Python raised it from the exception before it, or while the
	// program handled that one.
	chained bool
}

// maxMessageLines bounds the lines of an exception's message.
const maxMessageLines = 8

var (
	nativeFrame  = match.Lazy(`File "(?:<unknown>|[^"]*\.(?:c|cc|cpp|cxx|cu|h|hpp|rs|S|so[.0-9]*))", line \d+`)
	classLine    = match.Lazy(`^((?:[A-Za-z_]\w*\.)*[A-Za-z_]\w*)(?::\s*(.*))?$`)
	errorLine    = match.Lazy(`^(?:[A-Za-z_]\w*\.)*[A-Za-z_]*(?:Error|Exception|Interrupt|Exit)\b`)
	framePlace   = match.Lazy(`File "([^"]+)", line (\d+)`)
	libraryFile  = match.Lazy(`site-packages|dist-packages|/lib(?:64)?/python\d|"<frozen |"<string>"`)
	launcherFile = match.Lazy(`/bin/(?:torchrun|accelerate|deepspeed|horovodrun|ray)"|torch/distributed/(?:run|launch)\.py"|torch/distributed/(?:launcher|elastic/(?:agent|rendezvous))/`)
	// messageEnd matches a line that is no part of a message before it.
	messageEnd = match.AnyOf(`^terminate called`, `^frame #\d+: `, `^Exception raised from `, `^\[[WEIF]\d* `,
		launcherBanner, `^Process [\w:.-]+:$`, `^\[rank\d+\]`, ` NCCL (?:INFO|WARN) `, `Warning: `, `^(?:WARNING|ERROR|CRITICAL|INFO|DEBUG)[: ]`)
)

// isTraceback reports whether a line begins a traceback.
func isTraceback(line string) bool {
	return strings.HasPrefix(line, "Traceback (most recent call last):")
}

// isChain reports whether a line announces the next traceback of a chain.
func isChain(line string) bool {
	return strings.HasPrefix(line, "During handling of the above exception, another exception occurred:") ||
		strings.HasPrefix(line, "The above exception was the direct cause of the following exception:")
}

// isIgnored reports whether a line announces an exception that Python ignored.
func isIgnored(line string) bool {
	return strings.HasPrefix(line, "Exception ignored in") || strings.HasPrefix(line, "Exception ignored on") || strings.HasPrefix(line, "Error in atexit._run_exitfuncs")
}

// isFrame reports whether a line is the first line of a frame.
func isFrame(line string) bool {
	rest := strings.TrimLeft(line, " \t")
	if len(rest) == len(line) || !strings.HasPrefix(rest, `File "`) {
		return false
	}
	_, place, ok := strings.Cut(rest, `", line `)
	after := strings.TrimLeft(place, "0123456789")
	return ok && len(after) < len(place) && (after == "" || strings.HasPrefix(after, ", in "))
}

// containsAny reports whether s has one of the texts. It spares an expression.
func containsAny(s string, texts ...string) bool {
	return slices.ContainsFunc(texts, func(t string) bool { return strings.Contains(s, t) })
}

// mayEndMessage reports whether messageEnd may match a line.
func mayEndMessage(line string) bool {
	return line[0] == '[' || bannerLine().MatchString(line) || containsAny(line, "terminate called", "frame #", "Exception raised from ", "Process ", " NCCL ", "Warning: ", "WARNING", "ERROR", "CRITICAL", "INFO", "DEBUG")
}

// exceptions returns the tracebacks in lines, in their order, without those
// that Python ignored. The beginning of the first may be cut off.
func exceptions(lines []string) []exception {
	var found []exception
	var t tracer
	for _, line := range lines {
		if e, ok := t.readLine(line); ok {
			found = append(found, e)
		}
	}
	if e, ok := t.end(); ok {
		found = append(found, e)
	}
	return found
}

// The states of a tracer.
const (
	outside = iota
	inFrames
	inMessage
)

// tracer parses tracebacks in the lines of one process. The zero value is ready.
type tracer struct {
	exception        exception
	state            int
	chained, ignored bool // of the next exception
	hasEnded         bool // an earlier exception has ended
	nested           int  // tracebacks that began inside another: their lines are mixed
	flat             bool // the lines lost their indentation
}

// readLine reads the next line, which must not be empty. It returns the exception
// that ended before this line.
func (t *tracer) readLine(line string) (done exception, ok bool) {
	switch {
	case isChain(line):
		done, ok = t.end()
		t.chained = true
	case isIgnored(line):
		done, ok = t.end()
		t.ignored = true
	case t.state == inFrames && isTraceback(line):
		t.nested++
	case isTraceback(line), t.state != inFrames && isFrame(line) && !nativeFrame().MatchString(line):
		done, ok = t.end()
		t.exception = exception{chained: t.chained && t.hasEnded}
		t.chained, t.flat, t.state = false, false, inFrames
		if line[0] != 'T' {
			t.exception.readFrame(line)
		}
	case t.state == inFrames && (isFrame(line) || isFrame(" "+line)):
		t.flat = !isFrame(line)
		t.exception.readFrame(line)
	case t.state == inFrames && (line[0] == ' ' || line[0] == '\t' || t.flat && !errorLine().MatchString(line)):
		if strings.Trim(line, " ^~") != "" {
			t.exception.source = line
		}
	case t.state == inFrames:
		t.readClass(line)
	case t.state == inMessage && t.nested > 0 && errorLine().MatchString(line):
		e := t.exception
		done, ok = t.end()
		t.nested--
		t.exception = exception{file: e.file, script: e.script}
		t.readClass(line)
	case t.state == inMessage && (len(t.exception.message) == maxMessageLines || mayEndMessage(line) && messageEnd().MatchString(line)):
		done, ok = t.end()
	case t.state == inMessage:
		t.exception.message = append(t.exception.message, line)
	}
	return done, ok
}

// readClass reads the line with the exception's class.
func (t *tracer) readClass(line string) {
	t.state = inMessage
	if m := classLine().FindStringSubmatch(line); m != nil {
		t.exception.class, t.exception.message = m[1], []string{m[2]}
		t.exception.isBare = m[1] == line
	} else {
		t.exception.message = []string{line}
	}
}

// end returns the open exception. None of its lines follow.
func (t *tracer) end() (done exception, ok bool) {
	if t.state == inMessage {
		done, ok = t.exception, !t.ignored
		t.hasEnded = t.hasEnded || ok
		t.ignored = false
	}
	t.state = outside
	return done, ok
}

// readFrame reads the first line of a frame.
func (e *exception) readFrame(line string) {
	e.file, e.source = line, ""
	switch {
	case containsAny(line, "/bin/", "torch/distributed/") && launcherFile().MatchString(line):
		e.fromLauncher = true
	case !containsAny(line, "-packages", "/lib", `"<`) || !libraryFile().MatchString(line):
		e.script = line
	}
}

// place returns where the program raised e, such as "train.py:30", "" if that is
// unknown.
func (e *exception) place() string {
	for _, frame := range []string{e.script, e.file} {
		if m := framePlace().FindStringSubmatch(frame); m != nil {
			return m[1] + ":" + m[2]
		}
	}
	return ""
}

// laterLines returns how many lines of the message may be output after the
// exception instead.
func (e *exception) laterLines() int {
	n := 0
	if len(e.message) == maxMessageLines {
		n++
	}
	for _, line := range e.message[min(1, len(e.message)):] {
		if line[0] != ' ' && line[0] != '\t' && line != ">" { // which ends an error of gRPC
			n++
		}
	}
	return n
}

// announces reports whether the message of e ends as if its reason followed.
func (e *exception) announces() bool {
	last := e.message[len(e.message)-1]
	return strings.HasSuffix(strings.TrimRight(last, " "), ":")
}

// saysNothing reports whether the message is missing, or a word of the class.
func (e *exception) saysNothing() bool {
	message := strings.TrimSpace(strings.TrimPrefix(e.text(), e.class+":"))
	return message == e.class || message != "" && strings.HasSuffix(strings.ToLower(strings.TrimSuffix(e.class, "Error")), strings.ToLower(message))
}

// text returns the class and the first line of the message, with what explains it.
func (e *exception) text() string {
	message := ""
	for _, line := range e.message {
		if message = strings.TrimSpace(message + " " + strings.TrimSpace(line)); message != "" && !strings.HasSuffix(message, ":") && !strings.HasSuffix(message, ",") && !strings.HasSuffix(message, "...") {
			break
		}
	}
	for _, line := range e.message[min(1, len(e.message)):] {
		if m := details().FindStringSubmatch(line); m != nil {
			message = strings.TrimSpace(e.message[0]) + " " + m[1]
		}
	}
	switch {
	case e.class == "":
		return message
	case message == "", e.isBare:
		return e.class
	}
	return e.class + ": " + message
}

// details matches the field with the reason in an error of gRPC.
var details = match.Lazy(`^\s*details = "(.+)"$`)

// lastError returns the line of the message below "Last error:", where NCCL has the reason.
func (e *exception) lastError() string {
	for i, line := range e.message[:max(0, len(e.message)-1)] {
		if strings.TrimSpace(line) == "Last error:" {
			return strings.TrimSpace(e.message[i+1])
		}
	}
	return ""
}

// firstOfChain returns the first exception of the last one's chain.
func firstOfChain(found []exception) exception {
	i := len(found) - 1
	for i > 0 && found[i].chained {
		i--
	}
	return found[i]
}

// lostPeer reports whether e was raised because a peer or the store was lost.
func (e *exception) lostPeer(m *matcher) bool {
	text := e.class + ": " + strings.Join(e.message, "\n")
	showsLoss := func(line string) bool {
		row := m.rowOf([]byte(line))
		return row != nil && row.Kind.Has(catalogue.LossOfPeer)
	}
	isLost := e.distributed() && weakLostPeer().MatchString(text) || slices.ContainsFunc(strings.Split(text, "\n"), showsLoss)
	return isLost && !workerFault().MatchString(text)
}

var (
	distributedFile = match.Lazy(`/torch/distributed/|torch[/\\]_?c10d`)
	// storeSource matches a call of the store. Old versions raise only
	// "RuntimeError: Connection reset by peer" from a method of the store. The
	// method has no Python frame, so only the line of its call shows the store.
	storeSource = match.Lazy(`(?i)store(?:\(\))?\.(?:get|set|add|wait|check|compare_set|delete_key|num_keys)\(`)
)

// distributed reports whether torch.distributed raised e.
func (e *exception) distributed() bool {
	return strings.HasPrefix(e.class, "torch.distributed.") ||
		e.class == "RuntimeError" && (distributedFile().MatchString(e.file) || storeSource().MatchString(e.source))
}
