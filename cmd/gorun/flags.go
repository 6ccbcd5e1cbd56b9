package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/gorun/gorun/launch/spec"
)

// runFlag describes one flag of `gorun run`. Its value is only understood in
// package spec; here is what the command line looks like.
type runFlag struct {
	name, short string
	arg         string // what the value is called in the help; "" for a switch
	usage       string
	own         bool // torchrun does not have it
}

// flagGroup is a paragraph of the help.
type flagGroup struct {
	title string
	flags []runFlag
}

// runFlags lists every flag of `gorun run`, in the order of the help.
func runFlags() []flagGroup {
	return []flagGroup{
		{"Nodes and workers", []runFlag{
			{name: "nnodes", arg: "N|MIN:MAX", usage: "number of nodes, or its bounds for an elastic job (default 1)"},
			{name: "nproc-per-node", arg: "N|auto|gpu|cpu", usage: "workers on this node; auto: one per GPU, else per CPU (default 1)"},
			{name: "node-rank", arg: "RANK", usage: "rank of this node (default: 0 with static, else decided when the nodes meet)"},
			{name: "local-nodes", arg: "N", usage: "start N nodes on this machine, to try a job of several nodes", own: true},
			{name: "max-restarts", arg: "N", usage: "how often the workers are started again after a failure (default 0)"},
			{name: "role", arg: "NAME", usage: "name of the workers' role, in ROLE_NAME and in prefixes of output (default \"default\")"},
		}},
		{"Rendezvous", []runFlag{
			{name: "rdzv-endpoint", arg: "HOST[:PORT],...", usage: "where the nodes meet; several keep working when one is lost (default port 29400)"},
			{name: "rdzv-backend", arg: "NAME", usage: "gossip (or c10d), static or standalone (default: what the other flags imply)"},
			{name: "rdzv-id", arg: "ID", usage: "name of the job; nodes of one name meet (default \"none\")"},
			{name: "rdzv-conf", arg: "KEY=VALUE,...", usage: "join_timeout, last_call_timeout, keep_alive_interval (seconds), keep_alive_max_attempt, is_host; static: timeout, rank"},
			{name: "standalone", usage: "run on this node alone, whatever the other rendezvous flags say"},
			{name: "local-addr", arg: "ADDR", usage: "address of this node that the others reach (default: found out)"},
			{name: "master-addr", arg: "ADDR", usage: "static: address of the node with rank 0 (default 127.0.0.1)"},
			{name: "master-port", arg: "PORT", usage: "static: port on that node (default 29500)"},
			{name: "port-range", arg: "A-B", usage: "open ports in this range only", own: true},
		}},
		{"Program", []runFlag{
			{name: "module", short: "m", usage: "run the program as a Python module, like python -m"},
			{name: "no-python", usage: "run the program directly, even if it looks like a Python script"},
		}},
		{"Output and end", []runFlag{
			{name: "log-dir", arg: "DIR", usage: "folder for log files (default: a new one under the temporary folder)"},
			{name: "redirects", short: "r", arg: "WHAT", usage: "streams to files: 0 none, 1 stdout, 2 stderr, 3 both; per local rank: 0:3,1:0 (default 0)"},
			{name: "tee", short: "t", arg: "WHAT", usage: "as --redirects, and to the terminal too (default 0)"},
			{name: "report", arg: "FILE", usage: "write how the job ended to FILE, as JSON", own: true},
			{name: "shutdown-timeout", arg: "SECONDS", usage: "time between SIGTERM and SIGKILL (default 30)"},
		}},
	}
}

// parseRun reads the arguments of `gorun run`: flags up to the program, and
// what follows untouched. It returns pflag.ErrHelp for -h and --help. Every
// other error means exit code 2.
func parseRun(args []string) (spec.Raw, error) {
	args, err := expandFlags(args)
	if err != nil {
		return spec.Raw{}, err
	}
	set := runFlagSet()
	if err := set.Parse(args); err != nil {
		return spec.Raw{}, err
	}
	raw := spec.Raw{Flags: map[string]string{}, Command: set.Args()}
	set.Visit(func(f *pflag.Flag) {
		text := f.Value.String()
		if f.Value.Type() == "bool" {
			text = map[string]string{"true": "1", "false": "0"}[text]
		}
		raw.Flags[strings.ReplaceAll(f.Name, "-", "_")] = text
	})
	return raw, nil
}

// runFlagSet builds the flags for parsing (and for shell completion).
func runFlagSet() *pflag.FlagSet {
	set := pflag.NewFlagSet("run", pflag.ContinueOnError)
	set.SetInterspersed(false)
	set.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		return pflag.NormalizedName(strings.ReplaceAll(name, "_", "-"))
	})
	set.Usage = func() {}
	for _, group := range runFlags() {
		for _, f := range group.flags {
			if f.arg == "" {
				set.BoolP(f.name, f.short, false, f.usage)
			} else {
				set.StringP(f.name, f.short, "", f.usage)
			}
		}
	}
	return set
}

// runUsage is the flags' part of the help.
func runUsage() string {
	var b strings.Builder
	b.WriteString(`Start the workers of a training job on one node or many.

Usage:
  gorun [flags] PROGRAM [ARGS...]     run a job ("gorun run ..." is the same)
  gorun completion SHELL              print a completion script
  gorun --version | --help

PROGRAM is a Python script, a Go package or any executable. Exit codes and files
are in docs/usage.md.

`)
	for _, group := range runFlags() {
		fmt.Fprintf(&b, "%s:\n", group.title)
		for _, f := range group.flags {
			short := "    "
			if f.short != "" {
				short = "-" + f.short + ", "
			}
			fmt.Fprintf(&b, "  %s%-34s %s\n", short, strings.TrimSpace("--"+f.name+" "+f.arg), f.usage)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// expandFlags rewrites the flags before the program as argparse, torchrun's
// parser, understands them: unambiguous beginnings of names are completed,
// clusters of short flags taken apart, and a value that looks like a flag is a
// missing value. It never looks at the program and what follows.
func expandFlags(args []string) ([]string, error) {
	var out []string
	for len(args) > 0 {
		arg := args[0]
		if len(arg) < 2 || arg[0] != '-' || arg == "--" {
			break
		}
		args = args[1:]
		name, text, hasText := strings.Cut(strings.TrimPrefix(arg, "--"), "=")
		var f runFlag
		var err error
		if strings.HasPrefix(arg, "--") {
			f, err = longFlag(name)
		} else {
			letter := string([]rune(arg[1:])[:1])
			f, err = shortFlag(letter)
			text, hasText = strings.CutPrefix(strings.TrimPrefix(arg[1:], letter), "=")
			hasText = hasText || text != ""
			// The rest of a cluster such as -mr3.
			if f.arg == "" && text != "" {
				args = slices.Insert(slices.Clone(args), 0, "-"+text)
				hasText = false
			}
		}
		switch {
		case err != nil:
			return nil, err
		case f.arg == "" && !hasText:
			out = append(out, "--"+f.name)
			continue
		case !hasText && (len(args) == 0 || looksLikeFlag(args[0])):
			return nil, fmt.Errorf("--%s needs a value: --%s %s", f.name, f.name, f.arg)
		case !hasText:
			text, args = args[0], args[1:]
		}
		out = append(out, "--"+f.name+"="+text)
	}
	return append(out, args...), nil
}

// longFlag finds a flag by its name or the beginning of it. What torchrun
// accepts means the same here, so its flags come before gorun's own ones.
func longFlag(name string) (runFlag, error) {
	name = strings.ReplaceAll(name, "_", "-")
	var theirs, own []runFlag
	for _, f := range allFlags() {
		switch {
		case f.name == name:
			return f, nil
		case !strings.HasPrefix(f.name, name):
		case f.own:
			own = append(own, f)
		default:
			theirs = append(theirs, f)
		}
	}
	found := theirs
	if len(found) == 0 {
		found = own
	}
	switch len(found) {
	case 0:
		return runFlag{}, fmt.Errorf("unknown flag --%s", name)
	case 1:
		return found[0], nil
	}
	names := make([]string, len(found))
	for i, f := range found {
		names[i] = "--" + f.name
	}
	return runFlag{}, fmt.Errorf("--%s could be any of %s: write more of it", name, strings.Join(names, ", "))
}

func shortFlag(letter string) (runFlag, error) {
	for _, f := range allFlags() {
		if f.short == letter {
			return f, nil
		}
	}
	return runFlag{}, fmt.Errorf("unknown flag -%s", letter)
}

// allFlags are the flags of runFlags, and --help, which pflag adds by itself.
func allFlags() []runFlag {
	all := []runFlag{{name: "help", short: "h"}}
	for _, group := range runFlags() {
		all = append(all, group.flags...)
	}
	return all
}

// looksLikeFlag says whether an argument cannot be a value of the flag before
// it: it starts with a dash, is no negative number and has no space.
func looksLikeFlag(s string) bool {
	if len(s) < 2 || s[0] != '-' || strings.Contains(s, " ") {
		return false
	}
	_, err := strconv.ParseFloat(s, 64)
	return err != nil
}
