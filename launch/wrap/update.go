package wrap

import (
	"path"
	"slices"
	"strings"

	"github.com/gorun/gorun/envprop"
	"github.com/gorun/gorun/rendezvous/preflight"
)

// UpdateLoss replaces what a probe saw as lost behind the wrapper by what the workers
// will lack, once their variables are decided. It counts a name that the probe did
// not send as lost if the wrapper loses unknown names, unless the command line
// mentions the name.
func UpdateLoss(f *preflight.Facts, a envprop.Assignment) {
	if f.WrapperLoss == nil {
		return
	}
	l := *f.WrapperLoss
	var dropped []string // names that do not count
	for _, list := range []*[]string{&l.Missing, &l.Changed} {
		*list = slices.DeleteFunc(slices.Clone(*list), func(name string) bool {
			given := slices.ContainsFunc(a.Set, func(s envprop.Setting) bool { return s.Name == name })
			counts := given || !slices.Contains(l.Conditional, name) && !a.Removes(name)
			if !counts {
				dropped = append(dropped, name)
			}
			return !counts
		})
	}
	known := slices.Concat(l.Missing, l.Changed, l.Forced, l.Arrived)
	for _, s := range a.Set {
		if l.BlocksUnknown && !slices.Contains(known, s.Name) && !mentions(f.Program.Args, s.Name) {
			l.Unsent = append(l.Unsent, s.Name)
		}
	}
	switch {
	case l.BlocksUnknown && len(dropped)+len(l.Unsent) > 0:
		l.Fix = fixOf(f.Program, l)
	case len(dropped) > 0: // the lines name start files, each about one variable
		l.Fix = slices.DeleteFunc(slices.Clone(l.Fix), func(line string) bool {
			return slices.ContainsFunc(dropped, func(name string) bool { return mentions([]string{line}, name) })
		})
	}
	f.WrapperLoss = &l
}

// fixOf says how to get the variables through a program's wrapper. It returns nil
// if it does not understand the wrapper's command line.
func fixOf(p preflight.Program, l preflight.WrapperLoss) []string {
	prefix, err := Parse(append([]string{p.Title}, p.Args...))
	lost := preflight.WrapperLoss{Missing: slices.Concat(l.Missing, l.Unsent), Changed: l.Changed, Forced: l.Forced}
	if err != nil || !hasLoss(lost) {
		return nil
	}
	return strings.Split(prefix.fix(lost, func(string) string { return "" }), "\n")
}

// mentions reports whether the words contain a name or a pattern that matches it.
func mentions(words []string, name string) bool {
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
