package program

import (
	"path/filepath"
	"slices"
	"strings"
)

// Subject describes what a plan would run, for the code that reads the files.
type Subject struct {
	Title  string
	Path   string // absolute path of the executed file; "": it is built first
	Script string // absolute path of the user's own file; "" for a Go package, a module, a pipe and a program of the system
	Python string // absolute path of the interpreter; "": there is none
	Args   []string
	Dir    string
}

// Subject returns the subject of the plan.
func (p Plan) Subject() Subject {
	s := Subject{Title: p.in.Program, Args: slices.Concat(p.localRankArg(), p.in.Args), Dir: p.in.Dir}
	switch p.kind {
	case golang:
	case python:
		s.Path, s.Python = p.path, p.path
		if (!p.in.Module || p.in.RunPath) && !p.in.isTemplate() && !p.in.isPipe() {
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

// Words returns the command line of a worker. It is nil if gorun starts nothing, or
// if the program is Python or built by gorun.
func (s Subject) Words(localRank int) []string {
	if s.Path == "" || s.Title == "" || s.Python != "" {
		return nil
	}
	words := []string{s.Title}
	for _, arg := range s.Args {
		words = append(words, Substitute(arg, localRank))
	}
	return words
}

// Unnamed returns the subject without a named program: the Python that would run a
// script, if there is one.
func (in Input) Unnamed() Subject {
	s := Subject{Dir: in.Dir}
	if path, err := in.interpreter(); err == nil {
		s.Path, s.Python = path, path
	}
	return s
}
