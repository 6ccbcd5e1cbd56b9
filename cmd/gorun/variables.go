package main

import (
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/gorun/gorun/envprop/ncclenv"
	"github.com/gorun/gorun/internal/environ"
	"github.com/gorun/gorun/launch/spec"
	"github.com/gorun/gorun/launch/spec/surroundings"
	"github.com/gorun/gorun/rendezvous/secret"
)

// groupVariables yields the variable of each flag of the groups, in their order.
func groupVariables(groups ...flagGroup) iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, g := range groups {
			for _, f := range g.flags {
				if f.name != completionFlag && !yield(spec.Variable(f.name)) {
					return
				}
			}
		}
	}
}

// misspeltVariables returns a line for each variable of the environment that looks
// like the variable of a flag and is none. The user asked for something that gorun
// would not do, such as a job of several nodes.
func misspeltVariables(env []string) []string {
	known := slices.Collect(groupVariables(append(jobFlags(), checkFlags(), envFlags(), launchFlags())...))
	known = append(known, secret.Env)
	lookup := func(name string) (string, bool) { return environ.Lookup(env, name) }
	if surroundings.IsNested(lookup) { // the variables are another gorun's
		return nil
	}
	var lines []string
	for _, entry := range slices.Sorted(slices.Values(env)) {
		name, _, _ := strings.Cut(entry, "=")
		switch {
		case !strings.HasPrefix(name, spec.VariablePrefix) || slices.Contains(known, name):
		default:
			if like := nearestVariable(name, known); like != "" {
				lines = append(lines, fmt.Sprintf("%s is not a variable of gorun: did you mean %s?", name, like))
			}
		}
	}
	return lines
}

// nearestVariable returns the variable that the user probably meant: the only one
// that begins with the name, or one that differs by a few letters; "" if there is
// none. Short names of equal length (IMAGE, IFACE) are different words.
func nearestVariable(name string, known []string) string {
	const short = len(spec.VariablePrefix) + 5
	longer := slices.DeleteFunc(slices.Clone(known), func(k string) bool { return !strings.HasPrefix(k, name) })
	if len(longer) == 1 {
		return longer[0]
	}
	word, words := strings.TrimPrefix(name, spec.VariablePrefix), func(yield func(string) bool) {
		for _, k := range known {
			if (len(name) > short || len(k) != len(name)) && !yield(strings.TrimPrefix(k, spec.VariablePrefix)) {
				return
			}
		}
	}
	if like := ncclenv.Nearest(word, words); like != "" {
		return spec.VariablePrefix + like
	}
	return ""
}
