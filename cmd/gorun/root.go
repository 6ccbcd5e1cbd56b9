package main

import (
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gorun/gorun/launch"
	"github.com/gorun/gorun/launch/device"
	"github.com/gorun/gorun/rendezvous"
)

// exitStatus carries a job's exit code through cobra.
type exitStatus int

func (e exitStatus) Error() string { return fmt.Sprintf("exit status %d", int(e)) }

// run is the whole program: arguments in, exit code out.
func run(args []string) int {
	ws, killed, ended := earlyEnd()
	switch {
	case ended:
		return status(finishKeeper(ws, killed, args))
	case len(args) > 0 && args[0] == agentCommand:
		return status(runStarted(args[1:]))
	case len(args) > 0 && args[0] == "run":
		return status(runJob(programArgs(args[1:])))
	case !isCommand(args):
		return status(runJob(args))
	case stepBack():
		return 0
	}
	root := newRoot()
	root.DisableFlagParsing = strings.HasPrefix(args[0], "__complete") // the flags are a job's
	root.SetArgs(args)
	return status(root.Execute())
}

// programArgs are the arguments after the word run: a program that is named like
// a command is no command there.
func programArgs(args []string) []string {
	if isCheck(args) || isEnv(args) {
		return append([]string{"--"}, args...)
	}
	return args
}

// status maps an error to the exit code, and prints what has not been told yet.
func status(err error) int {
	var exit exitStatus
	var usage *launch.UsageError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit):
		return int(exit)
	case errors.As(err, &usage):
		fmt.Fprintf(os.Stderr, "gorun: %v\n", err)
		return rendezvous.ExitUsage
	}
	fmt.Fprintf(os.Stderr, "gorun: %v\n", err)
	return 1
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:               "gorun [flags] PROGRAM [ARGS...]",
		Short:             "Start the workers of a training job on one node or many",
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: completeJob,
		SilenceErrors:     true,
		SilenceUsage:      true,
		Version:           version(),
	}
	// Cobra gets no template: text/template calls methods by name, for which the
	// linker keeps all that are exported, and each start takes 4 ms longer.
	root.SetHelpFunc(func(cmd *cobra.Command, _ []string) {
		text := cmd.Long + "\n\n" + cmd.UsageString()
		switch cmd.Name() {
		case root.Name(), "run":
			text = runUsage()
		case checkCommand:
			text = checkUsage()
		case envCommand:
			text = envUsage()
		}
		fmt.Fprint(cmd.OutOrStdout(), text)
	})
	root.SetHelpCommand(newHelp(root))
	root.CompletionOptions.HiddenDefaultCmd = true
	root.AddCommand(newRun(), newCheck(), newEnv(), newStatus(), newAbort(), newExplain(), newProbe())
	return root
}

// newHelp is cobra's, but for an error where there is no such command.
func newHelp(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Tell more of a command",
		Long:  "Tell more of a command: its flags, what it prints and how it ends.",
		RunE: func(_ *cobra.Command, args []string) error {
			cmd, rest, err := root.Find(args)
			if err != nil || len(rest) > 0 {
				return &launch.UsageError{Err: fmt.Errorf("there is no help for %q: it knows run, check, env, status, abort and explain", strings.Join(args, " "))}
			}
			return cmd.Help()
		},
		ValidArgsFunction: func(_ *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
			var names []string
			for _, c := range root.Commands() {
				if len(args) == 0 && c.IsAvailableCommand() && strings.HasPrefix(c.Name(), typed) {
					names = append(names, c.Name()+"\t"+c.Short)
				}
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
	}
}

// isCommand: anything else is a job, "gorun [flags] PROGRAM", which is on its way
// without cobra. Only the first argument can name a command, so no value of a
// flag is taken for one.
func isCommand(args []string) bool {
	commands := []string{"help", "--help", "-h", "completion", "--version", "__complete", "__completeNoDesc", explainCommand, statusCommand, abortCommand, probeCommand}
	return len(args) > 0 && slices.Contains(commands, args[0])
}

func newRun() *cobra.Command {
	return &cobra.Command{
		Use:                "run [flags] PROGRAM [ARGS...]",
		Short:              "Run a job (the default command)",
		DisableFlagParsing: true, // torchrun's rules, in flags.go
		ValidArgsFunction:  completeJob,
		RunE:               func(_ *cobra.Command, args []string) error { return runJob(args) },
	}
}

func completeJob(_ *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	return grammar(runFlags()).complete(args, typed)
}

// newCheck is there for help and completion: a check runs as jobs do.
func newCheck() *cobra.Command {
	return &cobra.Command{
		Use:                checkCommand + " [flags] [PROGRAM [ARGS...]]",
		Short:              "Compare the nodes of a job and start nothing",
		DisableFlagParsing: true,
		ValidArgsFunction: func(_ *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
			return checkFlags().complete(args, typed)
		},
		RunE: func(_ *cobra.Command, args []string) error {
			return runJob(append([]string{checkCommand}, args...))
		},
	}
}

// probeCommand is what the agent starts to ask the GPU driver: a library that
// may hang or crash must not do so in the agent.
const probeCommand = "probe-gpu"

func newProbe() *cobra.Command {
	return &cobra.Command{
		Use:    probeCommand + " nvml|procfs",
		Short:  "Print what the GPU driver says, as JSON",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return device.Answer(cmd.OutOrStdout(), device.Source(args[0]), os.DirFS("/"))
		},
	}
}

// version is the module's version, or the commit it was built from.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	v := info.Main.Version
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && (v == "" || v == "(devel)") {
			v = s.Value[:min(12, len(s.Value))]
		}
	}
	return strings.Trim(v, "()")
}
