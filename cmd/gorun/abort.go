package main

import (
	"context"
	"fmt"
	"os/signal"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/gorun/gorun/internal/term"
	"github.com/gorun/gorun/launch"
	"github.com/gorun/gorun/launch/status"
)

const abortCommand = "abort"

func newAbort() *cobra.Command {
	var t target
	message := ""
	cmd := &cobra.Command{
		Use:   abortCommand + " [flags]",
		Short: "End a running job on every node",
		Long: `End a job of which an agent runs on this machine, on every node: the workers
get SIGTERM, and SIGKILL after --shutdown-timeout or after a second gorun abort.
Every node reports who ended the job, and the message, as its cause, and ends
with 143 as after SIGTERM. No restart follows.

The exit code is 0 when the order has been taken, 1 when no job runs here or
none answers, 2 when several run and none was chosen.`,
		Example: `  gorun abort -m "wrong learning rate"
  gorun abort --run-id train`,
		Args:              noArguments,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			r, err := order(message)
			if err != nil {
				return err
			}
			ctx, stop := signal.NotifyContext(context.Background(), unix.SIGINT, unix.SIGTERM)
			defer stop()
			if err := t.prepare(cmd); err != nil {
				return err
			}
			reply, err := t.ask(ctx, r)
			if ctx.Err() != nil {
				return exitStatus(exitInterrupt)
			}
			if err != nil {
				return err
			}
			if reply.Aborted == nil {
				return fmt.Errorf("the agent did not say what it aborted; are its gorun and this one the same?")
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), reply.Aborted)
			return err
		},
	}
	t.flags(cmd)
	cmd.Flags().StringVarP(&message, "message", "m", "", "`TEXT` that says why: every node tells it")
	return cmd
}

// order is the request to end a job.
func order(message string) (status.Request, error) {
	message = strings.TrimSpace(message)
	if len(message) > status.MaxMessage {
		return status.Request{}, &launch.UsageError{Err: fmt.Errorf("the message has %d bytes, at most %d are told", len(message), status.MaxMessage)}
	}
	if strings.ContainsFunc(message, term.Unfit) {
		return status.Request{}, &launch.UsageError{Err: fmt.Errorf("the message has line ends or other characters that cannot be seen: write it in one line")}
	}
	return status.Request{Type: status.TypeAbort, Message: message, User: status.UserName()}, nil
}
