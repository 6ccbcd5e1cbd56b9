// Package python reads tracebacks of Python out of the lines of one process.
//
// A Tracer gets one line after the other and returns an Exception when its last line was
// read. Tracebacks may lack their beginning or their indentation, and those of two
// processes may be mixed.
package python

import (
	"slices"
	"strings"

	"github.com/gorun/gorun/launch/diagnose/catalogue"
	"github.com/gorun/gorun/launch/diagnose/match"
)

// Exception is one traceback of Python.
type Exception struct {
	Class   string   // "torch.distributed.DistBackendError"
	Message []string // the rest of the line of the class, and the lines that follow
	File    string   // the innermost frame: `  File "…", line 1, in f`
	Script  string   // the innermost frame outside libraries
	Source  string   // the line of source of the innermost frame
	caller  string   // the innermost frame outside torch and Python, with its source; "": as File
	// isBare means that the line of the class has no message.
	isBare bool
	// FromLauncher means that a frame is of a launcher.
	FromLauncher bool
	// FromMain means that the outermost frame is the top level of a file: nothing in the
	// program caught the exception.
	FromMain bool
	// Chained means that Python raised it from the exception before it, or while the
	// program handled that one.
	Chained bool
}

// maxMessageLines bounds the lines of an exception's message.
const maxMessageLines = 8

var (
	nativeFrame = match.Lazy(`File "(?:<unknown>|[^"]*\.(?:c|cc|cpp|cxx|cu|h|hpp|rs|S|so[.0-9]*))", line \d+`)
	classLine   = match.Lazy(`^((?:[A-Za-z_]\w*\.)*[A-Za-z_]\w*)(?: \(see above for traceback\))?(?::\s*(.*))?$`)
	// ErrorLine matches the first line of an exception, by the name of its class.
	ErrorLine    = match.Lazy(`^(?:[A-Za-z_]\w*\.)*[A-Za-z_]*(?:Error|Exception|Interrupt|Exit)\b`)
	framePlace   = match.Lazy(`File "([^"]+)", line (\d+)`)
	libraryFile  = match.Lazy(`site-packages|dist-packages|/lib(?:64)?/python\d|"<frozen |"<string>"`)
	launcherFile = match.Lazy(`/bin/(?:torchrun|accelerate|deepspeed|horovodrun|ray)"|torch/distributed/(?:run|launch)\.py"|torch/distributed/(?:launcher|elastic/(?:agent|rendezvous))/`)
	// messageEnd matches a line that is no part of a message before it.
	messageEnd = match.AnyOf(`^terminate called`, `^frame #\d+: `, `^Exception raised from `, `^\[[WEIF]\d* `,
		catalogue.LauncherBanner, `^Process [\w:.-]+:$`, `^Exception in thread `, `^\[rank\d+\]`, ` NCCL (?:INFO|WARN) `, `Warning: `, `^(?:WARNING|ERROR|CRITICAL|INFO|DEBUG)[: ]`)
)

// IsTraceback reports whether a line begins a traceback.
func IsTraceback(line string) bool {
	return strings.HasPrefix(line, "Traceback (most recent call last):")
}

// isChain reports whether a line announces the next traceback of a chain.
func isChain(line string) bool {
	return strings.HasPrefix(line, "During handling of the above exception, another exception occurred:") ||
		strings.HasPrefix(line, "The above exception was the direct cause of the following exception:")
}

// IsIgnored reports whether a line announces an exception that Python ignored.
func IsIgnored(line string) bool {
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
	return line[0] == '[' || catalogue.LauncherLine().MatchString(line) || containsAny(line, "terminate called", "frame #", "Exception raised from ", "Process ", "Exception in thread ", " NCCL ", "Warning: ", "WARNING", "ERROR", "CRITICAL", "INFO", "DEBUG")
}

// Exceptions returns the tracebacks in lines, in their order, without those
// that Python ignored. The beginning of the first may be cut off.
func Exceptions(lines []string) []Exception {
	var found []Exception
	var t Tracer
	for _, line := range lines {
		if e, ok := t.ReadLine(line); ok {
			found = append(found, e)
		}
	}
	if e, ok := t.End(); ok {
		found = append(found, e)
	}
	return found
}

// The states of a tracer.
const (
	Outside   = iota // of tracebacks
	InFrames         // between the head and the exception
	InMessage        // in the exception, which may have several lines
)

// Tracer parses tracebacks in the lines of one process. The zero value is ready.
type Tracer struct {
	exception        Exception
	State            int
	Chained, Ignored bool // of the next exception
	hasEnded         bool // an earlier exception has ended
	hasHead          bool // the first line of the traceback was read
	nested           int  // tracebacks that began inside another: their lines are mixed
	flat             bool // the lines lost their indentation
	// mixed are the lines after the last frame that look like no exception: of another
	// process, or an exception of an odd form.
	mixed []string
}

// maxMixed bounds the lines of other processes between two frames.
const maxMixed = 8

// ReadLine reads the next line, which must not be empty. It returns the exception
// that ended before this line.
func (t *Tracer) ReadLine(line string) (done Exception, ok bool) {
	switch {
	case isChain(line):
		done, ok = t.End()
		t.Chained = true
	case IsIgnored(line):
		done, ok = t.End()
		t.Ignored = true
	case t.State == InFrames && IsTraceback(line):
		t.nested++
	case IsTraceback(line), t.State != InFrames && isFrame(line) && !nativeFrame().MatchString(line):
		done, ok = t.End()
		t.exception = Exception{Chained: t.Chained && t.hasEnded}
		t.Chained, t.flat, t.State, t.mixed, t.hasHead = false, false, InFrames, nil, IsTraceback(line)
		if line[0] != 'T' {
			t.exception.readFrame(line)
		}
	case t.State == InFrames && (isFrame(line) || isFrame(" "+line)):
		t.flat, t.mixed = !isFrame(line), nil
		t.exception.readFrame(line)
	case t.State == InFrames && (line[0] == ' ' || line[0] == '\t' || t.flat && !ErrorLine().MatchString(line)):
		if strings.Trim(line, " ^~") != "" {
			t.exception.Source = line
		}
	case t.State == InFrames && !classLine().MatchString(line) && len(t.mixed) < maxMixed:
		t.mixed = append(t.mixed, line)
	case t.State == InFrames && t.mixed != nil && !classLine().MatchString(line):
		done, ok = t.End()
	case t.State == InFrames:
		t.readClass(line)
	case t.State == InMessage && t.nested > 0 && ErrorLine().MatchString(line):
		e := t.exception
		done, ok = t.End()
		t.nested--
		t.exception = Exception{File: e.File, Script: e.Script, FromMain: e.FromMain}
		t.readClass(line)
	case t.State == InMessage && (len(t.exception.Message) == maxMessageLines || mayEndMessage(line) && messageEnd().MatchString(line)):
		done, ok = t.End()
	case t.State == InMessage:
		t.exception.Message = append(t.exception.Message, line[:min(len(line), 2*match.MaxText)])
	}
	return done, ok
}

// IsMixed reports whether the last line may be the first one of an exception of an odd form,
// or one of another process.
func (t *Tracer) IsMixed() bool { return t.State == InFrames && t.mixed != nil }

// readMixed takes the lines that look like no exception for its message.
func (t *Tracer) readMixed() {
	t.State = InMessage
	t.exception.Message, t.mixed = t.mixed, nil
}

// readClass reads the line with the exception's class.
func (t *Tracer) readClass(line string) {
	t.State = InMessage
	if m := classLine().FindStringSubmatch(line); m != nil {
		t.exception.Class, t.exception.Message = m[1], []string{m[2]}
		t.exception.isBare = m[1] == line
	} else {
		t.exception.Message = []string{line}
	}
}

// End returns the open exception. None of its lines follow.
func (t *Tracer) End() (done Exception, ok bool) {
	if t.IsMixed() && t.hasHead && t.exception.File != "" {
		t.readMixed()
	}
	if t.State == InMessage {
		done, ok = t.exception, !t.Ignored
		t.hasEnded = t.hasEnded || ok
		t.Ignored = false
	}
	t.State = Outside
	return done, ok
}

// readFrame reads the first line of a frame.
func (e *Exception) readFrame(line string) {
	if e.File != "" && !isOfTorch(e.File) {
		e.caller = strings.TrimSpace(e.File)
		if source := strings.TrimSpace(e.Source); source != "" {
			e.caller += ": " + source
		}
	}
	if e.File == "" {
		e.FromMain = strings.HasSuffix(line, ", in <module>")
	}
	e.File, e.Source = line, ""
	switch {
	case containsAny(line, "/bin/", "torch/distributed/") && launcherFile().MatchString(line):
		e.FromLauncher = true
	case !containsAny(line, "-packages", "/lib", `"<`) || !libraryFile().MatchString(line):
		e.Script = line
	}
}

// isOfTorch reports whether a frame is of torch, of Python or of a launcher.
func isOfTorch(frame string) bool {
	return containsAny(frame, "/torch/", "/lib/python", "/bin/", `"<frozen`) && !strings.Contains(frame, "-packages/") || strings.Contains(frame, "-packages/torch/")
}

// Caller returns the innermost frame of another library than torch, below the program's own
// frames, "" if there is none.
func (e *Exception) Caller() string {
	if !isOfTorch(e.File) || e.caller == "" || strings.HasPrefix(e.caller, strings.TrimSpace(e.Script)) && e.Script != "" {
		return ""
	}
	return e.caller
}

// Place returns where the program raised e, such as "train.py:30", "" if that is
// unknown.
func (e *Exception) Place() string {
	for _, frame := range []string{e.Script, e.File} {
		if m := framePlace().FindStringSubmatch(frame); m != nil {
			return m[1] + ":" + m[2]
		}
	}
	return ""
}

// Raised returns the innermost frame and its source, "" where the source is unknown or only
// raises e, and where the frame is the program's own.
func (e *Exception) Raised() string {
	source := strings.TrimSpace(e.Source)
	if source == "" || source == "raise" || strings.HasPrefix(source, "raise ") || e.File == e.Script {
		return ""
	}
	return strings.TrimSpace(e.File) + ": " + source
}

// LaterLines returns how many lines of the message may be output after the
// exception instead.
func (e *Exception) LaterLines() int {
	n := 0
	if len(e.Message) == maxMessageLines {
		n++
	}
	for _, line := range e.Message[min(e.reasonOfGraph()+1, len(e.Message)):] {
		if line[0] != ' ' && line[0] != '\t' && line != ">" { // which ends an error of gRPC
			n++
		}
	}
	return n
}

// reasonOfGraph returns the index of the line with the reason in the message of an error of
// TensorFlow's graph, which names the node before it; 0 if there is none.
func (e *Exception) reasonOfGraph() int {
	i := 1 + slices.IndexFunc(e.Message, func(line string) bool { return strings.HasPrefix(line, "Node: '") })
	if i == len(e.Message) {
		return 0
	}
	return i
}

// Announces reports whether the message of e ends as if its reason followed.
func (e *Exception) Announces() bool {
	last := e.Message[len(e.Message)-1]
	return strings.HasSuffix(strings.TrimRight(last, " "), ":")
}

// SaysNothing reports whether the message is missing, or a word of the class.
func (e *Exception) SaysNothing() bool {
	message := strings.TrimSpace(strings.TrimPrefix(e.Text(), e.Class+":"))
	return message == e.Class || message != "" && strings.HasSuffix(strings.ToLower(strings.TrimSuffix(e.Class, "Error")), strings.ToLower(message))
}

// Text returns the class and the first line of the message, with what explains it.
func (e *Exception) Text() string {
	message := ""
	for _, line := range e.Message {
		if message = strings.TrimSpace(message + " " + strings.TrimSpace(line)); message != "" && !strings.HasSuffix(message, ":") && !strings.HasSuffix(message, ",") && !strings.HasSuffix(message, "...") {
			break
		}
	}
	for _, line := range e.Message[min(1, len(e.Message)):] {
		if m := details().FindStringSubmatch(line); m != nil {
			message = strings.TrimSpace(e.Message[0]) + " " + m[1]
		}
	}
	if i := e.reasonOfGraph(); i > 0 {
		message = strings.TrimSpace(e.Message[0]) + " " + strings.TrimSpace(e.Message[i])
	}
	switch {
	case e.Class == "":
		return message
	case message == "", e.isBare:
		return e.Class + e.assertion("")
	}
	return e.Class + ": " + message + e.assertion(message)
}

// assertion returns the source of the assertion that failed, after ": ". It returns "" if e
// is none, or if its message has words and not only values.
func (e *Exception) assertion(message string) string {
	source := strings.TrimSpace(e.Source)
	if !strings.HasSuffix(e.Class, "AssertionError") || !strings.HasPrefix(source, "assert ") || strings.TrimLeft(message, "([{0123456789") == message && message != "" {
		return ""
	}
	return ": " + source[:min(len(source), 160)]
}

// details matches the field with the reason in an error of gRPC.
var details = match.Lazy(`^\s*details = "(.+)"$`)

// LastError returns the line of the message below "Last error:", where NCCL has the reason.
func (e *Exception) LastError() string {
	for i, line := range e.Message[:max(0, len(e.Message)-1)] {
		if strings.TrimSpace(line) == "Last error:" {
			return strings.TrimSpace(e.Message[i+1])
		}
	}
	return ""
}

// FirstOfChain returns the first exception of the last one's chain.
func FirstOfChain(found []Exception) Exception {
	i := len(found) - 1
	for i > 0 && found[i].Chained {
		i--
	}
	return found[i]
}
