package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gorun/gorun/launch/diagnose"
	"github.com/gorun/gorun/launch/flight"
	"github.com/spf13/cobra"
)

// explainOptions are the options of gorun explain.
type explainOptions struct {
	logs  []string // names of files; "-" is standard input
	json  bool
	since string // a time, as the user writes it
	teach string // a log from which a new row is to be made
}

func newExplainCommand() *cobra.Command {
	var o explainOptions
	cmd := &cobra.Command{
		Use:   "explain [flags] [LOG|DIR...|-]",
		Short: "Say why a job failed, from what it printed",
		Long: `Say which line of a failed job's output (of gorun, torchrun, srun, kubectl,
docker compose, Ray; NCCL's files; dumps of PyTorch's flight recorder; gzip is
unpacked) is the root cause, which rank and host to blame, what to do, and why
the other errors are only consequences. Of a folder all files are read. Without
LOG, or with -, standard input is read.

The exit code is 0 when the logs could be read, whatever is in them, else 2.`,
		Example: `  gorun explain job.log
  kubectl logs --prefix -l job=train --tail=-1 | gorun explain
  gorun explain --json logs/attempt_0/*/stderr.log
  gorun explain --since 2h logs`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.logs = args; len(args) == 0 {
				o.logs = []string{"-"}
			}
			return runExplain(cmd.Context(), &o, streamsOf(cmd))
		},
	}
	cmd.Flags().BoolVar(&o.json, "json", false, "print a list, with the lines that speak for each cause")
	cmd.Flags().StringVar(&o.since, "since", "", "leave out older lines and files: 2h, 16:30, 2026-11-21")
	cmd.Flags().StringVar(&o.teach, "teach", "", "print rows to complete for unknown errors of this log")
	return cmd
}

// runExplain reads the logs and prints the findings.
func runExplain(ctx context.Context, o *explainOptions, std streams) error {
	if o.teach != "" {
		return teach(ctx, o.teach, std)
	}
	e := explainer{scanner: diagnose.NewScanner(), std: std}
	names, err := filesOf(o.logs)
	if err != nil {
		return usagef("%w", err)
	}
	if len(names) == 0 {
		return usagef("there is no file in %s", strings.Join(o.logs, " "))
	}
	if o.since != "" {
		at, err := diagnose.ParseSince(o.since, time.Now())
		if err != nil {
			return usagef("--since: %w", err)
		}
		e.scanner.Since(at)
		names = slices.DeleteFunc(names, func(name string) bool {
			info, err := os.Stat(name)
			return name != "-" && err == nil && info.Mode().IsRegular() && info.ModTime().Before(at)
		})
		if len(names) == 0 {
			fmt.Fprintf(std.err, "gorun: all files are older than %s\n", at.Format(time.DateTime))
		}
	}
	names = slices.Compact(names)
	for _, name := range names {
		if err := e.read(ctx, name); err != nil {
			return unreadable(name, err)
		}
	}
	if e.broken > 0 && e.broken == len(names) {
		return usagef("no file is readable: name the logs of the job too")
	}
	for _, name := range e.scanner.NotText() {
		fmt.Fprintf(std.err, "gorun: %s is not text: give gorun explain the output of a job\n", name)
	}
	findings := append(hangFindings(flight.Compare(e.dumps)), e.scanner.Findings()...)
	if len(e.dumps) > 0 && len(findings) == 0 {
		fmt.Fprintf(std.err, "gorun: in %d dumps of the flight recorder no call waits\n", len(e.dumps))
	}
	if !o.json {
		return diagnose.WriteText(std.out, findings)
	}
	enc := json.NewEncoder(std.out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(append([]diagnose.Finding{}, findings...)) // [], not null
}

// unreadable returns the error for a log that cannot be read. It names the file once.
func unreadable(name string, err error) error {
	if path, ok := errors.AsType[*os.PathError](err); ok {
		err = path.Err
	}
	return usagef("cannot read %s: %w", name, err)
}

// teach prints the rows to complete for the unknown lines of a log.
func teach(ctx context.Context, name string, std streams) error {
	in := std.in
	if info, err := os.Stat(name); err == nil && info.IsDir() {
		return usagef("--teach reads one log, and %s is a folder: name the log with the error", name)
	}
	if name != "-" {
		f, err := openLog(name)
		if err != nil {
			return unreadable(name, err)
		}
		defer f.Close()
		in = f
	}
	lessons, err := diagnose.Teach(ctx, in)
	if err != nil {
		return unreadable(name, err)
	}
	return diagnose.WriteLessons(std.out, lessons)
}

// maxFiles bounds the files of a folder.
const maxFiles = 10_000

// filesOf puts the regular files of a folder in its place.
func filesOf(names []string) ([]string, error) {
	var all []string
	for _, name := range names {
		if info, err := os.Stat(name); name == "-" || err != nil || !info.IsDir() {
			all = append(all, name)
			continue
		}
		err := filepath.WalkDir(name, func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if d.Type().IsRegular() {
				all = append(all, path)
			}
			if len(all) > maxFiles {
				return fmt.Errorf("%s has more than %d files: name those of the failed job", name, maxFiles)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

// openLog opens a log. It refuses a device that has no end.
func openLog(name string) (*os.File, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	null, nullErr := os.Stat(os.DevNull)
	if err == nil && info.Mode()&os.ModeCharDevice != 0 && !isTerminal(f) && (nullErr != nil || !os.SameFile(info, null)) {
		f.Close()
		return nil, errors.New("it is a device: name a file, a pipe, or - for standard input")
	}
	return f, nil
}

// explainer reads logs and dumps.
type explainer struct {
	scanner *diagnose.Scanner
	dumps   []flight.Dump
	broken  int // dumps that are not readable
	std     streams
}

func (e *explainer) read(ctx context.Context, name string) error {
	if name == "-" {
		if isTerminal(e.std.in) {
			fmt.Fprintln(e.std.err, "gorun: reading standard input up to Ctrl-D; to read a file: gorun explain job.log")
		}
		in := bufio.NewReader(e.std.in)
		e.warnEmpty("standard input", in)
		return e.scanner.Read(ctx, diagnose.Log{Name: name, Rank: -1, Local: -1}, in)
	}
	f, err := openLog(name)
	if err != nil {
		return err
	}
	defer f.Close()
	in := bufio.NewReader(f)
	if front, _ := in.Peek(3); !flight.IsDump(front) {
		e.warnEmpty(name, in)
		err := e.scanner.Read(ctx, diagnose.LogOf(name), in)
		if errors.Is(err, io.ErrUnexpectedEOF) {
			fmt.Fprintf(e.std.err, "gorun: %s ends in the middle; what there is of it was read\n", name)
			return nil
		}
		return err
	}
	d, err := flight.Read(name, in)
	if err != nil {
		fmt.Fprintf(e.std.err, "gorun: %s looks like a dump of PyTorch's flight recorder and is not readable: %v\n", name, err)
		e.broken++
		return nil
	}
	e.dumps = append(e.dumps, d)
	return nil
}

// warnEmpty says that a log has nothing, so that nobody takes it for one without
// failures.
func (e *explainer) warnEmpty(name string, in *bufio.Reader) {
	if _, err := in.Peek(1); err == io.EOF {
		fmt.Fprintf(e.std.err, "gorun: %s is empty\n", name)
	}
}

// hangFindings returns what dumps of a flight recorder show as findings.
func hangFindings(verdicts []flight.Verdict) []diagnose.Finding {
	var all []diagnose.Finding
	for _, v := range verdicts {
		f := diagnose.Finding{
			ID: "X-HANG", Row: "flight recorder", Severity: diagnose.SeverityCause, Rank: -1, Local: -1, File: "flight recorder",
			Text: "dumps of PyTorch's flight recorder", Meaning: v.String(), Count: 1,
			Fix: "find what keeps that rank from the call: a branch, an input or an exception that only it has",
		}
		for _, s := range v.Suspects {
			f.Ranks = append(f.Ranks, s.Rank)
		}
		if len(f.Ranks) > 0 {
			f.Rank = f.Ranks[0]
		}
		switch {
		case v.Follows:
			f.Severity = diagnose.SeverityConsequence
		case v.Kind == flight.Stuck:
			f.Fix = "look at the GPUs and the network of these ranks: all of them made the call (gorun check; dmesg for Xid lines)"
		case v.Kind == flight.Silent:
			f.Fix = "read that rank's own output: it has ended, or its process does not run"
		}
		all = append(all, f)
	}
	return all
}
