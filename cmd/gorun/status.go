package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/gorun/gorun/launch"
	"github.com/gorun/gorun/launch/status"
	"github.com/gorun/gorun/rendezvous/secret"
)

const (
	statusCommand = "status"
	watchEvery    = time.Second
	maxMissed     = 5 // answers of a watched job that may fail to come
	exitInterrupt = 128 + int(unix.SIGINT)
)

// watched is how gorun status prints.
type watched struct {
	out   io.Writer
	json  bool
	all   bool // every rank
	watch bool
	clear bool // out is a terminal
}

func newStatus() *cobra.Command {
	var t target
	var w watched
	cmd := &cobra.Command{
		Use:   statusCommand + " [flags]",
		Short: "Tell how a running job stands",
		Long: `Tell how a job stands of which an agent runs on this machine: its nodes, ranks,
pids, round, restarts, states, and when each worker last printed something.
No worker is disturbed.

The exit code is 0 when a job told its state, 1 when none runs here or none
answers, 2 when several run and none was chosen.`,
		Example: `  gorun status
  gorun status --watch
  gorun status --run-id train --json | jq '.nodes[].state'`,
		Args:              noArguments,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			w.out = cmd.OutOrStdout()
			f, ok := w.out.(*os.File)
			w.clear = ok && isTerminal(f)
			ctx, stop := signal.NotifyContext(context.Background(), unix.SIGINT, unix.SIGTERM)
			defer stop()
			if err := t.prepare(cmd); err != nil {
				return err
			}
			err := w.run(ctx, &t)
			if ctx.Err() != nil {
				return exitStatus(exitInterrupt)
			}
			return err
		},
	}
	t.flags(cmd)
	cmd.Flags().BoolVar(&w.json, "json", false, "print one JSON object; with --watch one a line")
	cmd.Flags().BoolVarP(&w.watch, "watch", "w", false, "print anew every second until the job ends")
	cmd.Flags().BoolVar(&w.all, "ranks", false, "show every rank, also of more than 64")
	return cmd
}

// run prints the status once, or until the job ends.
func (w *watched) run(ctx context.Context, t *target) error {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for seen, failed := false, 0; ; {
		reply, err := t.ask(ctx, status.Request{Type: status.TypeStatus})
		_, gone := errors.AsType[*noJob](err)
		switch {
		case gone && seen:
			t.note("the job runs here no more")
			return nil
		case err != nil && seen && failed < maxMissed: // it may end just now
			failed++
			t.note(err.Error())
		case err != nil:
			return err
		default:
			seen, failed = true, 0
			if err := w.print(reply); err != nil || !w.watch {
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

// print shows the status in place of the one before it, or after it.
func (w *watched) print(reply status.Reply) error {
	text, err := w.render(reply)
	switch {
	case err != nil:
		return err
	case !w.watch || w.json:
	case w.clear:
		text = "\x1b[H\x1b[2J" + text
	default:
		text = time.Now().Format(time.RFC3339) + "\n" + text + "\n"
	}
	_, err = io.WriteString(w.out, text)
	return err
}

func (w *watched) render(reply status.Reply) (string, error) {
	s, err := status.Decode(reply.View)
	if err != nil {
		return "", err
	}
	var b bytes.Buffer
	if !w.json {
		err = s.Table(&b, w.all)
		return b.String(), err
	}
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if !w.watch {
		enc.SetIndent("", "  ")
	}
	err = enc.Encode(s)
	return b.String(), err
}

// target is the job that status and abort are about.
type target struct {
	runID      string
	pid        int
	secretFile string

	client status.Client
	wanted status.Wanted
	notes  io.Writer
	noted  map[string]bool
}

// noJob is the error of a machine without the job that is meant.
type noJob struct{ err error }

func (n *noJob) Error() string { return n.err.Error() }

func (t *target) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&t.runID, "run-id", "", "the job whose --rdzv-id is `ID` (else the one here)")
	f.StringVar(&t.runID, "rdzv-id", "", "the same")
	f.IntVar(&t.pid, "pid", 0, "the job of the gorun whose pid is `PID`")
	f.StringVar(&t.secretFile, "secret-file", "", "`FILE` with the secret of another user's job")
	_ = f.MarkHidden("rdzv-id")
	_ = cmd.RegisterFlagCompletionFunc("run-id", completeFlag("run-id"))
	_ = cmd.RegisterFlagCompletionFunc("pid", completeFlag("pid"))
}

func (t *target) prepare(cmd *cobra.Command) error {
	if cmd.Flags().Changed("pid") && t.pid <= 0 {
		return usagef("--pid %d is no pid", t.pid)
	}
	if cmd.Flags().Changed("secret-file") && t.secretFile == "" {
		return usagef("cannot use --secret-file without a file")
	}
	return t.open(cmd.Flags().Changed("run-id") || cmd.Flags().Changed("rdzv-id"), cmd.ErrOrStderr())
}

// open makes the client; named is whether the job is chosen by its id.
func (t *target) open(named bool, notes io.Writer) error {
	if named && t.runID == "" { // a variable of the shell that is not set
		return usagef("cannot use --run-id without an id")
	}
	s, warning, err := secret.Find(t.secretFile, os.LookupEnv)
	if err != nil {
		return &launch.UsageError{Err: err}
	}
	t.client, t.wanted, t.notes = status.Client{UID: os.Geteuid(), Secret: s}, status.Wanted{PID: t.pid}, notes
	t.noted = map[string]bool{}
	t.note(warning)
	if named {
		t.wanted.RunID = &t.runID
	}
	return nil
}

// note says something once.
func (t *target) note(text string) {
	if text != "" && !t.noted[text] {
		t.noted[text] = true
		fmt.Fprintf(t.notes, "gorun: %s\n", text)
	}
}

// ask finds the job's agents and takes the answer of the first that gives one.
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

// agents are those of the job on this machine.
func (t *target) agents(ctx context.Context) ([]status.Agent, error) {
	found, err := t.client.Find(ctx)
	if err != nil {
		return nil, err
	}
	agents, err := found.Choose(t.wanted)
	if several, ok := errors.AsType[*status.Ambiguous](err); ok {
		return nil, &launch.UsageError{Err: several}
	}
	if err != nil {
		return nil, &noJob{err}
	}
	t.note(found.Unanswered())
	return agents, nil
}

func noArguments(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return &launch.UsageError{Err: fmt.Errorf("gorun %s takes no arguments: %q; see gorun %[1]s --help", cmd.Name(), args[0])}
	}
	return nil
}
