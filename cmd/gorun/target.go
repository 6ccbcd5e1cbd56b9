package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/gorun/gorun/launch"
	"github.com/gorun/gorun/launch/status"
	"github.com/gorun/gorun/rendezvous/secret"
)

// target is the running job that status, abort and env ask.
type target struct {
	runID      string
	pid        int
	secretFile string

	client status.Client
	wanted status.Selector
	notes  io.Writer
	noted  map[string]bool
}

// noJob is the error for a machine on which the job does not run.
type noJob struct{ err error }

func (n *noJob) Error() string { return n.err.Error() }

func (t *target) addFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&t.runID, "run-id", "", "the job whose --rdzv-id is `ID` (else the one here)")
	f.StringVar(&t.runID, "rdzv-id", "", "the same")
	f.IntVar(&t.pid, "pid", 0, "the job of the gorun whose pid is `PID`")
	f.StringVar(&t.secretFile, "secret-file", "", "`FILE` with the secret of another user's job")
	_ = f.MarkHidden("rdzv-id")
	_ = cmd.RegisterFlagCompletionFunc("run-id", jobFlag{name: "run-id", arg: "ID"}.complete)
	_ = cmd.RegisterFlagCompletionFunc("pid", jobFlag{name: "pid", arg: "PID"}.complete)
}

// complete checks the flags that cobra parsed, and opens the target.
func (t *target) complete(cmd *cobra.Command) error {
	given := cmd.Flags().Changed
	if given("pid") && t.pid <= 0 {
		return usagef("--pid %d is not a pid", t.pid)
	}
	if given("secret-file") && t.secretFile == "" {
		return usagef("cannot use --secret-file without a file")
	}
	return t.open(given("run-id") || given("rdzv-id"), cmd.ErrOrStderr())
}

// open makes the client. named says that the user gave a run id.
func (t *target) open(named bool, notes io.Writer) error {
	if named && t.runID == "" { // probably from a variable of the shell that is not set
		return usagef("cannot use --run-id without an id")
	}
	s, warning, err := secret.Find(t.secretFile, os.LookupEnv)
	if err != nil {
		return &launch.UsageError{Err: err}
	}
	t.client, t.wanted, t.notes = status.Client{UID: os.Geteuid(), Secret: s}, status.Selector{PID: t.pid}, notes
	t.noted = map[string]bool{}
	t.note(warning)
	if named {
		t.wanted.RunID = &t.runID
	}
	return nil
}

// note prints a remark, each remark once.
func (t *target) note(text string) {
	if text != "" && !t.noted[text] {
		t.noted[text] = true
		fmt.Fprintf(t.notes, "gorun: %s\n", text)
	}
}

// ask asks the job's agents in turn and returns the first answer.
func (t *target) ask(ctx context.Context, r status.Request) (status.Reply, error) {
	agents, err := t.agents(ctx)
	if err != nil {
		return status.Reply{}, err
	}
	for _, a := range agents {
		var reply status.Reply
		if reply, err = t.client.Ask(ctx, a, r); err == nil || ctx.Err() != nil {
			return reply, err
		}
		if len(agents) > 1 {
			t.note(err.Error())
		}
	}
	return status.Reply{}, err
}

// agents returns the job's agents on this machine.
func (t *target) agents(ctx context.Context) ([]status.Agent, error) {
	found, err := t.client.Find(ctx)
	if err != nil {
		return nil, err
	}
	agents, err := found.Choose(t.wanted)
	if several, ok := errors.AsType[*status.AmbiguousError](err); ok {
		return nil, &launch.UsageError{Err: several}
	}
	if err != nil {
		return nil, &noJob{err}
	}
	t.note(found.Unanswered())
	return agents, nil
}
