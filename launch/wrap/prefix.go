// Package wrap finds out whether the environment that gorun gives to a worker
// reaches the program behind a wrapper: docker run, ssh, sudo, srun, a login
// shell and the like.
//
// Wrap reads a command line as the wrappers themselves do, and gives the same
// command with another program in the place of the worker's. A Look runs that
// command, while the nodes meet, with a program that prints its environment, and
// says what is missing. Settle says what of it counts once all nodes are known.
//
// Invariants: a command line that is not understood for certain is not run, and
// the error says why; the worker's own program, and an image's entry point, are
// never started; what a probe starts is gone when Probe returns, and its output is
// bounded; values stay in memory, only names of variables leave the package.
package wrap

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// maxDepth bounds wrappers within wrappers.
const maxDepth = 8

// Prefix is the wrappers in front of a worker's program.
type Prefix struct {
	layers  []layer  // the outermost first
	program []string // behind them; nil where a shell's text is not understood
}

// layer is one wrapper, as its command line stands.
type layer struct {
	name    string // "docker run"
	program []string
	text    string                        // a shell's text that is not one plain command, instead of program
	keeps   bool                          // everything it was given reaches the program
	slow    bool                          // it starts a container, or asks another host
	needs   string                        // variable without which it must not be run
	login   bool                          // a login shell of this machine
	meant   []string                      // variables that the command line itself gives, NAME=value, or takes away, NAME
	passes  func(name string) bool        // an option asks for this variable; nil: none does
	strict  bool                          // what no option passes does not arrive, for certain
	around  func(probe []string) []string // the wrapper with another program, harmless
	undo    []string                      // command that removes what a killed probe leaves; probeName stands for its name
	fix     func(names []string) string   // how the names get through; in the form of preflight's Finding.Fix
}

// probeName stands for a name of the probe's own.
const probeName = "\x00probe"

// Wrap finds the wrappers at the head of a command line; argv[0] is the program
// that is started. The error is about a wrapper behind which it cannot be looked.
func Wrap(argv []string) (Prefix, error) {
	var p Prefix
	rest := argv
	for len(rest) > 0 {
		parse := parser(rest[0])
		if parse == nil {
			break
		}
		if len(p.layers) == maxDepth {
			return Prefix{}, fmt.Errorf("there are more than %d programs within each other", maxDepth)
		}
		l, err := parse(rest)
		if err != nil {
			if !p.Loses() && !loses(rest) {
				return Prefix{}, nil // a program as any other: it can take nothing away
			}
			return Prefix{}, fmt.Errorf("%s: %w", base(rest[0]), err)
		}
		if l.name == "" { // a shell that runs a script
			break
		}
		p.layers = append(p.layers, l)
		rest = l.program
		if l.text != "" {
			if hidden := mentions(l.text); hidden != "" {
				return Prefix{}, fmt.Errorf("%s: its text starts %s, and is more than one plain command", l.name, hidden)
			}
		}
	}
	if len(p.layers) > 0 {
		p.program = rest
	}
	return p, nil
}

// Loses reports whether a wrapper is there that may lose variables.
func (p Prefix) Loses() bool {
	return slices.ContainsFunc(p.layers, func(l layer) bool { return !l.keeps })
}

// Name is what messages call the wrappers: "sudo docker run".
func (p Prefix) Name() string {
	var names []string
	for _, l := range p.layers {
		if !l.keeps {
			names = append(names, l.name)
		}
	}
	return strings.Join(names, " ")
}

// fullName is Name with those that lose nothing.
func (p Prefix) fullName() string {
	var names []string
	for _, l := range p.layers {
		names = append(names, l.name)
	}
	return strings.Join(names, " ")
}

// isSlow reports whether it takes more than a moment to start a program so.
func (p Prefix) isSlow() bool {
	return slices.ContainsFunc(p.layers, func(l layer) bool { return l.slow })
}

// Command is the command line with another program, without side effects that
// last. A container that it starts is called name.
func (p Prefix) Command(name string, program ...string) []string {
	return p.command(len(p.layers), name, program)
}

// undo are the commands that remove what a killed probe leaves.
func (p Prefix) undo(name string) [][]string {
	var all [][]string
	for i, l := range p.layers {
		if l.undo != nil {
			all = append(all, p.command(i, name, l.undo))
		}
	}
	return all
}

// command puts the first n layers around a program.
func (p Prefix) command(n int, name string, program []string) []string {
	for _, l := range slices.Backward(p.layers[:n]) {
		program = l.around(program)
	}
	out := slices.Clone(program)
	for i, word := range out {
		out[i] = strings.ReplaceAll(word, probeName, name)
	}
	return out
}

// loses reports whether a word of the command line names a wrapper that may lose
// variables.
func loses(argv []string) bool {
	return slices.ContainsFunc(argv, func(word string) bool { return lossy(base(word)) })
}

// mentions is such a wrapper in the text of a shell, "" for none.
func mentions(text string) string {
	for _, word := range strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(" \t\n;&|(){}`\"'$", r) }) {
		if lossy(base(word)) {
			return base(word)
		}
	}
	return ""
}

func base(program string) string { return filepath.Base(program) }
