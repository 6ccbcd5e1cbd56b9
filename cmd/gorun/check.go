package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/gorun/gorun/launch"
	"github.com/gorun/gorun/launch/exam"
	"github.com/gorun/gorun/launch/spec"
)

// checkCommand compares nodes without a program to run. It is a job like any
// other up to the moment at which the workers would start.
const checkCommand = "check"

func isCheck(args []string) bool { return len(args) > 0 && args[0] == checkCommand }

// checkFlags are the flags of `gorun check`: those by which nodes meet and are
// compared, and its own ones.
func checkFlags() grammar {
	g := grammar{{"Check", []runFlag{
		{name: "json", usage: "print the findings as JSON on stdout", own: true},
		{name: "save", arg: "FILE", usage: "write this node's facts to FILE", own: true},
		{name: "from", usage: "compare the facts saved in the FILEs that follow, and nothing else", own: true},
		{name: "strict", usage: "end with 1 when there are warnings", own: true},
	}}}
	for _, group := range runFlags() {
		if group.title != "Output and end" {
			g = append(g, group)
		}
	}
	return g
}

// checkUsage is the help of `gorun check`.
func checkUsage() string {
	var b strings.Builder
	b.WriteString(`Compare the nodes of a job and start nothing: which versions, interfaces, devices,
limits and variables its workers would have, and whether they could work together.

Usage:
  gorun check [flags] [PROGRAM [ARGS...]]     on one node, or on each with the flags by which they meet
  gorun check --from [flags] FILE...          compare facts that were saved with --save

It ends with 0, 78 when a check fails, 1 with --strict when there are warnings,
and as a job would when the program cannot be started on a node.
docs/checks.md lists the checks.

`)
	describe(&b, slices.Clone(checkFlags()))
	return b.String()
}

// checkOffline compares the files that gorun check --save wrote.
func checkOffline(raw spec.Raw) error {
	files := raw.Command
	raw.Command = nil
	delete(raw.Flags, "from")
	sp, err := raw.Resolve(os.LookupEnv)
	late := slices.IndexFunc(files, looksLikeFlag)
	switch {
	case err != nil:
	case len(files) == 0:
		err = errors.New("--from needs files: gorun check --from a.json b.json")
	case late > 0:
		err = fmt.Errorf("%s comes after a file: flags come first, as in gorun check --from %s %s", files[late], files[late], files[0])
	case raw.Flags["save"] != "":
		err = errors.New("cannot use --save together with --from: it writes the facts of this node, which --from does not look at")
	}
	if err != nil {
		return &launch.UsageError{Err: err}
	}
	code, err := exam.Offline(&sp, files, os.Stdout)
	switch {
	case err != nil:
		return &launch.UsageError{Err: err}
	case code != 0:
		return exitStatus(code)
	}
	return nil
}
