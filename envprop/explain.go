package envprop

import (
	"slices"
	"strings"

	"github.com/gorun/gorun/envprop/ncclenv"
)

// Explain is Worker with the source of every variable, by name, and with what
// NCCL of that worker will read from these files besides. What cannot be a
// variable (an entry without =) is left out.
func (b Base) Explain(w Vars, files ...ncclenv.File) []Setting {
	var all []Setting
	has := map[string]bool{}
	add := func(name, text string, s Source) {
		if has[name] {
			return
		}
		has[name] = true
		all = append(all, Setting{name, NewValue(name, text), s})
	}
	for _, e := range b.worker(w) {
		if name, text, ok := strings.Cut(e.text, "="); ok && name != "" {
			s := e.source
			if s.Kind == FromOwn {
				s.Rule = rule(name)
			}
			add(name, text, s)
		}
	}
	for _, f := range files {
		for _, e := range f.Entries {
			add(e.Name, e.Value, Source{Kind: FromConf, At: place(f.Facts.Path), Rule: rule(e.Name)})
		}
	}
	slices.SortFunc(all, func(a, b Setting) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// Change is a variable in which two environments differ; nil is unset.
type Change struct {
	Name   string   `json:"name"`
	Before *Setting `json:"before"`
	After  *Setting `json:"after"`
}

// Diff lists where two results of Explain have other values, by name.
func Diff(before, after []Setting) []Change {
	at := map[string]*Change{}
	change := func(name string) *Change {
		if at[name] == nil {
			at[name] = &Change{Name: name}
		}
		return at[name]
	}
	for i := range before {
		change(before[i].Name).Before = &before[i]
	}
	for i := range after {
		change(after[i].Name).After = &after[i]
	}
	var list []Change
	for _, name := range names(at) {
		c := at[name]
		if c.Before == nil || c.After == nil || c.Before.Value.Reveal() != c.After.Value.Reveal() {
			list = append(list, *c)
		}
	}
	return list
}
