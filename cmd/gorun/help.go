package main

import (
	_ "embed"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/gorun/gorun/launch"
)

// helpWidth is the number of columns of a plain terminal. No help is wider.
const helpWidth = 80

// firstScreen is the help of gorun and gorun run. It leaves one of a terminal's
// 24 lines to the prompt.
const firstScreen = `gorun starts the workers of a training job on one node or many, like torchrun.

  gorun [flags] PROGRAM [ARGS...]    a Python script, Go package or executable

  gorun --standalone --nproc-per-node gpu train.py        a worker for each GPU
  gorun --nnodes 2 --rdzv-endpoint node1 train.py         the same on both nodes
  gorun check --nnodes 2 --rdzv-endpoint node1 train.py   compare, start nothing
  gorun status --watch                                    how the job stands
  gorun explain job.log                                   why a job failed

      --nnodes N|MIN:MAX              number of nodes, or its bounds
      --nproc-per-node N|auto|gpu|cpu workers on this node
      --rdzv-endpoint HOST[:PORT]     where the nodes meet, e.g. the first node
      --rdzv-id ID                    name of the job
      --standalone                    this node alone
      --local-nodes N                 try a job of N nodes on this machine
      --max-restarts N                start the workers again after a failure
  -x, --export NAME[=VALUE]           a variable for the workers of all nodes
  -t, --tee 3                         workers' output, with a prefix, and files
      --log-dir DIR                   where those files are

Commands: run check env status abort explain version completion help
More: gorun help flags (all), gorun help COMMAND, gorun help man, docs/usage.md
`

// manPage is made from the help of all commands: go generate ./cmd/gorun.
//
//go:generate go test . -run TestManPage -update
//go:embed gorun.1
var manPage string

// newHelp is cobra's, with two topics more, and an error where there is nothing
// to tell.
func newHelp(root *cobra.Command) *cobra.Command {
	topics := []string{"flags\tList all flags", "man\tPrint the manual page"}
	return &cobra.Command{
		Use: "help [COMMAND|flags|man]", DisableFlagsInUseLine: true,
		Short: "Tell more of a command",
		Long:  "Tell more of a command, list all flags, or print the manual page, to be read\nwith: gorun help man | man -l -",
		RunE: func(cmd *cobra.Command, args []string) error {
			switch strings.Join(args, " ") {
			case "flags":
				fmt.Fprint(cmd.OutOrStdout(), flagsHelp())
				return nil
			case "man":
				fmt.Fprint(cmd.OutOrStdout(), manPage)
				if f, ok := cmd.OutOrStdout().(*os.File); ok && isTerminal(f) {
					fmt.Fprintln(cmd.ErrOrStderr(), "gorun: to read it: gorun help man | man -l -")
				}
				return nil
			}
			of, rest, err := root.Find(args)
			if err != nil || len(rest) > 0 {
				known := append(commandNames(root), "flags", "man")
				text := fmt.Sprintf("there is no help for %q", strings.Join(args, " "))
				if like := nearest(strings.Join(args, " "), slices.Values(known)); like != "" {
					return &launch.UsageError{Err: fmt.Errorf("%s: did you mean gorun help %s?", text, like)}
				}
				return &launch.UsageError{Err: fmt.Errorf("%s: it knows %s", text, strings.Join(known, ", "))}
			}
			return of.Help()
		},
		ValidArgsFunction: func(_ *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
			var names []string
			for _, c := range root.Commands() {
				if c.IsAvailableCommand() {
					names = append(names, c.Name()+"\t"+c.Short)
				}
			}
			return offer(args, typed, append(names, topics...)), cobra.ShellCompDirectiveNoFileComp
		},
	}
}

// commandNames are the commands that a person can name.
func commandNames(root *cobra.Command) []string {
	var names []string
	for _, c := range root.Commands() {
		if c.IsAvailableCommand() {
			names = append(names, c.Name())
		}
	}
	return names
}

// helpOf is the help of one command.
func helpOf(cmd *cobra.Command) string {
	if cmd.Name() == "gorun" || cmd.Name() == "run" {
		return firstScreen
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\nUsage:\n  %s\n", cmd.Long, cmd.UseLine())
	if cmd.Example != "" {
		fmt.Fprintf(&b, "\nExamples:\n%s\n", cmd.Example)
	}
	if flags := shownFlags(cmd); flags.HasAvailableFlags() {
		fmt.Fprintf(&b, "\nFlags:\n%s", flags.FlagUsagesWrapped(helpWidth))
	}
	return b.String()
}

// shownFlags returns the flags that the help of a command shows.
func shownFlags(cmd *cobra.Command) *pflag.FlagSet {
	switch cmd.Name() { // which parse as jobs do, without cobra
	case checkCommand:
		return grammar{ownCheckFlags()}.set()
	case envCommand:
		return grammar{ownEnvFlags()}.set()
	}
	flags := cmd.LocalFlags()
	if f := flags.Lookup("help"); f != nil {
		f.Hidden = true // the reader has found it
	}
	return flags
}

// flagsHelp lists every flag of gorun run.
func flagsHelp() string {
	return "The flags of gorun run, which gorun check and gorun env take too. They end at\n" +
		"PROGRAM. PET_<NAME> gives the default of a flag that torchrun has.\n\n" + describe(runFlags())
}

// describe lists flags by their groups.
func describe(groups grammar) string {
	var b strings.Builder
	for _, group := range groups {
		fmt.Fprintf(&b, "%s:\n%s\n", group.title, grammar{group}.set().FlagUsagesWrapped(helpWidth))
	}
	return strings.TrimSuffix(b.String(), "\n")
}
