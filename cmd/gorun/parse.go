package main

import (
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/gorun/gorun/launch/spec"
)

// grammar is the flags of one command.
type grammar []flagGroup

// parseJob reads the arguments of `gorun run` or, after the word check or env, of
// `gorun check` or `gorun env`: flags up to the program, and what follows untouched. It returns
// pflag.ErrHelp for -h and --help. Every other error means exit code 2.
func parseJob(args []string) (spec.Raw, error) {
	check := isCheck(args)
	g := grammar(runFlags())
	show := isEnv(args)
	switch {
	case check:
		args, g = args[1:], checkFlags()
	case show:
		args, g = args[1:], envFlags()
	}
	args, err := g.expand(args)
	if err != nil {
		return spec.Raw{}, err
	}
	set := g.set()
	if err := set.Parse(args); err != nil {
		return spec.Raw{}, flagError(set, err)
	}
	raw := spec.Raw{Flags: map[string]string{}, Lists: map[string][]string{}, Command: set.Args(), Check: check, Show: show}
	set.Visit(func(f *pflag.Flag) {
		name := strings.ReplaceAll(f.Name, "-", "_")
		switch v, ok := f.Value.(*flagValue); {
		case !ok:
			raw.Flags[name] = map[string]string{"true": "1", "false": "0"}[f.Value.String()]
		case v.many:
			raw.Lists[name] = v.given
		default:
			raw.Flags[name] = v.String()
		}
	})
	return raw, nil
}

// commandWith gives gorun's command line for these arguments of parseJob with
// another value of a flag.
func commandWith(args []string) func(flag, value string) []string {
	return func(flag, value string) []string {
		g, command := grammar(runFlags()), []string{"gorun"}
		switch {
		case isCheck(args):
			g, command, args = checkFlags(), append(command, args[0]), args[1:]
		case isEnv(args):
			g, command, args = envFlags(), append(command, args[0]), args[1:]
		}
		rest, err := g.expand(args)
		if err != nil {
			return nil
		}
		command = append(command, "--"+flag+"="+value)
		for len(rest) > 0 && strings.HasPrefix(rest[0], "--") && rest[0] != "--" {
			if !strings.HasPrefix(rest[0], "--"+flag+"=") {
				command = append(command, rest[0])
			}
			rest = rest[1:]
		}
		return append(command, rest...)
	}
}

// flagValue is what was given to a flag that is no switch. Its type is what the
// help calls the value.
type flagValue struct {
	arg   string
	many  bool // else the last value counts
	given []string
}

func (v *flagValue) Type() string { return v.arg }

func (v *flagValue) Set(text string) error {
	if !v.many {
		v.given = nil
	}
	v.given = append(v.given, text)
	return nil
}

func (v *flagValue) String() string {
	if len(v.given) == 0 {
		return ""
	}
	return v.given[len(v.given)-1]
}

// set builds the flags for parsing and for the help.
func (g grammar) set() *pflag.FlagSet {
	set := pflag.NewFlagSet("run", pflag.ContinueOnError)
	set.SetInterspersed(false)
	set.SortFlags = false
	set.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		return pflag.NormalizedName(strings.ReplaceAll(name, "_", "-"))
	})
	set.Usage = func() {}
	for _, group := range g {
		for _, f := range group.flags {
			if f.arg == "" {
				set.BoolP(f.name, f.short, false, f.usage)
				continue
			}
			set.VarP(&flagValue{arg: f.arg, many: f.many}, f.name, f.short, f.usage)
		}
	}
	return set
}

// expand rewrites the flags before the program as argparse, torchrun's
// parser, understands them: unambiguous beginnings of names are completed,
// clusters of short flags taken apart, and a value that looks like a flag is a
// missing value. It never looks at the program and what follows.
func (g grammar) expand(args []string) ([]string, error) {
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
			f, err = g.long(name)
		} else {
			letter := string([]rune(arg[1:])[:1])
			f, err = g.short(letter, arg)
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

// long finds a flag by its name or the beginning of it. What torchrun
// accepts means the same here, so its flags come before gorun's own ones.
func (g grammar) long(name string) (runFlag, error) {
	name = strings.ReplaceAll(name, "_", "-")
	var theirs, own []runFlag
	for f := range g.all() {
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
	switch {
	case len(found) == 0 || name == "":
		return runFlag{}, unknownFlag("--"+name, "gorun help flags", g.names())
	case len(found) == 1:
		return found[0], nil
	}
	names := make([]string, len(found))
	for i, f := range found {
		names[i] = "--" + f.name
	}
	return runFlag{}, fmt.Errorf("--%s could be any of %s: write more of it", name, strings.Join(names, ", "))
}

// short finds a flag by its letter, which arg begins with: a cluster of letters,
// or a name that has one dash where it should have two.
func (g grammar) short(letter, arg string) (runFlag, error) {
	for f := range g.all() {
		if f.short == letter {
			return f, nil
		}
	}
	name, _, _ := strings.Cut(arg[1:], "=")
	if f, err := g.long(name); err == nil && len(name) > 2 {
		return runFlag{}, fmt.Errorf("unknown flag -%s: did you mean --%s?", name, f.name)
	}
	return runFlag{}, unknownFlag("-"+letter, "gorun help flags", g.names())
}

// names are those of all flags.
func (g grammar) names() iter.Seq[string] {
	return func(yield func(string) bool) {
		for f := range g.all() {
			if !yield(f.name) {
				return
			}
		}
	}
}

// called is a flag as people write it, by torchrun's name of its variable.
func (g grammar) called(name string) string {
	name = "--" + strings.ReplaceAll(name, "_", "-")
	for f := range g.all() {
		if "--"+f.name == name && f.short != "" {
			return "-" + f.short + " (" + name + ")"
		}
	}
	return name
}

// all are the flags, and --help, which pflag adds by itself.
func (g grammar) all() iter.Seq[runFlag] {
	return func(yield func(runFlag) bool) {
		if !yield(runFlag{name: "help", short: "h"}) {
			return
		}
		for _, group := range g {
			for _, f := range group.flags {
				if !yield(f) {
					return
				}
			}
		}
	}
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
