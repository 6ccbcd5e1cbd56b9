package envprop

import (
	"slices"
	"strings"

	"github.com/gorun/gorun/rendezvous/preflight/setting"
)

// Distrust is what a node takes of an assignment by others that have proven no
// secret to it: of what makes programs run or load code, nothing but what the node
// asks for itself. Own is what it would decide alone. Left are the values that it
// does not take.
func (a Assignment) Distrust(own Assignment) (safe Assignment, left []Setting) {
	for _, s := range a.Set {
		switch {
		case !setting.RunsCodeWith(s.Name, s.Value.Reveal()) && !own.sets(s.Name):
			safe.Set = append(safe.Set, s)
		case !own.gives(s):
			left = append(left, s)
		}
	}
	for _, s := range own.Set {
		if setting.RunsCode(s.Name) {
			safe.Set = append(safe.Set, s)
		}
	}
	for _, r := range a.Unset {
		if r.Spares = isPattern(r.Name); r.Spares || !setting.RunsCode(r.Name) || mustAgree(r.Name) {
			safe.Unset = append(safe.Unset, r)
		}
	}
	for _, r := range own.Unset {
		if isPattern(r.Name) || setting.RunsCode(r.Name) {
			safe.Unset = append(safe.Unset, r)
		}
	}
	slices.SortStableFunc(safe.Set, func(x, y Setting) int { return strings.Compare(x.Name, y.Name) })
	return safe, left
}

// mustAgree reports whether the first node's word may take a variable away.
func mustAgree(name string) bool {
	v, _ := setting.Governed(name)
	return told(name) && (v.Scope == setting.All || v.Scope == setting.AllSoft)
}

// sets reports whether an assignment sets a variable that runs code.
func (a Assignment) sets(name string) bool {
	return setting.RunsCode(name) && slices.ContainsFunc(a.Set, func(t Setting) bool { return t.Name == name })
}

// gives reports whether an assignment sets a variable to the same value.
func (a Assignment) gives(s Setting) bool {
	return slices.ContainsFunc(a.Set, func(t Setting) bool { return t.Name == s.Name && t.Value.Reveal() == s.Value.Reveal() })
}
