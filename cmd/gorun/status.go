package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/gorun/gorun/launch/status"
)

const (
	watchEvery = time.Second
	maxMissed  = 5 // answers that a watched job may miss
)

// statusOptions are the options of gorun status.
type statusOptions struct {
	target target
	json   bool
	ranks  bool // true: show every rank
	watch  bool
}

func newStatusCommand() *cobra.Command {
	var o statusOptions
	cmd := &cobra.Command{
		Use:   "status [flags]",
		Short: "Show the state of a running job",
		Long: `Show the state of a job that has an agent on this machine: its nodes, ranks,
pids, round, restarts, states, and when each worker last printed something.
No worker is disturbed.

The exit code is 0 when an agent answered, 1 when no job runs here or none
answers, 2 when several run and none was chosen.`,
		Example: `  gorun status
  gorun status --watch
  gorun status --run-id train --json | jq '.nodes[].state'`,
		Args:              noArguments,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.target.complete(cmd); err != nil {
				return err
			}
			return interruptible(cmd.Context(), func(ctx context.Context) error { return runStatus(ctx, &o, cmd.OutOrStdout()) })
		},
	}
	o.target.addFlags(cmd)
	cmd.Flags().BoolVar(&o.json, "json", false, "print one JSON object; with --watch one a line")
	cmd.Flags().BoolVarP(&o.watch, "watch", "w", false, "print every second until the job ends")
	cmd.Flags().BoolVar(&o.ranks, "ranks", false, "show every rank, even if there are more than 64")
	return cmd
}

// runStatus prints the status once, or until the job ends.
func runStatus(ctx context.Context, o *statusOptions, out io.Writer) error {
	t := &o.target
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for seen, failed := false, 0; ; {
		reply, err := t.ask(ctx, status.Request{Type: status.TypeStatus})
		_, ended := errors.AsType[*noJob](err)
		switch {
		case ended && seen:
			t.note("the job no longer runs here")
			return nil
		case err != nil && seen && failed < maxMissed: // the job may be ending now
			failed++
			t.note(err.Error())
		case err != nil:
			return err
		default:
			seen, failed = true, 0
			if err := o.print(out, reply); err != nil || !o.watch {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// print shows the status in place of the previous one, or after it.
func (o *statusOptions) print(out io.Writer, reply status.Reply) error {
	text, err := o.format(reply)
	switch {
	case err != nil:
		return err
	case !o.watch || o.json:
	case isTerminal(out):
		text = "\x1b[H\x1b[2J" + text
	default:
		text = time.Now().Format(time.RFC3339) + "\n" + text + "\n"
	}
	_, err = io.WriteString(out, text)
	return err
}

func (o *statusOptions) format(reply status.Reply) (string, error) {
	s, err := status.Decode(reply.View)
	if err != nil {
		return "", err
	}
	var b bytes.Buffer
	if !o.json {
		err = s.Table(&b, o.ranks)
		return b.String(), err
	}
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if !o.watch {
		enc.SetIndent("", "  ")
	}
	err = enc.Encode(s)
	return b.String(), err
}
