package wrap

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// grammar describes how a program reads its options: everything that may stand
// before its first argument. Blanks separate the words of a list.
type grammar struct {
	flags    string // letters of short options without a value
	values   string // letters of short options with one
	maybe    string // letters of short options whose value, if any, is joined to them
	long     string // long options without a value (one may be joined by =)
	valued   string // long options with a value
	single   bool   // long options may begin with one dash
	drop     string // options that a probe leaves out
	refuse   string // options with which it starts no program, or with which a probe cannot replace the program
	assigned bool   // NAME=value may stand among the options
}

// option is an option that was given, with the words to write it again.
type option struct {
	name  string // "-e" or "--env"; "=" for NAME=value
	value string
	words []string
}

// errMissing is the error of a command line without a program.
var errMissing = errors.New("it names no program")

// scan splits the words after a program's name into options and the rest.
func (g grammar) scan(args []string) (opts []option, rest []string, err error) {
	for len(args) > 0 {
		word := args[0]
		switch {
		case word == "--":
			return opts, args[1:], nil
		case g.assigned && isAssignment(word):
			opts = append(opts, option{"=", word, []string{word}})
			args = args[1:]
			continue
		case len(word) < 2 || word[0] != '-':
			return opts, args, nil
		}
		var some []option
		if strings.HasPrefix(word, "--") || g.single {
			some, args, err = g.longOption(args)
		} else {
			some, args, err = g.shortOptions(args)
		}
		if err != nil {
			return nil, nil, err
		}
		opts = append(opts, some...)
	}
	return opts, nil, nil
}

func (g grammar) longOption(args []string) ([]option, []string, error) {
	name, value, joined := strings.Cut(args[0], "=")
	plain := strings.TrimLeft(name, "-")
	switch {
	case listed(g.refuse, name):
		return nil, nil, fmt.Errorf("with %s it cannot be looked behind it", name)
	case joined && (listed(g.long, plain) || listed(g.valued, plain)), listed(g.long, plain):
		return []option{{name, value, args[:1:1]}}, args[1:], nil
	case listed(g.valued, plain) && len(args) > 1:
		return []option{{name, args[1], args[:2:2]}}, args[2:], nil
	case listed(g.valued, plain):
		return nil, nil, fmt.Errorf("%s has no value", name)
	}
	return nil, nil, fmt.Errorf("its option %s is not known here", name)
}

func (g grammar) shortOptions(args []string) (opts []option, rest []string, err error) {
	word := args[0]
	for i := 1; i < len(word); i++ {
		letter, name := word[i], "-"+word[i:i+1]
		has := func(list string) bool { return strings.IndexByte(list, letter) >= 0 }
		switch value := word[i+1:]; {
		case listed(g.refuse, name):
			return nil, nil, fmt.Errorf("with %s it cannot be looked behind it", name)
		case has(g.flags):
			opts = append(opts, option{name, "", []string{name}})
		case has(g.maybe):
			return append(opts, option{name, value, []string{name + value}}), args[1:], nil
		case has(g.values) && value != "":
			return append(opts, option{name, strings.TrimPrefix(value, "="), []string{name + value}}), args[1:], nil
		case has(g.values) && len(args) > 1:
			return append(opts, option{name, args[1], []string{name, args[1]}}), args[2:], nil
		case has(g.values):
			return nil, nil, fmt.Errorf("%s has no value", name)
		default:
			return nil, nil, fmt.Errorf("its option %s is not known here", name)
		}
	}
	return opts, args[1:], nil
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

// given lists the values of the options with one of the names.
func given(opts []option, names ...string) []string {
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
	return slices.DeleteFunc(slices.Clone(words), func(w string) bool { return !strings.Contains(w, "=") })
}

// join makes one list of several lists of words.
func join(parts ...[]string) []string { return slices.Concat(parts...) }
