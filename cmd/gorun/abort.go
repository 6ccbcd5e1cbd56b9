package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gorun/gorun/internal/term"
	"github.com/gorun/gorun/launch/status"
)

// abortOptions are the options of gorun abort.
type abortOptions struct {
	target  target
	message string
}

func newAbortCommand() *cobra.Command {
	var o abortOptions
	cmd := &cobra.Command{
		Use:   "abort [flags]",
		Short: "End a running job on every node",
		Long: `End a job of which an agent runs on this machine, on every node: the workers
get SIGTERM, and SIGKILL after --shutdown-timeout or after a second gorun abort.
Every node reports the user, the node and the message as the cause, and ends
with 143 as after SIGTERM. No restart follows.

The exit code is 0 when an agent accepted the order, 1 when no job runs here or
none answers, 2 when several run and none was chosen.`,
		Example: `  gorun abort -m "wrong learning rate"
  gorun abort --run-id train`,
		Args:              noArguments,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			request, err := o.request()
			if err != nil {
				return err
			}
			if err := o.target.complete(cmd); err != nil {
				return err
			}
			return interruptible(cmd.Context(), func(ctx context.Context) error { return runAbort(ctx, &o.target, request, cmd.OutOrStdout()) })
		},
	}
	o.target.addFlags(cmd)
	cmd.Flags().StringVarP(&o.message, "message", "m", "", "`TEXT` that says why: every node prints it")
	return cmd
}

// runAbort asks an agent of the job to end it.
func runAbort(ctx context.Context, t *target, r status.Request, out io.Writer) error {
	reply, err := t.ask(ctx, r)
	if err != nil {
		return err
	}
	if reply.Aborted == nil {
		return errors.New("the agent did not say what it aborted: run the same gorun as the job")
	}
	_, err = fmt.Fprintln(out, reply.Aborted)
	return err
}

// request returns the request that ends the job.
func (o *abortOptions) request() (status.Request, error) {
	message := strings.TrimSpace(o.message)
	if len(message) > status.MaxMessage {
		return status.Request{}, usagef("the message has %d bytes, more than %d: shorten it", len(message), status.MaxMessage)
	}
	if strings.ContainsFunc(message, term.Unfit) {
		return status.Request{}, usagef("the message has line ends or invisible characters: write it in one line")
	}
	return status.Request{Type: status.TypeAbort, Message: message, User: status.UserName()}, nil
}
