package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/gorun/gorun/launch"
	"github.com/gorun/gorun/launch/check"
)

// checkFlags returns the flags that only gorun check has. gorun check also takes all
// flags of a job, so that a user can put the word check into the command line of any
// job.
func checkFlags() flagGroup {
	return flagGroup{"Check", []jobFlag{
		{name: "json", usage: "print the findings as JSON on stdout"},
		{name: "save", arg: "FILE", usage: "write this node's facts to FILE"},
		{name: "from", usage: "compare the facts saved in the FILEs that follow, and nothing else"},
		{name: "strict", usage: "end with 1 when there are warnings"},
	}}
}

// newCheckCommand makes the command that compares nodes: a job up to the moment at which
// the workers would start.
func newCheckCommand() *cobra.Command {
	var o jobOptions
	cmd := &cobra.Command{
		Use:   "check [flags] [PROGRAM [ARGS...]]",
		Short: "Compare the nodes of a job and start nothing",
		Long: `Compare the nodes of a job and start nothing: the versions, interfaces, devices,
limits and variables of its workers, and whether they could work together. Put
the word check into the command line of your job: it takes every flag of gorun
run (gorun help flags). Those about output and the end have no effect.

It ends with 0, with 78 when a check fails, with 1 when there are warnings and
--strict is given, and as a job would when the program cannot be started on a
node. docs/checks.md lists the checks.`,
		Example: `  gorun check train.py                                    this node
  gorun check --nnodes 2 --rdzv-endpoint node1 train.py   the same on both nodes
  gorun check --from a.json b.json                        facts of --save`,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.complete(cmd, args)
			o.raw.Check = true
			if o.raw.Flags["from"] == "1" {
				return runCheckFiles(&o, cmd.OutOrStdout())
			}
			return runJob(cmd.Context(), &o)
		},
	}
	o.addFlags(cmd, append([]flagGroup{checkFlags()}, jobFlags()...)...)
	return cmd
}

// runCheckFiles compares the files that gorun check --save wrote.
func runCheckFiles(o *jobOptions, out io.Writer) error {
	raw, files := o.raw, o.raw.Command
	raw.Command = nil
	delete(raw.Flags, "from")
	sp, err := raw.Resolve(os.LookupEnv)
	misplaced := slices.IndexFunc(files, isFlagLike)
	switch {
	case err != nil:
	case len(files) == 0:
		err = errors.New("--from needs files: gorun check --from a.json b.json")
	case misplaced > 0:
		err = fmt.Errorf("%s comes after a file: flags come first, as in gorun check --from %s %s", files[misplaced], files[misplaced], files[0])
	case raw.Flags["save"] != "":
		err = errors.New("cannot use --save together with --from: it writes the facts of this node, which --from does not read")
	}
	if err != nil {
		return &launch.UsageError{Err: err}
	}
	code, err := check.Offline(check.Policy{Checks: sp.Checks, Conflict: sp.Env.Conflict, Trusted: sp.Trusted, MaxNodes: sp.MaxNodes}, files, out)
	switch {
	case err != nil:
		return &launch.UsageError{Err: err}
	case code != 0:
		return exitStatus(code)
	}
	return nil
}
