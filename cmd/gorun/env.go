package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/gorun/gorun/launch"
	"github.com/gorun/gorun/launch/preview"
	"github.com/gorun/gorun/launch/status"
)

// envFlags returns the flags that only gorun env has. It also takes all flags of a job.
func envFlags() flagGroup {
	return flagGroup{"Environment of ranks", []jobFlag{
		{name: "rank", arg: "R", usage: "of this rank only"},
		{name: "node", arg: "N", usage: "of the ranks of this node only, by its group rank"},
		{name: "diff", usage: "only what differs between these ranks, or from the node's own"},
		{name: "json", usage: "print one JSON object a node, one a line"},
		{name: "run-id", arg: "ID", usage: "of a running job: the one with this --rdzv-id"},
		{name: "pid", arg: "PID", usage: "of a running job: that of the gorun with this pid"},
	}}
}

// newEnvCommand makes the command that prints the environment of ranks. With a program
// it is a job up to the moment at which the workers would start.
func newEnvCommand() *cobra.Command {
	var o jobOptions
	cmd := &cobra.Command{
		Use:   "env [flags] [PROGRAM [ARGS...]]",
		Short: "Show the environment that each rank gets, or got",
		Long: `Show the environment that each rank of this node gets, and where every value
comes from. Put the word env into the command line of your job: the nodes meet,
and nothing is started. It takes every flag of gorun run (gorun help flags).
Without a PROGRAM it shows what the ranks of a running job got.

Credentials are hidden. It ends with 0; 1 when no job runs here or none of its
agents answers; 2 when several run and none was chosen; 75 and 78 as a job does.`,
		Example: `  gorun env --nproc-per-node 2 train.py   what each rank would get
  gorun env --rank 0                      what rank 0 of the running job got`,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.complete(cmd, args)
			o.raw.Show = true
			if len(args) > 0 {
				return runJob(cmd.Context(), &o)
			}
			return interruptible(cmd.Context(), func(ctx context.Context) error { return runEnv(ctx, &o, streamsOf(cmd)) })
		},
	}
	o.addFlags(cmd, append([]flagGroup{envFlags()}, jobFlags()...)...)
	return cmd
}

// runEnv asks the agents of the job on this machine which environment its ranks got.
func runEnv(ctx context.Context, o *jobOptions, std streams) error {
	t, err := envTarget(o)
	if err != nil {
		return &launch.UsageError{Err: err}
	}
	shown, err := o.raw.Shown()
	if err != nil {
		return &launch.UsageError{Err: err}
	}
	if err := t.open(o.cmd.Flags().Changed("run-id") || o.cmd.Flags().Changed("rdzv-id"), std.err); err != nil {
		return err
	}
	nodes, err := t.environments(ctx)
	if err != nil {
		return err
	}
	selected := preview.Select(nodes, shown.Wants)
	if len(selected) == 0 {
		return fmt.Errorf("%s of the job is not on this machine: run gorun env on the machine that has it", shown.What())
	}
	return preview.Print(std.out, selected, shown.Diff, shown.JSON)
}

// envTarget returns the job that the user means when there is no program.
func envTarget(o *jobOptions) (*target, error) {
	allowed := []string{"rank", "node", "diff", "json", "run-id", "rdzv-id", "pid", "secret-file"}
	var err error
	o.cmd.Flags().Visit(func(f *pflag.Flag) {
		if err != nil || slices.Contains(allowed, f.Name) {
			return
		}
		name := "--" + f.Name
		if f.Shorthand != "" {
			name = "-" + f.Shorthand + " (" + name + ")"
		}
		err = fmt.Errorf("%s needs a PROGRAM: without one gorun env shows what the ranks of a running job got", name)
	})
	if err != nil {
		return nil, err
	}
	flags := o.raw.Flags
	t := &target{runID: cmp.Or(flags["run_id"], flags["rdzv_id"]), secretFile: flags["secret_file"]}
	if text, ok := flags["pid"]; ok {
		if t.pid, err = strconv.Atoi(text); err != nil || t.pid <= 0 {
			return nil, fmt.Errorf("--pid %q is not a pid", text)
		}
	}
	return t, nil
}

// environments returns the answers of the job's agents on this machine, by group rank.
// It fails if no agent answers.
func (t *target) environments(ctx context.Context) ([]preview.Node, error) {
	agents, err := t.agents(ctx)
	if err != nil {
		return nil, err
	}
	var nodes []preview.Node
	var failed error
	for _, a := range agents {
		reply, err := t.client.Ask(ctx, a, status.Request{Type: status.TypeEnv})
		var n preview.Node
		if err == nil && json.Unmarshal(reply.Env, &n) != nil {
			err = errors.New("an agent's answer cannot be read: run the same gorun as the job")
		}
		if err != nil {
			failed = cmp.Or(failed, err)
			continue
		}
		nodes = append(nodes, n)
	}
	if len(nodes) == 0 {
		return nil, failed
	}
	if failed != nil {
		t.note(failed.Error())
	}
	slices.SortStableFunc(nodes, func(a, b preview.Node) int { return cmp.Compare(a.Node, b.Node) })
	return nodes, nil
}
