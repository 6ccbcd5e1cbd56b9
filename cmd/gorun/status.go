package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/gorun/gorun/launch/recorder"
	"github.com/gorun/gorun/launch/status"
	"github.com/gorun/gorun/rendezvous"
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

	follower status.Follower // of the job that is watched
	// collectives shows in which collectives the ranks are instead.
	collectives bool
}

func newStatusCommand() *cobra.Command {
	var o statusOptions
	cmd := &cobra.Command{
		Use:   "status [flags]",
		Short: "Show the state of a running job",
		Long: `Show the state of a job that has an agent on this machine: its nodes, ranks,
pids, restarts, states and times of output; with --watch also steps, rates,
and what a rank does unlike the others. No worker is disturbed.

The exit code is 0 when an agent answered, 1 when no job runs here or none
answers, 2 when several run and none was chosen.`,
		Example: `  gorun status
  gorun status --watch
  gorun status --run-id train --json | jq '.nodes[].state'`,
		Args:              noArguments,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.collectives && o.watch {
				return usagef("cannot use --collectives together with --watch: every question makes the ranks write a file")
			}
			if err := o.target.complete(cmd); err != nil {
				return err
			}
			run := runStatus
			if o.collectives {
				run = runCollectives
			}
			return interruptible(cmd.Context(), func(ctx context.Context) error { return run(ctx, &o, cmd.OutOrStdout()) })
		},
	}
	o.target.addFlags(cmd)
	cmd.Flags().BoolVar(&o.json, "json", false, "print one JSON object; with --watch one a line")
	cmd.Flags().BoolVarP(&o.watch, "watch", "w", false, "print every second until the job ends")
	cmd.Flags().BoolVar(&o.collectives, "collectives", false, "ask PyTorch: which rank is in which collective")
	cmd.Flags().BoolVar(&o.ranks, "ranks", false, "show every rank, even if there are more than 64")
	return cmd
}

// collectivesTime is the time that ranks have to write their dumps. The first one of a rank
// takes up to ten seconds, because torch loads what it prints stacks with.
const collectivesTime = 15 * time.Second

// runCollectives asks every node for its ranks' collectives and prints them.
func runCollectives(ctx context.Context, o *statusOptions, out io.Writer) error {
	reply, err := o.target.ask(ctx, status.Request{
		Type: status.TypeStatus, Question: rendezvous.Question{Topic: status.TopicCollectives, Within: collectivesTime},
	})
	if err != nil {
		return err
	}
	j, err := recorder.DecodeJob(reply.View)
	if err != nil {
		return err
	}
	if !o.json {
		return j.Write(out)
	}
	enc := json.NewEncoder(out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(j)
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
	text, err := o.format(reply, rowsOf(out))
	switch {
	case err != nil:
		return err
	case o.watch && !o.json && isTerminal(out):
		text = "\x1b[H\x1b[2J" + text
	}
	_, err = io.WriteString(out, text)
	return err
}

// format formats a status. rows is the height of the terminal, 0 if the output is none.
func (o *statusOptions) format(reply status.Reply, rows int) (string, error) {
	s, err := status.Decode(reply.View)
	if err != nil {
		return "", err
	}
	if o.watch {
		o.follower.Add(&s)
	}
	var b bytes.Buffer
	switch {
	case o.json:
		enc := json.NewEncoder(&b)
		enc.SetEscapeHTML(false)
		if !o.watch {
			enc.SetIndent("", "  ")
		}
		err = enc.Encode(s)
	case !o.watch || o.ranks:
		err = s.Table(&b, o.ranks)
	case rows > 0:
		err = s.Watch(&b, rows)
	default:
		now := time.Now().Format(time.RFC3339)
		for _, line := range s.Lines() {
			fmt.Fprintf(&b, "%s %s\n", now, line)
		}
	}
	return b.String(), err
}

// rowsOf returns the number of rows of a terminal, 0 for another stream.
func rowsOf(stream any) int {
	if !isTerminal(stream) {
		return 0
	}
	size, err := unix.IoctlGetWinsize(int(stream.(*os.File).Fd()), unix.TIOCGWINSZ)
	if err != nil || size.Row == 0 {
		return defaultRows
	}
	return int(size.Row)
}

// defaultRows is taken for the rows of a terminal that does not tell them.
const defaultRows = 24
