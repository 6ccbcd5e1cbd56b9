package program

import (
	"path/filepath"
	"strings"
)

// Subject is what a plan would run, for those who look at files.
type Subject struct {
	Title  string
	Path   string // file that is executed, absolute; "" when it is built first
	Script string // file of the user's own, absolute; "" for a Go package, a module and what the system provides
	Python string // interpreter, absolute, "" when there is none
	Args   []string
	Dir    string
}

// Subject of the plan.
func (p Plan) Subject() Subject {
	s := Subject{Title: p.in.Program, Args: p.in.Args, Dir: p.in.Dir}
	switch p.kind {
	case golang:
	case python:
		s.Path, s.Python = p.path, p.path
		if !p.in.Module {
			s.Script = p.in.abs(p.in.Program)
		}
	default:
		s.Path = p.path
		if strings.HasPrefix(filepath.Base(p.path), "python") {
			s.Python = p.path
		} else if strings.Contains(p.in.Program, "/") && !strings.HasPrefix(p.path, "/usr/") && !strings.HasPrefix(p.path, "/bin/") {
			s.Script = p.path
		}
	}
	return s
}

// Unnamed is the subject when no program was named: the Python that would run a
// script, if there is one.
func (in Input) Unnamed() Subject {
	s := Subject{Dir: in.Dir}
	if path, err := in.interpreter(); err == nil {
		s.Path, s.Python = path, path
	}
	return s
}
