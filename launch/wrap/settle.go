package wrap

import (
	"path"
	"slices"
	"strings"

	"github.com/gorun/gorun/envprop"
	"github.com/gorun/gorun/rendezvous/preflight"
)

// Settle replaces what a probe saw as lost behind the wrapper by what the workers
// will lack, once their variables are decided. It counts a name that the probe did
// not send as lost if the wrapper loses unknown names, unless the command line
// mentions the name.
func Settle(f *preflight.Facts, a envprop.Assignment) {
	if f.Lost == nil {
		return
	}
	l := *f.Lost
	var dropped []string // names that do not count
	for _, list := range []*[]string{&l.Missing, &l.Changed} {
		*list = slices.DeleteFunc(slices.Clone(*list), func(name string) bool {
			given := slices.ContainsFunc(a.Set, func(s envprop.Setting) bool { return s.Name == name })
			counts := given || !slices.Contains(l.Perhaps, name) && !a.Removes(name)
			if !counts {
				dropped = append(dropped, name)
			}
			return !counts
		})
	}
	known := slices.Concat(l.Missing, l.Changed, l.Forced, l.Passed)
	for _, s := range a.Set {
		if l.Closed && !slices.Contains(known, s.Name) && !mentioned(f.Program.Args, s.Name) {
			l.Untried = append(l.Untried, s.Name)
		}
	}
	switch {
	case l.Closed && len(dropped)+len(l.Untried) > 0:
		l.Fix = fixOf(f.Program, l)
	case len(dropped) > 0: // the lines name start files, each about one variable
		l.Fix = slices.DeleteFunc(slices.Clone(l.Fix), func(line string) bool {
			return slices.ContainsFunc(dropped, func(name string) bool { return mentioned([]string{line}, name) })
		})
	}
	f.Lost = &l
}

// fixOf says how to get the variables through a program's wrapper. It returns nil
// if it does not understand the wrapper's command line.
func fixOf(p preflight.Program, l preflight.Lost) []string {
	prefix, err := Parse(append([]string{p.Title}, p.Args...))
	lost := preflight.Lost{Missing: slices.Concat(l.Missing, l.Untried), Changed: l.Changed, Forced: l.Forced}
	if err != nil || !anyLost(lost) {
		return nil
	}
	return strings.Split(prefix.fix(lost, func(string) string { return "" }), "\n")
}

// mentioned reports whether the words contain a name or a pattern that matches it.
func mentioned(words []string, name string) bool {
	for _, word := range words {
		for token := range strings.FieldsFuncSeq(word, func(r rune) bool {
			return r != '_' && r != '*' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
		}) {
			if ok, _ := path.Match(token, name); ok {
				return true
			}
		}
	}
	return false
}
