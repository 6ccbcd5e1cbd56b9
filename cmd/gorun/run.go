package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/gorun/gorun/envprop/ncclenv"
	"github.com/gorun/gorun/internal/term"
	"github.com/gorun/gorun/launch"
	"github.com/gorun/gorun/launch/spec"
	"github.com/gorun/gorun/rendezvous"
)

func newRunCommand() *cobra.Command {
	var o jobOptions
	cmd := &cobra.Command{
		Use:   "run [flags] PROGRAM [ARGS...]",
		Short: "Run a job (the default command)",
		RunE: func(cmd *cobra.Command, args []string) error {
			o.complete(cmd, args)
			return runJob(cmd.Context(), &o)
		},
	}
	o.addFlags(cmd, jobFlags()...)
	return cmd
}

// newLaunchCommand makes the command that is torch.distributed.launch.
func newLaunchCommand() *cobra.Command {
	var o jobOptions
	cmd := &cobra.Command{
		Use:   "launch [flags] PROGRAM [ARGS...]",
		Short: "Run a job as python -m torch.distributed.launch does",
		Long: `Run a job as python -m torch.distributed.launch does: gorun run, whose flags it
takes (gorun help flags), with --local-rank=N as the first argument of each
worker's program.`,
		Example: `  gorun launch --nproc-per-node 2 train.py`,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.complete(cmd, args)
			o.raw.Launch = true
			return runJob(cmd.Context(), &o)
		},
	}
	o.addFlags(cmd, append([]flagGroup{launchFlags()}, jobFlags()...)...)
	return cmd
}

// launchFlags returns the flags that only gorun launch has.
func launchFlags() flagGroup {
	return flagGroup{"Launch", []jobFlag{
		{name: "use-env", usage: "give the program no --local-rank; LOCAL_RANK says it anyway"},
	}}
}

// jobOptions are the options of run, check and env. Values of flags are text; package
// spec reads them.
type jobOptions struct {
	raw   spec.Raw
	agent string // this process's place among the agents; "": this process is the keeper
	cmd   *cobra.Command
}

// agentFlag is the flag that a keeper adds to the arguments of its agents. It is no
// variable, because a worker would inherit it and must never become an agent.
const agentFlag = "agent-of-keeper"

func (o *jobOptions) addFlags(cmd *cobra.Command, groups ...flagGroup) {
	set := cmd.Flags()
	set.SortFlags = false
	set.SetInterspersed(false) // arguments after the program belong to the program
	addFlags(cmd, groups...)
	set.StringVar(&o.agent, agentFlag, "", "")
	_ = set.MarkHidden(agentFlag)
}

// complete fills in the options from the flags and arguments that cobra parsed.
func (o *jobOptions) complete(cmd *cobra.Command, args []string) {
	o.cmd = cmd
	o.raw = spec.Raw{Flags: map[string]string{}, Lists: map[string][]string{}, Command: args}
	for _, entry := range os.Environ() {
		name, _, _ := strings.Cut(entry, "=")
		o.raw.Environ = append(o.raw.Environ, name)
	}
	cmd.Flags().Visit(func(f *pflag.Flag) {
		name := strings.ReplaceAll(f.Name, "-", "_")
		switch v := f.Value.(type) {
		case *listValue:
			o.raw.Lists[name] = v.texts
		case *textValue:
			o.raw.Flags[name] = v.text
		default:
			if !f.Hidden {
				o.raw.Flags[name] = map[string]string{"true": "1", "false": "0"}[v.String()]
			}
		}
	})
}

// resolve returns what the user and the surroundings of this process mean.
func (o *jobOptions) resolve() (spec.Spec, error) {
	raw := o.raw
	raw.Line = o.line(o.commandLine())
	raw.Surroundings = findSurroundings
	sp, err := raw.Resolve(os.LookupEnv)
	sp.Notes = append(sp.Notes, misspeltVariables(os.Environ())...)
	return sp, err
}

// commandLine returns arguments that give these options again, without some flags.
func (o *jobOptions) commandLine(without ...string) []string {
	var line []string
	o.cmd.Flags().Visit(func(f *pflag.Flag) {
		if f.Hidden || slices.Contains(without, f.Name) {
			return
		}
		switch v := f.Value.(type) {
		case *listValue:
			for _, text := range v.texts {
				line = append(line, "--"+f.Name+"="+text)
			}
		default:
			if v.Type() == "bool" && v.String() == "true" {
				line = append(line, "--"+f.Name)
			} else {
				line = append(line, "--"+f.Name+"="+v.String())
			}
		}
	})
	if o.cmd.ArgsLenAtDash() == 0 {
		line = append(line, "--")
	}
	return append(line, o.raw.Command...)
}

// commandWith returns gorun's command line with another value of a flag, for the user.
func (o *jobOptions) commandWith(flag, value string) []string {
	return append([]string{"gorun"}, o.line(append([]string{"--" + flag + "=" + value}, o.commandLine(flag)...))...)
}

// shownCommandWith returns the command line of commandWith as text without
// credentials.
func (o *jobOptions) shownCommandWith(flag, value string) string {
	return term.Command(ncclenv.ShownWords(o.commandWith(flag, value))...)
}

// line puts the command in front of its arguments, unless it is run.
func (o *jobOptions) line(args []string) []string {
	if o.cmd.Name() == "run" {
		return args
	}
	return append([]string{o.cmd.Name()}, args...)
}

// runJob runs this process's part of the job, as the agent or as the keeper.
func runJob(ctx context.Context, o *jobOptions) error {
	if o.agent != "" {
		return runAgent(ctx, o)
	}
	sp, err := o.resolve()
	if err != nil && sp.Surroundings.Task.Local > 0 { // the first task of this node prints the same
		return exitStatus(rendezvous.ExitUsage)
	}
	if err != nil {
		return reportError(sp, &launch.UsageError{Err: err})
	}
	if sp.Surroundings.Task.Count > 1 {
		return runTask(ctx, sp, o)
	}
	return runKeeper(ctx, sp, o)
}

// reportError writes the error to the file of --report, because no other code does so
// before launch.Run, and returns it.
func reportError(sp spec.Spec, err error) error {
	if err := launch.ReportError(sp, time.Time{}, err); err != nil {
		fmt.Fprintf(os.Stderr, "gorun: %v\n", err)
	}
	return err
}
