// Package wrap finds out whether the environment that gorun gives to a worker
// reaches the program behind a wrapper: docker or podman run and exec, ssh, sudo,
// srun, env -i, a login shell. Any other program counts as a program that
// passes everything on.
//
// Parse reads a command line as the wrappers themselves do. It can return the same
// command with another program in the place of the worker's. While the nodes meet,
// a Source runs that command with a program that prints its environment, and
// reports what is missing. Settle decides which of that counts once all nodes are
// known.
//
// Invariants: gorun never starts the worker's own program or an image's entry point
// for a probe. Everything that a probe starts has ended when Probe returns, and the
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

// Prefix is the list of programs in front of a worker's program.
type Prefix struct {
	layers  []layer  // the outermost first
	program []string // the words behind the wrappers; nil if a shell's text is not understood
}

// layer is one program in front of the worker's, as the command line describes it.
type layer struct {
	name      string // "docker run"
	program   []string
	text      string                          // a shell's text that is not one plain command; it takes the place of program
	lossless  bool                            // everything that it gets reaches the program
	elsewhere bool                            // it starts a container, or asks another host
	requires  string                          // the variable without which a probe would wait
	login     bool                            // a login shell
	assigned  []string                        // variables that the command line itself sets (NAME=value) or removes (NAME)
	passes    func(name string) bool          // reports whether the options pass a variable on; nil: unknown
	certain   bool                            // a variable that no option passes on certainly does not arrive
	replace   func(program []string) []string // returns the command line with another program and without side effects
	cleanup   []string                        // command that removes what a killed probe leaves; probeName stands for the container's name
	fix       func(names []string) string     // how to get the names through, in the form of preflight's Finding.Fix
}

// probeName stands for the name of the probe's container.
const probeName = "\x00probe"

// Parse finds the wrappers at the head of a command line; argv[0] is the program
// that gorun starts. The error is about a wrapper that a probe cannot run.
func Parse(argv []string) (Prefix, error) {
	var p Prefix
	rest := argv
	for len(rest) > 0 {
		parse := parser(rest[0])
		if parse == nil {
			break
		}
		name := filepath.Base(rest[0])
		if len(p.layers) == maxDepth {
			return Prefix{}, fmt.Errorf("there are more than %d programs within each other", maxDepth)
		}
		l, err := parse(rest)
		if err != nil {
			if !p.Loses() && !isLossy(name) {
				return Prefix{}, nil
			}
			return Prefix{}, fmt.Errorf("%s: %w", name, err)
		}
		if l.name == "" { // a shell that runs a script
			break
		}
		p.layers = append(p.layers, l)
		rest = l.program
		if l.text != "" {
			if hidden := findWrapper(l.text); hidden != "" {
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
	return slices.ContainsFunc(p.layers, func(l layer) bool { return !l.lossless })
}

// Name returns what messages call the wrappers: "sudo docker run". It leaves out
// the programs that lose nothing, unless there are no others.
func (p Prefix) Name() string {
	var names, lossless []string
	for _, l := range p.layers {
		if l.lossless {
			lossless = append(lossless, l.name)
		} else {
			names = append(names, l.name)
		}
	}
	if names == nil {
		names = lossless
	}
	return strings.Join(names, " ")
}

// isElsewhere reports whether the worker's program runs in a container or on
// another host.
func (p Prefix) isElsewhere() bool {
	return slices.ContainsFunc(p.layers, func(l layer) bool { return l.elsewhere })
}

// command puts the first n layers around a program. A container that the command
// starts gets the name.
func (p Prefix) command(n int, name string, program []string) []string {
	for _, l := range slices.Backward(p.layers[:n]) {
		program = l.replace(program)
	}
	out := slices.Clone(program)
	for i, word := range out {
		out[i] = strings.ReplaceAll(word, probeName, name)
	}
	return out
}

// cleanup lists the commands that remove what a killed probe leaves.
func (p Prefix) cleanup(name string) [][]string {
	var all [][]string
	for i, l := range p.layers {
		if l.cleanup != nil {
			all = append(all, p.command(i, name, l.cleanup))
		}
	}
	return all
}

// findWrapper returns the first wrapper in a shell's text that may lose variables,
// or "".
func findWrapper(text string) string {
	for word := range strings.FieldsFuncSeq(text, func(r rune) bool { return strings.ContainsRune(" \t\n;&|(){}`\"'$", r) }) {
		if name := filepath.Base(word); isLossy(name) {
			return name
		}
	}
	return ""
}
