package main

import (
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gorun/gorun/internal/term"
	"github.com/gorun/gorun/launch"
	"github.com/gorun/gorun/launch/device"
	"github.com/gorun/gorun/launch/status"
	"github.com/gorun/gorun/rendezvous"
	"github.com/gorun/gorun/rendezvous/secret"
)

// exitStatus carries a job's exit code through cobra.
type exitStatus int

func (e exitStatus) Error() string { return fmt.Sprintf("exit status %d", int(e)) }

// run is the whole program: arguments in, exit code out.
func run(args []string) int {
	if err := secret.Forget(); err != nil {
		fmt.Fprintf(os.Stderr, "gorun: warning: %v\n", err)
	}
	switch {
	case len(args) > 0 && args[0] == agentCommand:
		return exitCode(runAgent(args[1:]))
	case len(args) > 0 && args[0] == "run":
		return exitCode(runJob(programArgs(args[1:])))
	case !isCommand(args):
		return exitCode(runJob(args))
	}
	root := newRoot()
	root.DisableFlagParsing = strings.HasPrefix(args[0], "__complete") // the flags are a job's
	root.SetArgs(args)
	return exitCode(root.Execute())
}

// programArgs are the arguments after the word run: a program that is named like
// a command is no command there.
func programArgs(args []string) []string {
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		return append([]string{"--"}, args...)
	}
	return args
}

// exitCode maps an error to the exit code, and prints what has not been told yet.
func exitCode(err error) int {
	var exit exitStatus
	var usage *launch.UsageError
	var several *status.Ambiguous
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit):
		return int(exit)
	case errors.As(err, &several): // its lines list them
		fmt.Fprintf(os.Stderr, "gorun: %s\n", term.Lines(err.Error()))
		return rendezvous.ExitUsage
	case errors.As(err, &usage):
		fmt.Fprintf(os.Stderr, "gorun: %s\n", oneLine(err.Error()))
		return rendezvous.ExitUsage
	}
	fmt.Fprintf(os.Stderr, "gorun: %s\n", term.Lines(err.Error()))
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
	root.SetHelpFunc(func(cmd *cobra.Command, _ []string) { fmt.Fprint(cmd.OutOrStdout(), helpOf(cmd)) })
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return &launch.UsageError{Err: flagError(cmd.Flags(), err)}
	})
	root.Flags().BoolP("version", "v", false, "print the version")
	root.SetHelpCommand(newHelp(root))
	root.CompletionOptions.DisableDefaultCmd = true
	root.AddCommand(newRun(), newCheck(), newEnv(), newStatus(), newAbort(), newExplain(), newVersion(), newCompletion(root), newProbe())
	return root
}

// commands are the words that are no program where gorun's first argument is
// expected.
func commands() []string {
	return []string{"run", checkCommand, envCommand, statusCommand, abortCommand, explainCommand, "version", "completion", "help"}
}

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use:                   "version",
		DisableFlagsInUseLine: true,
		Short:                 "Print the version",
		Long:                  "Print the version of gorun, as gorun --version does.",
		Args:                  noArguments,
		ValidArgsFunction:     cobra.NoFileCompletions,
		Run: func(cmd *cobra.Command, _ []string) {
			fmt.Fprintf(cmd.OutOrStdout(), "gorun version %s\n", version())
		},
	}
}

// isCommand: anything else is a job, "gorun [flags] PROGRAM", which is on its way
// without cobra. Only the first argument can name a command, so no value of a
// flag is taken for one.
func isCommand(args []string) bool {
	if len(args) == 0 {
		return false
	}
	jobs := []string{"run", checkCommand, envCommand}
	more := []string{"--help", "-h", "--version", "-v", cobra.ShellCompRequestCmd, cobra.ShellCompNoDescRequestCmd, probeCommand}
	return slices.Contains(commands(), args[0]) && !slices.Contains(jobs, args[0]) || slices.Contains(more, args[0])
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
