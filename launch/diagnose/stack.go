package diagnose

import (
	"bytes"
	"path"
	"strings"

	"github.com/gorun/gorun/launch/diagnose/match"
)

// maxStack is how many lines after a crash may have the frame that crashed.
const maxStack = 80

// nativeStack matches a frame in the stack that a process prints when it crashes: of UCX, of
// Open MPI and glibc, of gdb and Fortran, and of Python's faulthandler.
var nativeStack = match.AnyOf(
	`^\s*\d+ +0x[\da-f]+ +(?P<function>[A-Za-z_][\w:~<>, ]*)\(\)?`,
	`\[ *\d+\] (?P<library>\S*?)\((?P<function2>\w+)\+0x[\da-f]+\)`,
	`^#\d+ +0x[\da-f]+ in (?P<function3>[\w:~<>]+)`,
	`^\s*File "(?P<library2>[^"]+)", line \d+ in (?P<function4>\w+)$`,
)

// runtimeFrame matches functions of the system and of handlers of signals.
var runtimeFrame = match.Lazy(`^(?:_*(?:funlockfile|sigaction|restore_rt|GI_\w+|raise|abort|gsignal|kill|pthread_\w+|libc_\w+|mem(?:cpy|move|set)\w*|nss_\w+|start_thread|clone3?)|uc[st]_\w+|opal_\w+|orte_\w+|MPL_\w+)$`)

// followCrash looks for the frame in which the process of e crashed.
func (s *Scanner) followCrash(e *event) {
	isNew := s.crash == nil || s.crash.log != e.log || e.number-s.crash.number > maxStack
	if e.row.ID() == "X-SEGV" && isNew {
		s.crash, s.inOther = e, false
	}
}

// readStackFrame adds the first frame of the program below a crash to the text of its event.
func (s *Scanner) readStackFrame(l *line) {
	e := s.crash
	if e == nil || e.log != l.stream.log || l.number-e.number > maxStack || !e.mayBeOf(l.Head) {
		return
	}
	switch {
	case bytes.HasPrefix(l.raw, []byte("Thread 0x")):
		s.inOther = true
	case bytes.HasPrefix(l.raw, []byte("Current thread 0x")):
		s.inOther = false
	}
	if s.inOther {
		return
	}
	if !bytes.Contains(l.raw, []byte("0x")) && !bytes.Contains(l.raw, []byte("File ")) {
		return
	}
	f := match.FindFields(nativeStack(), l.raw)
	if f == nil || runtimeFrame().MatchString(f.Text("function")) {
		return
	}
	e.text += " in " + strings.TrimSpace(f.Text("function"))
	if library := f.Text("library"); library != "" {
		e.text += " (" + path.Base(library) + ")"
	}
	s.crash = nil
}
