package main

import (
	"encoding/json"
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
		return status(finishKeeper(ws, killed))
	case len(args) > 0 && args[0] == agentCommand:
		return status(runStarted(args[1:]))
	case len(args) > 0 && args[0] == "run":
		return status(runJob(args[1:]))
	case !isCommand(args):
		return status(runJob(args))
	case stepBack():
		return 0
	}
	root := newRoot()
	root.SetArgs(args)
	return status(root.Execute())
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
		Use:           "gorun [flags] PROGRAM [ARGS...]",
		Short:         "Start the workers of a training job on one node or many",
		SilenceErrors: true,
		SilenceUsage:  true,
		Version:       version(),
	}
	root.SetVersionTemplate("gorun {{.Version}}\n")
	root.SetHelpFunc(func(cmd *cobra.Command, _ []string) {
		fmt.Fprint(cmd.OutOrStdout(), runUsage())
	})
	root.CompletionOptions.HiddenDefaultCmd = true
	root.AddCommand(newRun(), newProbe())
	return root
}

// isCommand: anything else is a job, "gorun [flags] PROGRAM", which is on its way
// without cobra. Only the first argument can name a command, so no value of a
// flag is taken for one.
func isCommand(args []string) bool {
	commands := []string{"help", "--help", "-h", "completion", "--version", "__complete", "__completeNoDesc", probeCommand}
	return len(args) > 0 && slices.Contains(commands, args[0])
}

func newRun() *cobra.Command {
	return &cobra.Command{
		Use:                "run [flags] PROGRAM [ARGS...]",
		Short:              "Run a job (the default command)",
		DisableFlagParsing: true, // torchrun's rules, in flags.go
		RunE:               func(_ *cobra.Command, args []string) error { return runJob(args) },
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
			return json.NewEncoder(cmd.OutOrStdout()).Encode(device.Probe(device.Source(args[0]), os.DirFS("/")))
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
