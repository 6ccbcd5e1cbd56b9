package main

import (
	"context"
	"encoding/json"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/gorun/gorun/launch/stacks"
	"github.com/gorun/gorun/launch/status"
	"github.com/gorun/gorun/rendezvous"
)

// stacksTime is the time that a node has to read the stacks of its workers.
const stacksTime = 5 * time.Second

// stacksOptions are the options of gorun stacks.
type stacksOptions struct {
	target target
	rank   int // -1: all
	full   bool
	json   bool
}

func newStacksCommand() *cobra.Command {
	var o stacksOptions
	cmd := &cobra.Command{
		Use:   "stacks [flags]",
		Short: "Show where in the program the ranks of a running job are",
		Long: `Show where in the program the ranks of a job are that has an agent on this
machine. Ranks at one place are one line; first come those in no collective,
which the others wait for. Python 3.7 to 3.14 is read from memory, Go workers
are asked, neither stops; other programs need eu-stack or gdb.

The exit code is 0 when an agent answered, 1 when no job runs here or none
answers, 2 when several run and none was chosen.`,
		Example: `  gorun stacks
  gorun stacks --rank 5 --full
  gorun stacks --json | jq '.groups[0]'`,
		Args:              noArguments,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Changed("rank") && o.rank < 0 {
				return usagef("--rank %d is not a rank", o.rank)
			}
			if err := o.target.complete(cmd); err != nil {
				return err
			}
			return interruptible(cmd.Context(), func(ctx context.Context) error { return runStacks(ctx, &o, cmd.OutOrStdout()) })
		},
	}
	o.target.addFlags(cmd)
	cmd.Flags().IntVar(&o.rank, "rank", -1, "only the rank `R`")
	cmd.Flags().BoolVar(&o.full, "full", false, "show every frame")
	cmd.Flags().BoolVar(&o.json, "json", false, "print one JSON object")
	return cmd
}

// runStacks asks every node for its stacks and prints them.
func runStacks(ctx context.Context, o *stacksOptions, out io.Writer) error {
	q := stacks.Question{Full: o.full}
	if o.rank >= 0 {
		q.Rank = &o.rank
	}
	reply, err := o.target.ask(ctx, status.Request{
		Type: status.TypeStatus, Question: rendezvous.Question{Topic: status.TopicStacks, Detail: q.String(), Within: stacksTime},
	})
	if err != nil {
		return err
	}
	j, err := stacks.DecodeJob(reply.View)
	if err != nil {
		return err
	}
	if o.rank >= 0 && j.Find(o.rank) == nil && len(j.Silent) == 0 {
		return usagef("the job has no worker with rank %d that runs", o.rank)
	}
	if !o.json {
		return j.Write(out, o.full)
	}
	enc := json.NewEncoder(out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(j)
}
