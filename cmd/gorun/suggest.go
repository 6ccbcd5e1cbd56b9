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
	"unicode"
	"unicode/utf8"

	"github.com/spf13/pflag"

	"github.com/gorun/gorun/envprop/ncclenv"
	"github.com/gorun/gorun/launch"
	"github.com/gorun/gorun/launch/spec"
)

// nearest returns the word that was meant: one that begins so, or has next to no
// other letters; "" if there is none.
func nearest(typed string, words iter.Seq[string]) string {
	for w := range words {
		if len(typed) > 1 && strings.HasPrefix(w, typed) {
			return w
		}
	}
	return ncclenv.Nearest(typed, words)
}

// unknownFlag returns the error of a flag that there is not; name begins with its
// dashes, help is the command that lists those there are.
func unknownFlag(name, help string, known iter.Seq[string]) error {
	bare := strings.TrimLeft(name, "-")
	if slices.Contains(commands(), bare) {
		return fmt.Errorf("unknown flag %s: did you mean the command gorun %s?", name, bare)
	}
	if like := nearest(bare, known); like != "" && len(bare) > 1 {
		return fmt.Errorf("unknown flag %s: did you mean --%s?", name, like)
	}
	return fmt.Errorf("unknown flag %s: %s lists all", name, help)
}

// flagError says in plain words what pflag has against a flag of the set.
func flagError(set *pflag.FlagSet, err error) error {
	if e, ok := errors.AsType[*pflag.NotExistError](err); ok {
		name := "--" + e.GetSpecifiedName()
		if e.GetSpecifiedShortnames() != "" {
			name = "-" + e.GetSpecifiedName()
		}
		return unknownFlag(name, "gorun "+set.Name()+" --help", func(yield func(string) bool) {
			more := true
			set.VisitAll(func(f *pflag.Flag) { more = more && (f.Hidden || yield(f.Name)) })
		})
	}
	if e, ok := errors.AsType[*pflag.ValueRequiredError](err); ok {
		arg, _ := pflag.UnquoteUsage(e.GetFlag())
		return fmt.Errorf("--%s needs a value: --%[1]s %s", e.GetFlag().Name, arg)
	}
	e, ok := errors.AsType[*pflag.InvalidValueError](err)
	switch {
	case !ok:
		return err
	case e.GetFlag().Value.Type() == "bool":
		return fmt.Errorf("--%s is a switch: it takes no value, or true or false, not %q", e.GetFlag().Name, e.GetValue())
	case e.GetFlag().Value.Type() == "int":
		return fmt.Errorf("--%s %q is not a whole number", e.GetFlag().Name, e.GetValue())
	}
	return err
}

// mistaken returns the error of a program whose name looks like one of gorun's
// commands, and that nobody has put here. args are those that were parsed: the
// first of them can be a command, a later one cannot.
func mistaken(args []string, raw spec.Raw) error {
	if len(raw.Command) == 0 || args[0] == "--" {
		return nil
	}
	name, first := raw.Command[0], len(args) == len(raw.Command)
	if strings.ContainsAny(name, "/.") || raw.Flags["module"] == "1" || raw.Flags["no_python"] == "1" {
		return nil
	}
	if _, err := os.Stat(name); err == nil {
		return nil
	}
	if first {
		if like := nearest(name, slices.Values(commands())); like != "" {
			return fmt.Errorf("%s is no command: did you mean gorun %s? To run a program of that name: gorun run %[1]s", name, like)
		}
		return nil
	}
	if !slices.Contains(commands(), name) {
		return nil
	}
	if _, err := exec.LookPath(name); err == nil {
		return nil
	}
	if raw.Check || raw.Show {
		return fmt.Errorf("%s stands where a program is expected: gorun %s takes its place, one command is enough", name, args[0])
	}
	return fmt.Errorf("%s stands behind flags, where a program is expected: the command comes first, as in gorun %[1]s %s", name, args[0])
}

// usagef returns an error of the command line.
func usagef(format string, args ...any) error {
	return &launch.UsageError{Err: fmt.Errorf(format, args...)}
}

// maxShown is the number of letters that a message has on one line.
const maxShown = 500

// oneLine returns a message without what would begin another line, command the
// terminal or hide letters: values of flags can be anything. Of a long one the
// middle is left out.
func oneLine(text string) string {
	if runes := []rune(text); len(runes) > maxShown {
		text = string(runes[:maxShown/2]) + " ... " + string(runes[len(runes)-maxShown/2:])
	}
	var b strings.Builder
	for _, r := range text {
		if unicode.IsPrint(r) && r != utf8.RuneError {
			b.WriteRune(r)
			continue
		}
		b.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
	}
	return b.String()
}
