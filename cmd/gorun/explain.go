package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/gorun/gorun/launch/diagnose"
	"github.com/spf13/cobra"
)

// explainOptions are the options of gorun explain.
type explainOptions struct {
	logs []string // names of files; "-" is standard input
	json bool
}

func newExplainCommand() *cobra.Command {
	var o explainOptions
	cmd := &cobra.Command{
		Use:   "explain [flags] [LOG...|-]",
		Short: "Say why a job failed, from what it printed",
		Long: `Read the output of a failed job (of gorun, torchrun, srun, kubectl logs, docker
compose; NCCL's log files; gzip is unpacked) and say which line is the root
cause, which rank and host are to blame, what to do, and why the other errors
are only consequences. Without LOG, or with -, standard input is read.

The exit code is 0 when the logs could be read, whatever is in them, else 2.`,
		Example: `  gorun explain job.log
  kubectl logs --prefix -l job=train --tail=-1 | gorun explain
  gorun explain --json logs/attempt_0/*/stderr.log`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.logs = args; len(args) == 0 {
				o.logs = []string{"-"}
			}
			return runExplain(cmd.Context(), &o, streamsOf(cmd))
		},
	}
	cmd.Flags().BoolVar(&o.json, "json", false, "print a list, the most probable cause first")
	return cmd
}

// runExplain reads the logs and prints the findings.
func runExplain(ctx context.Context, o *explainOptions, std streams) error {
	s := diagnose.NewScanner()
	for _, name := range slices.Compact(o.logs) {
		if err := readLog(ctx, s, std, name); err != nil {
			var path *os.PathError
			if errors.As(err, &path) {
				err = path.Err // the message names the file once
			}
			return usagef("cannot read %s: %w", name, err)
		}
	}
	for _, name := range s.NotText() {
		fmt.Fprintf(std.err, "gorun: %s is not text: give gorun explain the output of a job\n", name)
	}
	if !o.json {
		return diagnose.WriteText(std.out, s.Findings())
	}
	enc := json.NewEncoder(std.out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(append([]diagnose.Finding{}, s.Findings()...)) // [], not null
}

func readLog(ctx context.Context, s *diagnose.Scanner, std streams, name string) error {
	if name == "-" {
		if isTerminal(std.in) {
			fmt.Fprintln(std.err, "gorun: reading standard input up to Ctrl-D; to read a file: gorun explain job.log")
		}
		return s.Read(ctx, diagnose.Log{Name: name, Rank: -1, Local: -1}, std.in)
	}
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	return s.Read(ctx, diagnose.LogOf(name), f)
}
