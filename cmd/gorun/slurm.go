package main

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gorun/gorun/internal/term"
	"github.com/gorun/gorun/launch"
	"github.com/gorun/gorun/launch/spec/surroundings"
)

// slurmFlags returns the flags that only gorun slurm has. Those of sbatch have its
// names; gorun slurm also takes the flags of a job.
func slurmFlags() flagGroup {
	return flagGroup{"Slurm job", []jobFlag{
		{name: "nodes", short: "N", arg: "N", usage: "number of nodes (default 1)"},
		{name: "gpus-per-node", arg: "[TYPE:]N", usage: "GPUs of each node"},
		{name: "cpus-per-task", short: "c", arg: "N", usage: "CPUs of each node (default with GPUs: all)"},
		{name: "time", arg: "TIME", usage: "time limit, such as 2-00:00:00"},
		{name: "partition", short: "p", arg: "NAME", usage: "partition"},
		{name: "account", short: "A", arg: "NAME", usage: "account"},
		{name: "job-name", short: "J", arg: "NAME", usage: "name of the job (default: that of the program)"},
		{name: "requeue", usage: "queue the job again when another try may help, at most 3 times"},
		{name: "sbatch", arg: "OPTION", usage: "any other option of sbatch, such as --sbatch=--reservation=NAME", many: true},
	}}
}

// Values of a script with --requeue.
const (
	requeueCode  = 75 // EX_TEMPFAIL of sysexits.h
	requeueLimit = 3
	// requeueSignal gives workers SIGTERM before the time limit, so that gorun still
	// ends with requeueCode.
	requeueSignal = "TERM@90"
)

func newSlurmCommand() *cobra.Command {
	var o jobOptions
	cmd := &cobra.Command{
		Use:   "slurm [flags] PROGRAM [ARGS...]",
		Short: "Print a batch script for Slurm's sbatch",
		Long: `Print a batch script of a job for sbatch. It takes the flags of gorun run, too
(gorun help flags). Nodes, ranks, workers and meeting place come from Slurm. In
an allocation no script is needed: srun gorun PROGRAM.`,
		Example: `  gorun slurm --nodes 4 --gpus-per-node 8 --time 1-00:00:00 train.py | sbatch
  gorun slurm --nodes 2 --requeue -- train.py --lr 0.1 >job.sh`,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.complete(cmd, args)
			return printSlurmScript(&o, cmd.OutOrStdout())
		},
	}
	o.addFlags(cmd, append([]flagGroup{slurmFlags()}, jobFlags()...)...)
	return cmd
}

// printSlurmScript checks the options as they will be on the first node, and prints the
// script.
func printSlurmScript(o *jobOptions, out io.Writer) error {
	own := map[string]string{}
	var names []string
	for _, f := range slurmFlags().flags {
		name := strings.ReplaceAll(f.name, "-", "_")
		own[f.name] = o.raw.Flags[name]
		delete(o.raw.Flags, name)
		names = append(names, f.name)
	}
	extra := o.raw.Lists["sbatch"]
	delete(o.raw.Lists, "sbatch")
	for name, text := range own {
		if f, given := o.cmd.Flag(name), text != ""; strings.ContainsFunc(text, unquotable) || f.Changed && !given && name != "sbatch" {
			return usagef("cannot use --%s %q: a batch script needs a word without blanks, quotes and backslashes", name, text)
		}
	}
	for _, text := range extra {
		if !strings.HasPrefix(text, "-") || strings.ContainsFunc(text, unquotable) {
			return usagef("cannot use --sbatch %q: it must be an option of sbatch in one word, such as --reservation=NAME", text)
		}
	}
	nodes, err := strconv.Atoi(cmp.Or(own["nodes"], "1"))
	if err != nil || nodes < 1 {
		return usagef("cannot use --nodes %q: it must be a number of nodes", own["nodes"])
	}
	raw := o.raw
	raw.Surroundings = func(surroundings.Lookup) (surroundings.Surroundings, error) { return firstOf(nodes), nil }
	sp, err := raw.Resolve(func(string) (string, bool) { return "", false }) // this shell's variables say nothing about the job
	if err != nil {
		return &launch.UsageError{Err: err}
	}
	s := slurmScript{options: own, extra: extra, program: sp.Program, elastic: sp.MinNodes != sp.MaxNodes}
	line := o.commandLine(names...)
	if s.code = sp.RequeueExitCode; own["requeue"] == "1" && s.code == 0 {
		s.code = requeueCode
		line = append([]string{fmt.Sprintf("--requeue-exit-code=%d", s.code)}, line...)
	}
	s.command = append([]string{ownName()}, line...)
	_, err = io.WriteString(out, s.text())
	return err
}

// unquotable reports whether a character has a meaning in a #SBATCH line.
func unquotable(r rune) bool {
	return r <= ' ' || r > '~' || strings.ContainsRune("\"'\\#", r)
}

// firstOf returns the surroundings of the first of a job's nodes.
func firstOf(nodes int) surroundings.Surroundings {
	v := func(text string) surroundings.Value { return surroundings.Value{Text: text, From: "Slurm"} }
	return surroundings.Surroundings{
		Kind: surroundings.SlurmStep, Name: "the Slurm job", Nodes: nodes, Task: surroundings.Task{Count: 1},
		Values: map[string]surroundings.Value{
			"nnodes": v(strconv.Itoa(nodes)), "node_rank": v("0"), "rdzv_id": v("1.0"), "rdzv_endpoint": v("localhost"), "nproc_per_node": v("1"),
		},
	}
}

// ownName returns the name under which a job finds this program: gorun if PATH has it.
func ownName() string {
	self, err := os.Executable()
	if err != nil {
		return "gorun"
	}
	if path, err := exec.LookPath("gorun"); err == nil {
		a, err1 := os.Stat(path)
		b, err2 := os.Stat(self)
		if err1 == nil && err2 == nil && os.SameFile(a, b) {
			return "gorun"
		}
	}
	return self
}

// slurmScript is a batch script.
type slurmScript struct {
	options map[string]string // by the names of sbatch
	extra   []string          // options as they are
	program string
	command []string // gorun's command line
	code    int      // exit code after which the job is queued again
	elastic bool     // nodes may leave before the end
}

func (s *slurmScript) text() string {
	var b strings.Builder
	option := func(name, text string) {
		if text != "" {
			fmt.Fprintf(&b, "#SBATCH --%s=%s\n", name, text)
		}
	}
	b.WriteString("#!/bin/bash\n")
	option("job-name", cmp.Or(s.options["job-name"], s.name()))
	option("output", "%x-%j.out")
	option("nodes", cmp.Or(s.options["nodes"], "1"))
	b.WriteString("#SBATCH --ntasks-per-node=1\n") // one gorun a node; it starts all workers there
	for _, name := range []string{"gpus-per-node", "cpus-per-task", "time", "partition", "account"} {
		option(name, s.options[name])
	}
	if s.options["gpus-per-node"] != "" && s.options["cpus-per-task"] == "" {
		b.WriteString("#SBATCH --exclusive\n")
	}
	requeue := s.options["requeue"] == "1"
	if requeue {
		b.WriteString("#SBATCH --requeue\n#SBATCH --open-mode=append\n")
		if !slices.ContainsFunc(s.extra, func(o string) bool { return strings.HasPrefix(o, "--signal") }) {
			fmt.Fprintf(&b, "#SBATCH --signal=%s\n", requeueSignal)
		}
	}
	for _, o := range s.extra {
		fmt.Fprintf(&b, "#SBATCH %s\n", o)
	}
	b.WriteString("\n# Nodes, ranks, workers, run id and meeting place come from Slurm.\n")
	srun := []string{"srun", "--kill-on-bad-exit=1", "--wait=60", "--cpu-bind=none"}
	if s.elastic { // a node that leaves ends no other
		srun = []string{"srun", "--kill-on-bad-exit=0", "--cpu-bind=none"}
	}
	if n := s.options["cpus-per-task"]; n != "" { // srun does not take it from sbatch
		srun = append(srun, "--cpus-per-task="+n)
	}
	line := term.Command(append(srun, s.command...)...)
	if !requeue {
		return b.String() + line + "\n"
	}
	fmt.Fprintf(&b, `%s
code=$?
# gorun ends with %[2]d when another try may help: a lost node, a failed GPU, SIGTERM.
if [ "$code" = %[2]d ] && [ "${SLURM_RESTART_COUNT:-0}" -lt %[3]d ]; then
	scontrol requeue "$SLURM_JOB_ID"
fi
exit "$code"
`, line, s.code, requeueLimit)
	return b.String()
}

// name returns the program's name as that of a job.
func (s *slurmScript) name() string {
	name := strings.Map(func(r rune) rune {
		if unquotable(r) {
			return -1
		}
		return r
	}, filepath.Base(s.program))
	if name == "" || name == "." || name == "/" {
		return "gorun"
	}
	return strings.TrimSuffix(name, filepath.Ext(name))
}
