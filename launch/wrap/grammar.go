package wrap

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// grammar lists the options of a program that matter to a probe. Blanks separate
// the words of a list. An option in no list is a flag. If it has a value after
// all, the probe prints nothing, and still does not start the worker's program.
type grammar struct {
	values   string // options with a value
	drop     string // options that a probe leaves out
	refuse   string // options with which a probe cannot replace the program
	assigned bool   // NAME=value may stand among the options
}

// option is an option of a command line, with the words to write it again.
type option struct {
	name  string // "-e" or "--env"; "=" for NAME=value
	value string
	words []string
}

// errMissing is the error of a command line without a program.
var errMissing = errors.New("it names no program")

// scan splits the words after a program's name into options and the rest. It is an
// error if there is no rest.
func (g grammar) scan(args []string) (opts []option, rest []string, err error) {
	for len(args) > 0 && args[0] != "--" {
		word := args[0]
		var some []option
		switch {
		case g.assigned && isAssignment(word):
			some, args = []option{{"=", word, []string{word}}}, args[1:]
		case len(word) < 2 || word[0] != '-':
			return opts, args, nil
		case word[1] == '-':
			some, args, err = g.longOption(args)
		default:
			some, args, err = g.shortOptions(args)
		}
		if err != nil {
			return nil, nil, err
		}
		opts = append(opts, some...)
	}
	if len(args) < 2 {
		return nil, nil, errMissing
	}
	return opts, args[1:], nil // args[0] is "--"
}

func (g grammar) longOption(args []string) ([]option, []string, error) {
	name, value, joined := strings.Cut(args[0], "=")
	switch {
	case listed(g.refuse, name):
		return nil, nil, errRefused(name)
	case joined || !listed(g.values, name):
		return []option{{name, value, args[:1:1]}}, args[1:], nil
	case len(args) == 1:
		return nil, nil, fmt.Errorf("%s has no value", name)
	}
	return []option{{name, args[1], args[:2:2]}}, args[2:], nil
}

func (g grammar) shortOptions(args []string) (opts []option, rest []string, err error) {
	word := args[0]
	for i := 1; i < len(word); i++ {
		name, value := "-"+word[i:i+1], word[i+1:]
		switch {
		case listed(g.refuse, name):
			return nil, nil, errRefused(name)
		case !listed(g.values, name):
			opts = append(opts, option{name, "", []string{name}})
		case value != "":
			return append(opts, option{name, strings.TrimPrefix(value, "="), []string{name + value}}), args[1:], nil
		case len(args) > 1:
			return append(opts, option{name, args[1], []string{name, args[1]}}), args[2:], nil
		default:
			return nil, nil, fmt.Errorf("%s has no value", name)
		}
	}
	return opts, args[1:], nil
}

func errRefused(option string) error {
	return fmt.Errorf("with %s gorun cannot start a probe in the place of the program", option)
}

// words returns the words of the options, without the options that a probe leaves
// out.
func (g grammar) words(opts []option) []string {
	var out []string
	for _, o := range opts {
		if !listed(g.drop, o.name) {
			out = append(out, o.words...)
		}
	}
	return out
}

// listed reports whether a word is in a list.
func listed(list, word string) bool { return slices.Contains(strings.Fields(list), word) }

// has reports whether one of the names was given as an option.
func has(opts []option, names ...string) bool {
	return slices.ContainsFunc(opts, func(o option) bool { return slices.Contains(names, o.name) })
}

// valuesOf lists the values of the options with one of the names.
func valuesOf(opts []option, names ...string) []string {
	var out []string
	for _, o := range opts {
		if slices.Contains(names, o.name) {
			out = append(out, o.value)
		}
	}
	return out
}

// isAssignment reports whether a word has the form NAME=value.
func isAssignment(word string) bool {
	name, _, ok := strings.Cut(word, "=")
	return ok && isName(name)
}

func isName(s string) bool {
	for i, c := range []byte(s) {
		letter := c == '_' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return s != ""
}

// assignments lists the words of the form NAME=value.
func assignments(words []string) []string {
	return slices.DeleteFunc(slices.Clone(words), func(w string) bool { return !isAssignment(w) })
}
