package main

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// complete offers what may follow on the command line of a job or a check: flags
// before the program and their words, else files.
func (g grammar) complete(args []string, typed string) ([]string, cobra.ShellCompDirective) {
	var open runFlag // whose value is typed now
	for _, arg := range args {
		name, _, closed := strings.Cut(arg, "=")
		switch {
		case open.arg != "":
			open = runFlag{}
		case !looksLikeFlag(arg) || arg == "--": // what follows is the program's
			return nil, cobra.ShellCompDirectiveDefault
		case closed:
		case strings.HasPrefix(arg, "--"):
			open, _ = g.long(name[2:])
		default:
			open, _ = g.short(name[1:])
		}
	}
	var offers []string
	switch {
	case open.arg != "":
		offers = open.words()
	case strings.HasPrefix(typed, "-") && !strings.Contains(typed, "="):
		for f := range g.all() {
			offers = append(offers, "--"+f.name+"\t"+f.usage)
		}
	}
	if offers == nil {
		return nil, cobra.ShellCompDirectiveDefault
	}
	offers = slices.DeleteFunc(offers, func(s string) bool { return !strings.HasPrefix(s, typed) })
	return offers, cobra.ShellCompDirectiveNoFileComp
}

// words are the values that are meant literally, as gpu in "N|auto|gpu|cpu".
func (f runFlag) words() []string {
	var words []string
	for w := range strings.SplitSeq(f.arg, "|") {
		if w == strings.ToLower(w) {
			words = append(words, w)
		}
	}
	return words
}
