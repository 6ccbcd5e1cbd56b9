package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/gorun/gorun/launch"
	"github.com/gorun/gorun/launch/diagnose"
)

// explainCommand reads what a failed job printed.
const explainCommand = "explain"

func newExplain() *cobra.Command {
	asJSON := false
	cmd := &cobra.Command{
		Use:   explainCommand + " [flags] [LOG...|-]",
		Short: "Say why a job failed, from what it printed",
		Long: `Read the output of a failed job (of gorun, torchrun, srun, kubectl logs, docker
compose; NCCL's log files; gzip is unpacked) and say which line is the root
cause, which rank and host are to blame, what to do, and why the other errors
are only consequences. Without LOG, or with -, standard input is read.

The exit code is 0 when the logs could be read, whatever is in them, else 2.`,
		Example: `  gorun explain job.log
  kubectl logs --prefix -l job=train --tail=-1 | gorun explain
  gorun explain --json logs/attempt_0/*/stderr.log`,
		SilenceUsage: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			found, err := explain(cmd.Context(), cmd.InOrStdin(), cmd.ErrOrStderr(), args)
			if err != nil {
				return err
			}
			return printFindings(cmd.OutOrStdout(), found, asJSON)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a list, the most probable cause first")
	return cmd
}

// explain reads the logs; what is odd about them is said on notes.
func explain(ctx context.Context, in io.Reader, notes io.Writer, names []string) ([]diagnose.Finding, error) {
	if ctx == nil {
		ctx = context.Background()
	}
	if len(names) == 0 {
		names = []string{"-"}
	}
	s := diagnose.NewScanner()
	for _, name := range slices.Compact(names) {
		if err := read(ctx, s, in, name); err != nil {
			var path *os.PathError
			if errors.As(err, &path) {
				err = path.Err // the name is told once
			}
			return nil, &launch.UsageError{Err: fmt.Errorf("cannot read %s: %w", name, err)}
		}
	}
	for _, name := range s.NotText() {
		fmt.Fprintf(notes, "gorun: %s is no text: give explain what the job printed\n", name)
	}
	return s.Findings(), nil
}

func printFindings(out io.Writer, found []diagnose.Finding, asJSON bool) error {
	if !asJSON {
		return diagnose.WriteText(out, found)
	}
	enc := json.NewEncoder(out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(append([]diagnose.Finding{}, found...))
}

func read(ctx context.Context, s *diagnose.Scanner, in io.Reader, name string) error {
	if name == "-" {
		if f, ok := in.(*os.File); ok && isTerminal(f) {
			fmt.Fprintln(os.Stderr, "gorun: reading standard input up to Ctrl-D; to read a file: gorun explain job.log")
		}
		return s.Read(ctx, diagnose.Log{Name: name, Rank: -1, Local: -1}, in)
	}
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	return s.Read(ctx, diagnose.LogOf(name), f)
}

func isTerminal(f *os.File) bool {
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}
