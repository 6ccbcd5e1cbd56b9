package envprop

import (
	"errors"
	"fmt"
	"strings"
)

// Override is one change of the environment that the user requests: an argument of -x or
// --unset, or a line of an env file.
type Override struct {
	To    Target
	Name  string // of --unset it may be a pattern
	Value Value  // empty with --unset
	Kind  Kind   // FromFlag, FromUnset or FromEnvFile
	Exact bool   // true: the user wrote this name, not a pattern that matches it
	At    string // the argument without its value, or "job.env:3"
}

// weight orders the overrides of one variable of one node; the highest weight wins. -x
// and --unset win over an env file, then node= over role= over all nodes, then a
// name over a pattern, then -x over --unset. Of two equal weights the later wins.
func (a *Override) weight() int {
	w := 4 * a.To.weight()
	if a.Kind != FromEnvFile {
		w += 16
	}
	if a.Exact {
		w += 2
	}
	if a.Kind != FromUnset {
		w++
	}
	return w
}

// parseFlag reads the argument of -x (FromFlag) or --unset (FromUnset). Given says
// whether the argument has a value. Without one, the values are this node's:
// that of the variable, or those of all variables that match a pattern. Errors do not show the
// value.
func parseFlag(kind Kind, arg string) (a Override, given bool, err error) {
	fail := func(err error) (Override, bool, error) {
		head, _, _ := strings.Cut(arg, "=")
		for _, by := range []By{ByNode, ByRole} {
			if after, ok := strings.CutPrefix(arg, string(by)+"="); ok && strings.Contains(after, ":") {
				after, _, _ = strings.Cut(after, "=")
				head = string(by) + "=" + after
			}
		}
		return Override{}, false, fmt.Errorf("%s %s: %w", kind, line(head), err)
	}
	to, rest, err := cutTarget(arg)
	if err != nil {
		return fail(err)
	}
	name, value, given := strings.Cut(rest, "=")
	a = Override{To: to, Name: name, Kind: kind, Exact: !isPattern(name), At: string(kind) + " " + to.String() + name}
	switch {
	case given && kind == FromUnset:
		return fail(errors.New("a name is expected, without a value"))
	case given && !a.Exact:
		return fail(errors.New("a pattern sends the values of this node: it cannot have a value"))
	case a.Exact:
		err = checkName(name)
	default:
		err = checkPattern(name)
		if kind == FromUnset && strings.ContainsRune(meta, rune(name[0])) {
			err = errors.New("the pattern could remove PATH and HOME: begin it with letters")
		}
	}
	if err == nil && given {
		err = checkValue(name, value)
		a.Value = NewValue(name, value)
	}
	if err != nil {
		return fail(err)
	}
	return a, given, nil
}
