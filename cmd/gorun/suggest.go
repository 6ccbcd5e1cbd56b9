package main

import (
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/gorun/gorun/envprop/ncclenv"
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

// unknownFlag returns the error of a flag that a command does not have; name begins with
// its dashes.
func unknownFlag(cmd *cobra.Command, name string) error {
	bare := strings.TrimLeft(name, "-")
	if isJob(cmd) && slices.Contains(commandNames(cmd.Root()), bare) {
		return fmt.Errorf("unknown flag %s: did you mean the command gorun %s?", name, bare)
	}
	like := nearest(bare, func(yield func(string) bool) {
		more := true
		cmd.Flags().VisitAll(func(f *pflag.Flag) { more = more && (f.Hidden || yield(f.Name)) })
	})
	if like != "" && len(bare) > 1 {
		return fmt.Errorf("unknown flag %s: did you mean --%s?", name, like)
	}
	help := "gorun " + cmd.Name() + " --help"
	if isJob(cmd) {
		help = "gorun help flags"
	}
	return fmt.Errorf("unknown flag %s: %s lists all", name, help)
}

// flagError says in plain words what pflag has against a flag of the command.
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
