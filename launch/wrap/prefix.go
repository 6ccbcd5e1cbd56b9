// Package wrap finds out whether the environment that gorun gives to a worker
// reaches the program behind a wrapper: docker run, ssh, sudo, srun, a login
// shell and the like.
//
// Wrap reads a command line as the wrappers themselves do, and returns the same
// command with another program in the place of the worker's. While the nodes
// meet, a Look runs that command with a program that prints its environment, and
// reports what is missing. Settle decides which of that counts once all nodes are
// known.
//
// Invariants: gorun runs no command line that it does not understand for certain,
// and the error says why. It never starts the worker's own program or an image's
// entry point. Everything that a probe starts has ended when Probe returns, and the
// output of a probe is bounded. Values stay in memory; only names of variables
// leave the package.
package wrap

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// maxDepth bounds the number of wrappers within wrappers.
const maxDepth = 8

// Prefix is the list of wrappers in front of a worker's program.
type Prefix struct {
	layers  []layer  // the outermost first
	program []string // what stands behind the wrappers; nil if a shell's text is not understood
}

// layer is one wrapper, as the command line describes it.
type layer struct {
	name    string // "docker run"
	program []string
	text    string                        // a shell's text that is not one plain command; it takes the place of program
	keeps   bool                          // everything that it gets reaches the program
	slow    bool                          // it starts a container, or asks another host
	needs   string                        // the variable without which gorun must not run it
	login   bool                          // a login shell of this machine
	meant   []string                      // variables that the command line itself sets (NAME=value) or removes (NAME)
	passes  func(name string) bool        // reports whether an option passes the variable on; nil: no option does
	strict  bool                          // a variable that no option passes certainly does not arrive
	around  func(probe []string) []string // returns the wrapper with another program and without side effects
	undo    []string                      // command that removes what a killed probe leaves; probeName stands for the container's name
	fix     func(names []string) string   // how to get the names through, in the form of preflight's Finding.Fix
}

// probeName stands for the name of the probe's container.
const probeName = "\x00probe"

// Wrap finds the wrappers at the head of a command line; argv[0] is the program
// that gorun starts. The error is about a wrapper that a probe cannot run.
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
				return Prefix{}, nil // it is like any other program: it cannot lose anything
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

// Loses reports whether one of the wrappers may lose variables.
func (p Prefix) Loses() bool {
	return slices.ContainsFunc(p.layers, func(l layer) bool { return !l.keeps })
}

// Name returns what messages call the wrappers that may lose variables: "sudo
// docker run".
func (p Prefix) Name() string {
	var names []string
	for _, l := range p.layers {
		if !l.keeps {
			names = append(names, l.name)
		}
	}
	return strings.Join(names, " ")
}

// fullName returns Name with the wrappers that lose nothing.
func (p Prefix) fullName() string {
	var names []string
	for _, l := range p.layers {
		names = append(names, l.name)
	}
	return strings.Join(names, " ")
}

// isSlow reports whether the wrappers take more than a moment to start a program.
func (p Prefix) isSlow() bool {
	return slices.ContainsFunc(p.layers, func(l layer) bool { return l.slow })
}

// Command returns the command line with another program and without lasting side
// effects. A container that it starts gets the name.
func (p Prefix) Command(name string, program ...string) []string {
	return p.command(len(p.layers), name, program)
}

// undo lists the commands that remove what a killed probe leaves.
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

// mentions returns the first wrapper in a shell's text that may lose variables, or
// "".
func mentions(text string) string {
	for _, word := range strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(" \t\n;&|(){}`\"'$", r) }) {
		if lossy(base(word)) {
			return base(word)
		}
	}
	return ""
}

func base(program string) string { return filepath.Base(program) }
