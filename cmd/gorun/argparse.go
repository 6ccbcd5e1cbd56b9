package main

import (
	"errors"
	"fmt"
	"iter"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/gorun/gorun/envprop/ncclenv"
	"github.com/gorun/gorun/launch/spec"
)

// parseLikeArgparse rewrites a command line for cobra. The command comes first (run if
// none is given). The flags of run, check and env follow, read by the rules of argparse,
// torchrun's parser. The arguments after PROGRAM stay unchanged.
func parseLikeArgparse(root *cobra.Command, args []string) ([]string, error) {
	if len(args) > 0 && strings.HasPrefix(args[0], cobra.ShellCompRequestCmd) {
		return completeJob(root, args), nil
	}
	if len(args) > 0 && slices.Contains([]string{"-h", "--help", "-v", "--version"}, args[0]) {
		return args, nil
	}
	cmd, explicit := commandOf(root, args)
	if explicit {
		args = args[1:]
	}
	if !isJob(cmd) {
		return append([]string{cmd.Name()}, args...), nil
	}
	flags, program, err := expandFlags(cmd, args)
	if err != nil {
		return nil, err
	}
	for _, f := range flags {
		if shell, ok := strings.CutPrefix(f, "--"+completionFlag+"="); ok {
			if !slices.Contains([]string{"bash", "zsh", "fish"}, shell) {
				return nil, fmt.Errorf("error: argument --%s: invalid choice: '%s' (choose from 'bash', 'zsh', 'fish')", completionFlag, shell)
			}
			return []string{"completion", shell}, nil
		}
	}
	if cmd.Name() != "run" || !explicit {
		if err := checkProgramName(cmd, flags, program); err != nil {
			return nil, err
		}
	}
	return slices.Concat([]string{cmd.Name()}, flags, program), nil
}

// completeJob rewrites a line for the shell's completion in the same way: it inserts run
// where no command is named, and completes the names of flags before the last word.
func completeJob(root *cobra.Command, args []string) []string {
	words := slices.Clone(args[1:])
	if len(words) == 0 || len(words) == 1 && !strings.HasPrefix(words[0], "-") { // it may become a command
		return args
	}
	cmd, explicit := commandOf(root, words)
	if !explicit {
		words = slices.Insert(words, 0, cmd.Name())
	}
	for i, word := range words[:len(words)-1] {
		name, isLong := strings.CutPrefix(word, "--")
		name, value, hasValue := strings.Cut(name, "=")
		if f, err := longFlag(cmd, name); isLong && isJob(cmd) && err == nil {
			if words[i] = "--" + f.Name; hasValue {
				words[i] += "=" + value
			}
		}
	}
	return append(args[:1:1], words...)
}

// commandOf returns the command that the first argument names, else run. Only the first
// argument can name a command, so that no value of a flag is taken for one.
func commandOf(root *cobra.Command, args []string) (cmd *cobra.Command, explicit bool) {
	for _, c := range root.Commands() {
		if len(args) > 0 && c.Name() == args[0] {
			return c, true
		}
		if c.Name() == "run" {
			cmd = c
		}
	}
	return cmd, false
}

// completionFlag is torchrun's flag for the command completion.
const completionFlag = "print-completion"

// isJob reports whether a command takes the flags of a job.
func isJob(cmd *cobra.Command) bool { return cmd.Flags().Lookup(agentFlag) != nil }

// expandFlags returns the flags before the program as --name=value, and the program.
// It completes unambiguous beginnings of names and splits clusters of short flags. A
// value that looks like a flag counts as a missing value.
func expandFlags(cmd *cobra.Command, args []string) (flags, program []string, err error) {
	cmd.InitDefaultHelpFlag()
	for len(args) > 0 {
		arg := args[0]
		if len(arg) < 2 || arg[0] != '-' || arg == "--" {
			break
		}
		args = args[1:]
		name, text, hasText := strings.Cut(strings.TrimPrefix(arg, "--"), "=")
		var f *pflag.Flag
		if strings.HasPrefix(arg, "--") {
			f, err = longFlag(cmd, name)
		} else {
			letter := string([]rune(arg[1:])[:1])
			f, err = shortFlag(cmd, letter, arg)
			text, hasText = strings.CutPrefix(strings.TrimPrefix(arg[1:], letter), "=")
			hasText = hasText || text != ""
			if err == nil && isSwitch(f) && text != "" { // the rest of a cluster such as -mr3
				args = slices.Insert(slices.Clone(args), 0, "-"+text)
				hasText = false
			}
		}
		switch {
		case err != nil:
			return nil, nil, err
		case isSwitch(f) && !hasText:
			flags = append(flags, "--"+f.Name)
			continue
		case !hasText && (len(args) == 0 || isFlagLike(args[0])):
			return nil, nil, missingValue(f, f.Value.Type())
		case !hasText:
			text, args = args[0], args[1:]
		}
		flags = append(flags, "--"+f.Name+"="+text)
	}
	return flags, args, nil
}

func isSwitch(f *pflag.Flag) bool { return f.NoOptDefVal != "" }

// longFlag finds a flag by its name or the beginning of its name. The flags of torchrun
// 1.13 come before those of later ones, and these before gorun's own, so that every
// beginning that a torchrun accepts means the same here.
func longFlag(cmd *cobra.Command, name string) (*pflag.Flag, error) {
	name = strings.ReplaceAll(name, "_", "-")
	if f := cmd.Flags().Lookup(name); f != nil {
		return f, nil
	}
	var found []*pflag.Flag
	generation := spec.GorunsOwn // of the found flags
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		of := spec.GenerationOf(f.Name)
		if f.Name == "help" {
			of = spec.FirstTorchrun
		}
		switch {
		case name == "" || f.Hidden || !strings.HasPrefix(f.Name, name):
		case of > generation:
			found, generation = []*pflag.Flag{f}, of
		case of == generation:
			found = append(found, f)
		}
	})
	switch len(found) {
	case 0:
		return nil, unknownFlag(cmd, "--"+name)
	case 1:
		return found[0], nil
	}
	names := make([]string, len(found))
	for i, f := range found {
		names[i] = "--" + f.Name
	}
	return nil, fmt.Errorf("error: ambiguous option: --%s could match %s", name, strings.Join(names, ", "))
}

// shortFlag finds a flag by its letter. arg begins with the letter; it is a cluster of
// letters, or a name that has one dash where it should have two.
func shortFlag(cmd *cobra.Command, letter, arg string) (*pflag.Flag, error) {
	if len(letter) == 1 { // pflag panics at any other length
		if f := cmd.Flags().ShorthandLookup(letter); f != nil {
			return f, nil
		}
	}
	name, _, _ := strings.Cut(arg[1:], "=")
	if f, err := longFlag(cmd, name); err == nil && len(name) > 2 {
		return nil, fmt.Errorf("%s -%s: did you mean --%s?", unrecognized, name, f.Name)
	}
	return nil, unknownFlag(cmd, "-"+letter)
}

// isFlagLike reports whether an argument cannot be a value of the flag before
// it: it starts with a dash, is no negative number and has no space.
func isFlagLike(s string) bool {
	if len(s) < 2 || s[0] != '-' || strings.Contains(s, " ") {
		return false
	}
	_, err := strconv.ParseFloat(s, 64)
	return err != nil
}

// checkProgramName refuses a program that does not exist here and whose name looks like
// one of gorun's commands. Only the first argument can be a command.
func checkProgramName(cmd *cobra.Command, flags, program []string) error {
	if len(program) == 0 || strings.ContainsAny(program[0], "/.") || program[0] == "--" ||
		slices.Contains(flags, "--module") || slices.Contains(flags, "--no-python") {
		return nil
	}
	name, commands := program[0], commandNames(cmd.Root())
	if _, err := os.Stat(name); err == nil || name == "sh" { // every system has a shell, and nobody means ssh by it
		return nil
	}
	if cmd.Name() == "run" && len(flags) == 0 {
		if like := nearest(name, slices.Values(commands)); like != "" {
			return fmt.Errorf("%s is not a command: did you mean gorun %s? To run a program of that name: gorun run %[1]s", name, like)
		}
		return nil
	}
	if !slices.Contains(commands, name) {
		return nil
	}
	if _, err := exec.LookPath(name); err == nil {
		return nil
	}
	if cmd.Name() != "run" {
		return fmt.Errorf("%s is a second command: leave it out, or give gorun %s a program", name, cmd.Name())
	}
	flag, _, _ := strings.Cut(flags[0], "=")
	return fmt.Errorf("%s comes after flags: the command comes first, as in gorun %[1]s %s", name, flag)
}

// nearest returns the word that the user may have meant. It begins with the typed text,
// or differs in few letters. nearest returns "" if there is no such word.
func nearest(typed string, words iter.Seq[string]) string {
	for w := range words {
		if len(typed) > 1 && strings.HasPrefix(w, typed) {
			return w
		}
	}
	return ncclenv.Nearest(typed, words)
}

// unrecognized begins argparse's error for a flag that does not exist.
const unrecognized = "error: unrecognized arguments:"

// missingValue is argparse's error for a flag without its value; arg says what the value
// is.
func missingValue(f *pflag.Flag, arg string) error {
	return fmt.Errorf("error: argument %s: expected one argument (%s)", argumentName(f), arg)
}

// argumentName returns how argparse names a flag: in all its spellings.
func argumentName(f *pflag.Flag) string {
	name := "--" + f.Name
	if underscores := "--" + strings.ReplaceAll(f.Name, "-", "_"); underscores != name {
		name += "/" + underscores
	}
	if f.Shorthand != "" {
		name = "-" + f.Shorthand + "/" + name
	}
	return name
}

// unknownFlag returns the error for a flag that a command does not have; name begins with
// dashes.
func unknownFlag(cmd *cobra.Command, name string) error {
	word := strings.TrimLeft(name, "-")
	if isJob(cmd) && slices.Contains(commandNames(cmd.Root()), word) {
		return fmt.Errorf("%s %s: did you mean the command gorun %s?", unrecognized, name, word)
	}
	like := nearest(word, func(yield func(string) bool) {
		more := true
		cmd.Flags().VisitAll(func(f *pflag.Flag) { more = more && (f.Hidden || yield(f.Name)) })
	})
	if like != "" && len(word) > 1 {
		return fmt.Errorf("%s %s: did you mean --%s?", unrecognized, name, like)
	}
	help := "gorun " + cmd.Name() + " --help"
	if isJob(cmd) {
		help = "gorun help flags"
	}
	return fmt.Errorf("%s %s: %s lists all", unrecognized, name, help)
}

// flagError rewrites an error of pflag about a flag of the command in plain words.
func flagError(cmd *cobra.Command, err error) error {
	if e, ok := errors.AsType[*pflag.NotExistError](err); ok {
		name := "--" + e.GetSpecifiedName()
		if e.GetSpecifiedShortnames() != "" {
			name = "-" + e.GetSpecifiedName()
		}
		return unknownFlag(cmd, name)
	}
	if e, ok := errors.AsType[*pflag.ValueRequiredError](err); ok {
		arg, _ := pflag.UnquoteUsage(e.GetFlag())
		return missingValue(e.GetFlag(), arg)
	}
	e, ok := errors.AsType[*pflag.InvalidValueError](err)
	switch {
	case !ok:
		return err
	case e.GetFlag().Value.Type() == "bool":
		return fmt.Errorf("error: argument %s: ignored explicit argument '%s' (a switch takes no value, or true or false)", argumentName(e.GetFlag()), e.GetValue())
	case e.GetFlag().Value.Type() == "int":
		return fmt.Errorf("--%s %q is not a whole number", e.GetFlag().Name, e.GetValue())
	}
	return err
}
