package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"golang.org/x/sys/unix"

	"github.com/gorun/gorun/internal/smallfile"
	"github.com/gorun/gorun/launch/selftest"
	"github.com/gorun/gorun/rendezvous"
	"github.com/gorun/gorun/worker"
)

// selftestFlags returns the flags that only gorun selftest has.
func selftestFlags() flagGroup {
	return flagGroup{"Self-test", []jobFlag{
		{name: "quick", usage: "only start, node and all ranks: seconds"},
		{name: "links", usage: "test each node with each other node"},
		{name: "device", arg: "auto|cpu|gpu", usage: "what computes; auto: GPUs if each has one"},
		{name: "json", usage: "print the report as JSON on stdout"},
		{name: "good", arg: "FILE", usage: "write the hosts that work to FILE, one a line"},
		{name: "bad", arg: "FILE", usage: "write the hosts to blame, or suspected, to FILE"},
	}}
}

// newSelftestCommand makes the command that tests the nodes of a job without its program.
func newSelftestCommand() *cobra.Command {
	var o jobOptions
	cmd := &cobra.Command{
		Use:   "selftest [flags]",
		Short: "Test the nodes of a job: compute together, check values, measure",
		Long: `Test the nodes of a job without its program: fresh processes compute together,
alone, in pairs, by node and all at once. Every value is checked. The first rung
that fails ends the test and names the rank, node or pair (code 1). It takes
every flag of gorun run (gorun help flags); without --nproc-per-node it starts a
worker for each GPU, or else for each CPU.`,
		Example: `  gorun selftest                                    this node
  srun gorun selftest --bad bad.txt                 all nodes of the allocation
  gorun selftest --nnodes 2 --rdzv-endpoint node1   the same on both nodes`,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.complete(cmd, args)
			o.raw.SelfTest = true
			if o.agent == "" { // an agent has the command of its keeper
				if err := noArguments(cmd, args); err != nil {
					return err
				}
				command, err := selftestWorker(&o)
				if err != nil {
					return err
				}
				o.raw.Command = command
				if err := checkLists(&o); err != nil {
					return err
				}
			}
			return runJob(cmd.Context(), &o)
		},
	}
	o.addFlags(cmd, append([]flagGroup{selftestFlags()}, jobFlags()...)...)
	return cmd
}

// selftestWorker returns the command line of the workers that test.
func selftestWorker(o *jobOptions) ([]string, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	line := []string{self, selftest.RankCommand}
	if o.raw.Flags["quick"] == "1" && o.raw.Flags["links"] == "1" {
		return nil, usagef("cannot use --quick together with --links")
	}
	for _, name := range []string{"quick", "links", "json"} {
		if o.raw.Flags[name] == "1" {
			line = append(line, "--"+name)
		}
	}
	if on, given := o.raw.Flags["device"]; given {
		if err := checkDevice(selftest.Compute(on)); err != nil {
			return nil, err
		}
		line = append(line, "--device="+on)
	}
	for _, name := range []string{"good", "bad"} {
		if file, given := o.raw.Flags[name]; given {
			if file == "" {
				return nil, usagef("cannot use --%s without a file", name)
			}
			if file, err = filepath.Abs(file); err != nil {
				return nil, err
			}
			line = append(line, "--"+name+"="+file)
		}
	}
	return line, nil
}

// checkDevice returns an error if this program cannot compute there.
func checkDevice(on selftest.Compute) error {
	switch on {
	case selftest.ComputeAuto, selftest.ComputeCPU:
		return nil
	case selftest.ComputeGPU:
		if !selftest.HasGPU {
			return usagef("cannot use --device gpu: this gorun is built without C and has only CPU rungs; make build makes one that has both")
		}
		return nil
	}
	return usagef("cannot use --device %q: it must be auto, cpu or gpu", on)
}

// checkLists returns an error if a list of hosts cannot be written in the end. Rank 0
// writes them: a node that is known to have others does not check.
func checkLists(o *jobOptions) error {
	bad := listError(o.raw.Flags)
	if bad == nil {
		return nil
	}
	sp, err := o.resolve()
	switch {
	case err != nil: // runJob says what is wrong with the rest
		return nil
	case sp.NodeRank > 0:
		return nil
	case sp.Surroundings.Task.Local > 0: // the first task of this node prints the same
		return exitStatus(rendezvous.ExitUsage)
	}
	return bad
}

// listError returns why the first list that cannot be written cannot.
func listError(flags map[string]string) error {
	for _, name := range []string{"good", "bad"} {
		if err := smallfile.Writable(flags[name]); err != nil {
			return usagef("cannot use --%s %s: %w", name, flags[name], err)
		}
	}
	return nil
}

// selftestOptions are the options of a worker that tests.
type selftestOptions struct {
	quick, links, json bool
	good, bad          string
	device             string
	probe              bool     // this is a process of a rung
	onGPU              bool     // which begins with the GPU
	program            []string // path and arguments of what follows the test, if anything does
}

// newSelftestRankCommand makes the hidden command that the workers of a self-test run.
func newSelftestRankCommand() *cobra.Command {
	var o selftestOptions
	cmd := &cobra.Command{
		Use:    selftest.RankCommand + " [PATH ARGV...]",
		Short:  "Test as one rank of a job",
		Hidden: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.program = args
			return runSelftestRank(cmd.Context(), &o, streamsOf(cmd))
		},
	}
	f := cmd.Flags()
	f.SetInterspersed(false) // arguments after the program belong to the program
	f.BoolVar(&o.quick, "quick", false, "")
	f.BoolVar(&o.links, "links", false, "")
	f.BoolVar(&o.json, "json", false, "")
	f.BoolVar(&o.probe, selftest.ProbeFlag, false, "")
	f.BoolVar(&o.onGPU, selftest.GPUFlag, false, "")
	f.StringVar(&o.device, "device", string(selftest.ComputeAuto), "")
	f.StringVar(&o.good, "good", "", "")
	f.StringVar(&o.bad, "bad", "", "")
	return cmd
}

// runSelftestRank tests as one rank, and executes the program that follows.
func runSelftestRank(ctx context.Context, o *selftestOptions, s streams) error {
	if o.probe {
		return selftest.Probe(ctx, o.onGPU, s.in, s.out)
	}
	code := worker.Main(func(ctx context.Context, w *worker.World) error { return o.run(ctx, w, s) })
	if code != 0 {
		return exitStatus(code)
	}
	if len(o.program) < 2 {
		return nil
	}
	err := unix.Exec(o.program[0], o.program[1:], os.Environ())
	return fmt.Errorf("cannot start %s: %w", o.program[0], err)
}

// run tests as one rank. Rank 0 prints the report; before a program it does so only if the
// test fails.
func (o *selftestOptions) run(ctx context.Context, w *worker.World, s streams) error {
	store, err := w.Store(ctx)
	if err != nil {
		return err
	}
	host, err := os.Hostname()
	if err != nil {
		return err
	}
	t := selftest.TesterOf(w, store, cmp.Or(os.Getenv("SLURMD_NODENAME"), host))
	t.Env = os.Environ()
	t.Compute = selftest.Compute(o.device)
	t.Probe = func(ctx context.Context, onGPU bool) *exec.Cmd {
		return exec.CommandContext(ctx, selfPath, selftest.RankCommand, "--"+selftest.ProbeFlag, fmt.Sprintf("--%s=%t", selftest.GPUFlag, onGPU))
	}
	if len(o.program) == 0 {
		t.Say = func(format string, args ...any) { fmt.Fprintf(s.err, "selftest: "+format+"\n", args...) }
	}
	if w.Rank() == 0 { // a test that does not end must not leave the lists of an earlier one
		if err := o.emptyLists(); err != nil {
			return err
		}
	}
	report, err := t.Run(ctx, o.scope())
	switch {
	case err != nil:
		return err
	case w.Rank() > 0 && report.Failure != nil:
		return selftest.AwaitStop(ctx, report.Failure)
	case w.Rank() > 0:
		return nil
	}
	if report.Failure != nil || len(o.program) == 0 {
		err = o.print(s.out, report)
	}
	if report.Failure != nil {
		return errors.Join(report.Failure, err)
	}
	return err
}

func (o *selftestOptions) scope() selftest.Scope {
	switch {
	case o.quick:
		return selftest.ScopeQuick
	case o.links:
		return selftest.ScopeLinks
	}
	return selftest.ScopeFull
}

// print writes the report, then the lists of hosts.
func (o *selftestOptions) print(out io.Writer, r *selftest.Report) error {
	write := r.WriteTable
	if o.json {
		write = r.WriteJSON
	}
	if err := write(out); err != nil {
		return err
	}
	return o.writeLists(r)
}

// emptyLists empties the lists that are there. A pipe gets its list in the end only.
func (o *selftestOptions) emptyLists() error {
	for _, file := range []string{o.good, o.bad} {
		if info, err := os.Stat(file); err != nil || !info.Mode().IsRegular() {
			continue
		}
		if err := os.Truncate(file, 0); err != nil {
			return err
		}
	}
	return nil
}

// writeLists writes the hosts that the user asked for to files.
func (o *selftestOptions) writeLists(r *selftest.Report) error {
	for _, list := range []struct {
		file  string
		hosts []string
	}{
		{o.good, r.Hosts(selftest.StateGood, selftest.StateSlow)},
		{o.bad, r.Hosts(selftest.StateBad, selftest.StateSuspect)},
	} {
		if list.file == "" {
			continue
		}
		if err := smallfile.Save(list.file, []byte(strings.Join(append(list.hosts, ""), "\n"))); err != nil {
			return fmt.Errorf("cannot write %s: %w", list.file, err)
		}
	}
	return nil
}
