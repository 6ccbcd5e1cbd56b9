package stacks

import (
	"fmt"
	"path"
	"strings"

	"github.com/gorun/gorun/internal/term"
)

// Frame is a call.
type Frame struct {
	Func string `json:"function"`
	File string `json:"file,omitempty"`
	Line int    `json:"line,omitempty"` // 0: not known
	Own  bool   `json:"own,omitempty"`  // of the program itself, not of a library
}

// Sources of a stack.
const (
	FromWorker = "worker" // the worker itself
	FromMemory = "memory" // of a Python process
	FromPySpy  = "py-spy"
	FromEuStk  = "eu-stack"
	FromGDB    = "gdb"
	FromKernel = "kernel" // no frames
)

// Stack is where the main thread of a rank is, or the goroutine that waits in a
// collective.
type Stack struct {
	Rank   int     `json:"rank"`
	PID    int     `json:"pid,omitempty"` // of the process whose stack it is; 0: the worker has ended
	Source string  `json:"source,omitempty"`
	Frames []Frame `json:"frames,omitempty"` // the innermost first
	Kernel Kernel  `json:"kernel,omitzero"`
	// Missing says why there are no frames.
	Missing string `json:"missing,omitempty"`
	// Helper is the stack of a process that the rank started and waits for, for example
	// a DataLoader's worker.
	Helper *Stack `json:"helper,omitempty"`
}

// Bounds of one stack.
const (
	maxFrames = 64
	maxName   = 160 // bytes of a function's name
	maxFile   = 240 // bytes of a file's name
	maxWhy    = 240 // bytes of Missing
)

// Clean bounds a stack and makes its texts printable. Its maker and its reader call it.
func (s *Stack) Clean() {
	s.Frames = s.Frames[:min(len(s.Frames), maxFrames)]
	for i := range s.Frames {
		f := &s.Frames[i]
		f.Func, f.File, f.Line = short(f.Func, maxName), shortEnd(f.File, maxFile), max(0, f.Line)
	}
	s.Source, s.Missing = short(s.Source, maxName), short(s.Missing, maxWhy)
	s.Kernel.clean()
	if s.Helper != nil {
		s.Helper.Helper = nil
		s.Helper.Clean()
	}
}

// short returns text on one line, with at most n bytes.
func short(text string, n int) string {
	return term.Line(strings.ToValidUTF8(term.Cut(text, n), "?"))
}

// shortEnd returns the end of a text on one line, with at most n bytes: the end of a path
// says more than its beginning.
func shortEnd(text string, n int) string {
	if len(text) > n {
		text = "…" + text[len(text)-n:]
	}
	return term.Line(strings.ToValidUTF8(text, ""))
}

// Place is the part of a stack that tells ranks apart.
type Place struct {
	Call string `json:"call,omitempty"` // the collective in which it is, or another call of a library that is known to wait
	Func string `json:"function,omitempty"`
	File string `json:"file,omitempty"`
	Line int    `json:"line,omitempty"`
	// State says what the kernel says, if that explains more than the line: a stopped
	// process, or one that has no frames.
	State string `json:"state,omitempty"`
}

// Place returns the program's own innermost frame and the call that it is in.
func (s *Stack) Place() Place {
	var p Place
	if own := s.innermostOwn(); own >= 0 {
		f := s.Frames[own]
		p.Func, p.File, p.Line, p.Call = f.Func, f.File, f.Line, callIn(s.Frames[:own])
	} else if len(s.Frames) > 0 { // libraries alone
		f := s.Frames[0]
		p.Func, p.File, p.Line, p.Call = f.Func, f.File, f.Line, callIn(s.Frames)
	}
	if len(s.Frames) == 0 || s.Kernel.isStopped() || s.Kernel.State == "D" {
		p.State = s.Kernel.String()
	}
	return p
}

// Waits reports whether a rank is in a collective, and is not stopped there.
func (s *Stack) Waits() bool {
	frames := s.Frames[:max(0, s.innermostOwn())]
	if len(frames) == 0 && s.innermostOwn() < 0 {
		frames = s.Frames
	}
	at, name := callOf(frames)
	return at >= 0 && isCollective(frames[at], name) && !s.Kernel.isStopped()
}

// innermostOwn returns the index of the program's own innermost frame, -1 if there is
// none.
func (s *Stack) innermostOwn() int {
	for i, f := range s.Frames {
		if f.Own {
			return i
		}
	}
	return -1
}

// At returns the file and the line without the folder: "train.py:88", "" if there is none.
func (p Place) At() string {
	if p.File == "" {
		return ""
	}
	name := path.Base(p.File)
	if p.Line > 0 {
		name += ":" + itoa(p.Line)
	}
	return name
}

// String says where a rank is: "in all_reduce at train.py:88", "in load_data at
// data.py:13", "stopped by a signal, in load_data at data.py:13".
func (p Place) String() string {
	text := ""
	switch at := p.At(); {
	case p.Call != "" && at != "":
		text = "in " + p.Call + " at " + at
	case p.Func == "<module>" && at != "":
		text = "at " + at
	case p.Func != "" && at != "":
		text = "in " + p.Func + " at " + at
	case p.Func != "":
		text = "in " + p.Func
	}
	switch {
	case p.State == "":
	case text == "":
		text = p.State
	default:
		text = p.State + ", " + text
	}
	if text == "" {
		return "at a place that is not known"
	}
	return text
}

// Where returns what follows "it is in" in a report: "load_data (data.py:13)", and whether
// the process is stopped or waits for another one; "" if nothing is known.
func (s *Stack) Where() string {
	k := &s.Kernel
	if len(s.Frames) == 0 {
		switch {
		case k.isStopped():
			return "no call: it is " + k.String()
		case k.Syscall != "" && k.On != "":
			return systemCall + k.Syscall + " of " + k.On
		case k.Syscall != "":
			return systemCall + k.Syscall
		}
		return ""
	}
	text := s.Place().Where()
	if k.isStopped() {
		text += ", " + k.String()
	}
	if s.Helper != nil {
		text += fmt.Sprintf(", and waits for its process %d in %s", s.Helper.PID, s.Helper.Where())
	}
	return text
}

// systemCall begins what Where says of a process without frames.
const systemCall = "the system call "

// HasLine reports whether what Where returned names a line of the program.
func HasLine(where string) bool { return where != "" && !strings.HasPrefix(where, systemCall) }

// Where returns the program's own line: "load_data (data.py:13)", "" if it is not known.
func (p Place) Where() string {
	at, name := p.At(), p.Func
	switch {
	case at == "":
		return p.State
	case name == "" || name == "<module>":
		return at
	}
	return name[strings.LastIndexByte(name, '/')+1:] + " (" + at + ")" // without the path of a Go package
}
