package envprop

import (
	"slices"
	"strings"

	"github.com/gorun/gorun/envprop/ncclenv"
)

// Distrust is what a node takes of an assignment by others that have proven no
// secret to it: of what makes programs run or load code, nothing but what the node
// asks for itself. Own is what it would decide alone. Left are the values that it
// does not take.
func (a Assignment) Distrust(own Assignment) (safe Assignment, left []Setting) {
	for _, s := range a.Set {
		switch {
		case !ncclenv.RunsCodeWith(s.Name, s.Value.Reveal()) && !own.sets(s.Name):
			safe.Set = append(safe.Set, s)
		case !own.gives(s):
			left = append(left, s)
		}
	}
	for _, s := range own.Set {
		if ncclenv.RunsCode(s.Name) {
			safe.Set = append(safe.Set, s)
		}
	}
	for _, r := range a.Unset {
		if r.Spares = isPattern(r.Name); r.Spares || !ncclenv.RunsCode(r.Name) || mustAgree(r.Name) {
			safe.Unset = append(safe.Unset, r)
		}
	}
	for _, r := range own.Unset {
		if isPattern(r.Name) || ncclenv.RunsCode(r.Name) {
			safe.Unset = append(safe.Unset, r)
		}
	}
	slices.SortStableFunc(safe.Set, func(x, y Setting) int { return strings.Compare(x.Name, y.Name) })
	return safe, left
}

// mustAgree reports whether the first node's word may take a variable away.
func mustAgree(name string) bool {
	v, _ := ncclenv.Governed(name)
	return told(name) && (v.Scope == ncclenv.All || v.Scope == ncclenv.AllSoft)
}

// sets reports whether an assignment sets a variable that runs code.
func (a Assignment) sets(name string) bool {
	return ncclenv.RunsCode(name) && slices.ContainsFunc(a.Set, func(t Setting) bool { return t.Name == name })
}

// gives reports whether an assignment sets a variable to the same value.
func (a Assignment) gives(s Setting) bool {
	return slices.ContainsFunc(a.Set, func(t Setting) bool { return t.Name == s.Name && t.Value.Reveal() == s.Value.Reveal() })
}
