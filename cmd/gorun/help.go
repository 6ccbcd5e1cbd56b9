package main

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// helpWidth is the most columns of a help text: the width of a plain terminal.
const helpWidth = 80

// firstScreen is the help of gorun and gorun run. It leaves one of a terminal's
// 24 lines to the prompt.
const firstScreen = `gorun starts the workers of a training job on one node or many, like torchrun.

  gorun [flags] PROGRAM [ARGS...]    a Python script, Go package or executable

  gorun --standalone --nproc-per-node gpu train.py        a worker for each GPU
  gorun --nnodes 2 --rdzv-endpoint node1 train.py         the same on both nodes
  gorun check --nnodes 2 --rdzv-endpoint node1 train.py   compare, start nothing
  gorun status --watch                                    the job's state
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

Commands: run launch slurm ssh check selftest env status stacks abort explain
  version torchrun-diff completion help   More: gorun help flags|COMMAND|man
`

// manPage is made from the help of all commands: go generate ./cmd/gorun.
//
//go:generate go test . -run TestManPage|TestVariablesInDocs|TestFromTorchrun -update
//go:embed gorun.1
var manPage string

// newHelpCommand makes cobra's help command with two more topics, and with an error for
// a topic without help.
func newHelpCommand() *cobra.Command {
	return &cobra.Command{
		Use: "help [COMMAND|flags|man]", DisableFlagsInUseLine: true,
		Short: "Show the help of a command",
		Long:  "Show the help of a command, list all flags, or print the manual page, to be\nread with: gorun help man | man -l -",
		RunE: func(cmd *cobra.Command, args []string) error {
			return runHelp(cmd.Root(), strings.Join(args, " "), streamsOf(cmd))
		},
		ValidArgsFunction: func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
			topics := []string{"flags\tList all flags", "man\tPrint the manual page"}
			for _, c := range cmd.Root().Commands() {
				if c.IsAvailableCommand() {
					topics = append(topics, c.Name()+"\t"+c.Short)
				}
			}
			return offer(args, typed, topics), cobra.ShellCompDirectiveNoFileComp
		},
	}
}

// runHelp prints the help of a topic.
func runHelp(root *cobra.Command, topic string, std streams) error {
	switch topic {
	case "":
		return root.Help()
	case "flags":
		fmt.Fprint(std.out, flagsHelp())
		return nil
	case "man":
		fmt.Fprint(std.out, manPage)
		if isTerminal(std.out) {
			fmt.Fprintln(std.err, "gorun: to read it: gorun help man | man -l -")
		}
		return nil
	}
	known := append(commandNames(root), "flags", "man")
	if slices.Contains(known, topic) {
		cmd, _, err := root.Find([]string{topic})
		if err != nil {
			return err
		}
		return cmd.Help()
	}
	if like := nearest(topic, slices.Values(known)); like != "" {
		return usagef("there is no help for %q: did you mean gorun help %s?", topic, like)
	}
	return usagef("there is no help for %q: the topics are %s", topic, strings.Join(known, ", "))
}

// commandNames returns the names of the commands that are not hidden.
func commandNames(root *cobra.Command) []string {
	var names []string
	for _, c := range root.Commands() {
		if c.IsAvailableCommand() || c.Name() == "help" {
			names = append(names, c.Name())
		}
	}
	return names
}

// helpOf returns the help of one command.
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

// shownFlags returns the flags that the help of a command shows: all but a job's flags
// (gorun help flags shows them) and --help itself.
func shownFlags(cmd *cobra.Command) *pflag.FlagSet {
	job, shown := flagSet(jobFlags()...), pflag.NewFlagSet("", pflag.ContinueOnError)
	shown.SortFlags = cmd.Flags().SortFlags
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if f.Name != "help" && (!isJob(cmd) || job.Lookup(f.Name) == nil) {
			shown.AddFlag(f)
		}
	})
	return shown
}

// flagsHelp returns a text that lists every flag of gorun run by groups.
func flagsHelp() string {
	var b strings.Builder
	b.WriteString("The flags of gorun run, which gorun check and gorun env take too. They end at\n" +
		"PROGRAM. GORUN_<NAME> gives the default of each flag (GORUN_NNODES), PET_<NAME>\n" +
		"that of a flag that torchrun has. A switch is 1 or 0; what may be given several\n" +
		"times is separated by spaces.\n\n")
	for _, group := range jobFlags() {
		fmt.Fprintf(&b, "%s:\n%s\n", group.title, flagSet(group).FlagUsagesWrapped(helpWidth))
	}
	return strings.TrimSuffix(b.String(), "\n")
}
