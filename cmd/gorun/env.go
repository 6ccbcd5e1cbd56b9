package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"slices"
	"strconv"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/gorun/gorun/launch"
	"github.com/gorun/gorun/launch/preview"
	"github.com/gorun/gorun/launch/spec"
	"github.com/gorun/gorun/launch/status"
)

// envCommand tells the environment of ranks. With a program it is a job like any
// other up to the moment at which the workers would start; without one it asks
// the job that runs.
const envCommand = "env"

func isEnv(args []string) bool { return len(args) > 0 && args[0] == envCommand }

// ownEnvFlags are the flags that only gorun env has.
func ownEnvFlags() flagGroup {
	return flagGroup{"Environment of ranks", []runFlag{
		{name: "rank", arg: "R", usage: "of this rank only", own: true},
		{name: "node", arg: "N", usage: "of the ranks of this node only, by its group rank", own: true},
		{name: "diff", usage: "only what differs between these ranks, or from the node's own", own: true},
		{name: "json", usage: "print one JSON object a node, one a line", own: true},
		{name: "run-id", arg: "ID", usage: "of a running job: the one with this --rdzv-id", own: true},
		{name: "pid", arg: "PID", usage: "of a running job: that of the gorun with this pid", own: true},
	}}
}

// envFlags are the flags of `gorun env`: its own ones and all of a job's.
func envFlags() grammar { return append(grammar{ownEnvFlags()}, runFlags()...) }

// newEnv is there for help and completion.
func newEnv() *cobra.Command {
	return &cobra.Command{
		Use:   envCommand + " [flags] [PROGRAM [ARGS...]]",
		Short: "Tell which environment each rank gets, or got",
		Long: `Tell which environment each rank of this node gets, and where every value comes
from. Put the word env into the command line of your job: the nodes meet, and
nothing is started. It takes every flag of gorun run (gorun help flags). Without
a PROGRAM it tells what the ranks of a running job got.

Credentials are hidden. It ends with 0; 1 when no job runs here or none of its
agents answers; 2 when several run and none was chosen; 75 and 78 as a job does.`,
		Example: `  gorun env --nproc-per-node 2 train.py   what each rank would get
  gorun env --rank 0                      what rank 0 of the running job got`,
		DisableFlagParsing: true,
		ValidArgsFunction: func(_ *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
			return envFlags().complete(args, typed)
		},
		RunE: func(_ *cobra.Command, args []string) error {
			return runJob(append([]string{envCommand}, args...))
		},
	}
}

// tellEnv asks the agents of the job that runs here.
func tellEnv(raw spec.Raw) error {
	t, err := envTarget(raw)
	if err != nil {
		return &launch.UsageError{Err: err}
	}
	shown, err := raw.Shown()
	if err != nil {
		return &launch.UsageError{Err: err}
	}
	_, byID := raw.Flags["run_id"]
	_, byRdzv := raw.Flags["rdzv_id"]
	if err := t.open(byID || byRdzv, os.Stderr); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGINT, unix.SIGTERM)
	defer stop()
	nodes, err := t.environments(ctx)
	switch {
	case ctx.Err() != nil:
		return exitStatus(exitInterrupt)
	case err != nil:
		return err
	}
	mine := preview.Select(nodes, shown.Wants)
	if len(mine) == 0 {
		return fmt.Errorf("%s of the job is not on this machine: ask on the one that has it", shown.What())
	}
	return launch.Print(os.Stdout, mine, shown.Diff, shown.JSON)
}

// envTarget is the job that is meant where there is no program.
func envTarget(raw spec.Raw) (*target, error) {
	allowed := []string{"rank", "node", "diff", "json", "run_id", "rdzv_id", "pid", "secret_file"}
	given := slices.Concat(slices.Sorted(maps.Keys(raw.Flags)), slices.Sorted(maps.Keys(raw.Lists)))
	for _, name := range given {
		if !slices.Contains(allowed, name) {
			return nil, fmt.Errorf("%s needs a PROGRAM: without one gorun env tells what the ranks of a running job got", envFlags().called(name))
		}
	}
	t := &target{runID: cmp.Or(raw.Flags["run_id"], raw.Flags["rdzv_id"]), secretFile: raw.Flags["secret_file"]}
	if text, ok := raw.Flags["pid"]; ok {
		pid, err := strconv.Atoi(text)
		if err != nil || pid <= 0 {
			return nil, fmt.Errorf("--pid %q is no pid", text)
		}
		t.pid = pid
	}
	return t, nil
}

// environments are what the agents of the job on this machine tell, by group rank.
// The error is for a job of which none tells anything.
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
			err = errors.New("an agent's answer makes no sense: are its gorun and this one the same?")
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
