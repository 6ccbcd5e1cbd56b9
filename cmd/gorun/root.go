package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"

	"github.com/gorun/gorun/internal/term"
	"github.com/gorun/gorun/launch"
	"github.com/gorun/gorun/launch/device"
	"github.com/gorun/gorun/launch/spec/surroundings"
	"github.com/gorun/gorun/launch/status"
	"github.com/gorun/gorun/rendezvous"
	"github.com/gorun/gorun/rendezvous/secret"
)

// run runs the whole program: arguments in, exit code out.
func run(args []string) int {
	if err := secret.Forget(); err != nil {
		fmt.Fprintf(os.Stderr, "gorun: warning: %v\n", err)
	}
	err := execute(newRootCommand(), args)
	if _, wrong := errors.AsType[*launch.UsageError](err); wrong && standsBy() {
		return rendezvous.ExitUsage
	}
	return exitCode(err)
}

// standsBy reports whether another task of this node has the same command line and
// prints what is wrong with it.
func standsBy() bool {
	around, err := surroundings.Find(os.LookupEnv, surroundings.ThisHost())
	return err == nil && around.Task.Local > 0
}

// execute runs the command that the arguments name.
func execute(root *cobra.Command, args []string) error {
	args, err := parseLikeArgparse(root, args)
	if err != nil {
		return &launch.UsageError{Err: err}
	}
	root.SetArgs(args)
	return root.ExecuteContext(context.Background())
}

func newRootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "gorun [flags] PROGRAM [ARGS...]",
		Short: "Start the workers of a training job on one node or many",
		Args:  cobra.ArbitraryArgs,
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveDefault // PROGRAM is a file
		},
		SilenceErrors: true,
		SilenceUsage:  true,
		Version:       version(),
	}
	root.SetGlobalNormalizationFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		return pflag.NormalizedName(strings.ReplaceAll(name, "_", "-"))
	})
	root.SetHelpFunc(func(cmd *cobra.Command, _ []string) { fmt.Fprint(cmd.OutOrStdout(), helpOf(cmd)) })
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return &launch.UsageError{Err: flagError(cmd, err)}
	})
	root.Flags().BoolP("version", "v", false, "print the version")
	root.CompletionOptions.DisableDefaultCmd = true
	root.AddCommand(newRunCommand(), newLaunchCommand(), newCheckCommand(), newEnvCommand(), newStatusCommand(), newStacksCommand(), newAbortCommand(), newDiffCommand(),
		newExplainCommand(), newSlurmCommand(), newSSHCommand(), newSSHNodeCommand(), newVersionCommand(), newCompletionCommand(), newSelftestCommand(), newSelftestRankCommand(), newProbeCommand(), newTaskHostCommand())
	root.SetHelpCommand(newHelpCommand())
	root.InitDefaultHelpCmd()
	return root
}

// exitStatus is an error that brings a job's exit code through cobra.
type exitStatus int

func (e exitStatus) Error() string { return fmt.Sprintf("exit status %d", int(e)) }

// exitCode maps an error to the exit code. It prints the error if nothing has printed
// it yet.
func exitCode(err error) int {
	var exit exitStatus
	var usage *launch.UsageError
	var several *status.AmbiguousError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit):
		return int(exit)
	case errors.As(err, &several): // the error's lines list the jobs
		fmt.Fprintf(os.Stderr, "gorun: %s\n", term.Lines(err.Error()))
		return rendezvous.ExitUsage
	case errors.As(err, &usage):
		fmt.Fprintf(os.Stderr, "gorun: %s\n", term.OneLine(err.Error()))
		return rendezvous.ExitUsage
	}
	fmt.Fprintf(os.Stderr, "gorun: %s\n", term.Lines(err.Error()))
	return 1
}

// streams are the standard streams of a command.
type streams struct {
	in       io.Reader
	out, err io.Writer
}

func streamsOf(cmd *cobra.Command) streams {
	return streams{in: cmd.InOrStdin(), out: cmd.OutOrStdout(), err: cmd.ErrOrStderr()}
}

// isTerminal reports whether a stream is a terminal.
func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	if !ok {
		return false
	}
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}

// interruptible runs do and cancels its context at SIGINT and SIGTERM. The exit code is
// then that of Ctrl-C.
func interruptible(ctx context.Context, do func(context.Context) error) error {
	ctx, stop := signal.NotifyContext(ctx, unix.SIGINT, unix.SIGTERM)
	defer stop()
	err := do(ctx)
	if ctx.Err() != nil {
		return exitStatus(128 + int(unix.SIGINT))
	}
	return err
}

// noArguments refuses arguments, with gorun's own message.
func noArguments(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usagef("gorun %s takes no arguments: %q; see gorun %[1]s --help", cmd.Name(), args[0])
	}
	return nil
}

// usagef returns an error of the command line.
func usagef(format string, args ...any) error {
	return &launch.UsageError{Err: fmt.Errorf(format, args...)}
}

func newVersionCommand() *cobra.Command {
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

// version returns the module's version, or the commit that the program was built from.
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

// probeCommand is the hidden command that the agent starts to ask the GPU driver. The
// driver's library may hang or crash, and must not do so in the agent.
const probeCommand = "probe-gpu"

func newProbeCommand() *cobra.Command {
	return &cobra.Command{
		Use:    probeCommand + " nvml|procfs",
		Short:  "Print what the GPU driver says, as JSON",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return device.Answer(cmd.OutOrStdout(), device.Source(args[0]), device.System{Files: os.DirFS("/"), MayOpen: device.MayOpen})
		},
	}
}
