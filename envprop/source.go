package envprop

import (
	"slices"
	"strings"

	"github.com/gorun/gorun/envprop/ncclenv"
)

// Kind is where a value, or the lack of one, comes from. A kind that is listed
// earlier wins.
type Kind string

const (
	FromFlag        Kind = "-x"
	FromUnset       Kind = "--unset"
	FromEnvFile     Kind = "env file"
	FromFirst       Kind = "first node"  // the first node's value, where all have to agree
	FromEnvironment Kind = "environment" // the node's own environment
	FromConf        Kind = "conf file"   // an nccl.conf, which NCCL reads where nothing is exported
	FromGorun       Kind = "gorun"       // a value that gorun computed
)

// Source says where a value comes from and why it counts.
type Source struct {
	Kind Kind   `json:"kind"`
	Node string `json:"node,omitempty"` // node of the request or environment; "" for the node itself
	At   string `json:"at,omitempty"`   // the argument without its value, "job.env:3", or the conf file
	Rule string `json:"rule,omitempty"` // how the scope of the variable decides, and what a difference leads to
}

// String returns the source without the rule, for a person.
func (s Source) String() string {
	var text string
	switch s.Kind {
	case FromFlag, FromUnset, FromEnvFile:
		text = s.At
		if s.Node != "" {
			text += " on " + s.Node
		}
	case FromFirst:
		text = "first node"
		if s.Node != "" {
			text += " (" + s.Node + ")"
		}
		if s.At != "" {
			text += ", " + s.At
		}
	case FromEnvironment:
		text = "this node's environment"
		if s.Node != "" {
			text = "environment of " + s.Node
		}
	case FromConf:
		text = s.At
	default:
		text = string(s.Kind)
	}
	return line(strings.TrimSpace(text))
}

// Setting is a variable with its value and where it comes from.
type Setting struct {
	Name   string `json:"name"`
	Value  Value  `json:"value"`
	Source Source `json:"source"`
}

// Removal is a variable that a node's workers do not get. gorun does not compute a
// variable that the user took away.
type Removal struct {
	Name   string `json:"name"` // of --unset it may be a pattern
	Source Source `json:"source"`
	// KeepsCode says that variables that make programs run or load code stay, because the
	// pattern comes from another node that is not trusted.
	KeepsCode bool `json:"spares,omitempty"`
}

// removes reports whether the removal includes a variable.
func (r Removal) removes(name string) bool {
	return matches(r.Name, name) && !(r.KeepsCode && ncclenv.RunsCode(name))
}

// Assignment is what the decision changes on one node. Unset is applied first; then
// Set wins over every value that the node has.
type Assignment struct {
	Set   []Setting `json:"set,omitempty"` // by name
	Unset []Removal `json:"unset,omitempty"`
}

// Removes reports whether the assignment takes a variable away.
func (a Assignment) Removes(name string) bool {
	return slices.ContainsFunc(a.Unset, func(r Removal) bool { return r.removes(name) })
}

// UntrustedReason says why a node does not take a value of another node, and what to do.
const UntrustedReason = "it could run code there, and the nodes have no secret; give every node the same --secret-file, or set the variable on each node"

// FilterUntrusted returns the part of an assignment that a node takes from nodes that have
// proven no secret to it. Of the variables that make programs run or load code, the
// node takes only what its own user requested. own is the assignment that the node would
// decide alone. left lists the values that it does not take.
func (a Assignment) FilterUntrusted(local Assignment) (safe Assignment, refused []Setting) {
	for _, s := range a.Set {
		switch {
		case !ncclenv.RunsCodeWith(s.Name, s.Value.Reveal()) && !local.setsCode(s.Name):
			safe.Set = append(safe.Set, s)
		case !local.hasSetting(s):
			refused = append(refused, s)
		}
	}
	for _, s := range local.Set {
		if ncclenv.RunsCode(s.Name) {
			safe.Set = append(safe.Set, s)
		}
	}
	for _, r := range a.Unset {
		if r.KeepsCode = isPattern(r.Name); r.KeepsCode || !ncclenv.RunsCode(r.Name) || mustAgree(r.Name) {
			safe.Unset = append(safe.Unset, r)
		}
	}
	for _, r := range local.Unset {
		if isPattern(r.Name) || ncclenv.RunsCode(r.Name) {
			safe.Unset = append(safe.Unset, r)
		}
	}
	slices.SortStableFunc(safe.Set, func(x, y Setting) int { return strings.Compare(x.Name, y.Name) })
	return safe, refused
}

// mustAgree reports whether all nodes get the first node's value of a variable, or
// none where the first node has none.
func mustAgree(name string) bool {
	v, _ := ncclenv.Governed(name)
	return isReported(name) && (v.Scope == ncclenv.All || v.Scope == ncclenv.AllSoft)
}

// setsCode reports whether an assignment sets a variable that runs code.
func (a Assignment) setsCode(name string) bool {
	return ncclenv.RunsCode(name) && slices.ContainsFunc(a.Set, func(t Setting) bool { return t.Name == name })
}

// hasSetting reports whether an assignment sets a variable to the same value.
func (a Assignment) hasSetting(s Setting) bool {
	return slices.ContainsFunc(a.Set, func(t Setting) bool { return t.Name == s.Name && t.Value.Reveal() == s.Value.Reveal() })
}

// rule returns the scope of a variable and why it has that scope. It returns "" for a
// variable that is not governed.
func rule(name string) string {
	if v, ok := ncclenv.Governed(name); ok {
		return string(v.Scope) + ": " + v.Text
	}
	return ""
}

// Explain returns the environment of Worker with the source of every variable, by
// name. It adds the variables that NCCL of that worker will read from these files. It
// leaves out an entry without =, which cannot be a variable.
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
			if s.Kind == FromEnvironment {
				s.Rule = rule(name)
			}
			add(name, text, s)
		}
	}
	for _, f := range files {
		for _, e := range f.Entries {
			add(e.Name, e.Value, Source{Kind: FromConf, At: shownPath(f.Facts.Path), Rule: rule(e.Name)})
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

// Diff lists the variables whose values differ between two results of Explain, by
// name.
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
