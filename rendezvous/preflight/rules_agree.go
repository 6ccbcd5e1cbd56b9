package preflight

import (
	"slices"
	"strings"

	"github.com/gorun/gorun/envprop/ncclenv"
)

// agreeRules are E01 and E05: variables and files that have to agree.
func agreeRules() []Rule {
	return []Rule{
		{
			ID: "E01", Name: "env-must-agree", Severity: Error,
			Meaning: "Variables that every rank must have alike are alike; unset differs from set. gorun gives every rank what the first node has, or what `-x` says, and warns of the difference; with `--env-conflict=error` it refuses the job. What it cannot settle is an error, or, where it costs speed or clarity only, a warning: a conf file that sets what the first node has not, different values that `-x` gives to different nodes, and, without a secret, what could run code, which no node takes from another.",
			Users:   "`message truncated : receiving X bytes instead of Y`, `collective mismatch error`, wrong results, or a hang.",
			Steps:   []Step{toGorun("give every rank one value", "-x NCCL_ALGO=Ring")},
			Check:   checkAgree,
		},
		{
			ID: "E05", Name: "conf-file", Severity: Warning,
			Meaning: "The nccl.conf files are the same on every node and without faults: NCCL removes neither blanks nor quotes.",
			Users:   "A difference between nodes that no environment shows.",
			Steps: []Step{
				byHand("make the file the same on all nodes, or remove it everywhere, and write NAME=value without blanks and quotes"),
				toLook("what is in it", "cat -A /etc/nccl.conf"),
			},
			Check: checkConf,
		},
	}
}

// usage is how the fleet sets a variable.
type usage struct {
	name  string
	nodes int    // that set it
	value string // of the first
	same  bool   // all that set it have the first one's value
}

// maxNames bounds the distinct names of variables that are looked at; a node
// has some dozen.
const maxNames = 4096

// maxDiffering bounds the variables that are told to differ.
const maxDiffering = 64

// usages lists the variables that some node sets, by name, with what is odd.
func (f *Fleet) usages() []*usage {
	at := map[string]*usage{}
	for _, n := range f.known() {
		for _, s := range n.Settings {
			u := at[s.Name]
			switch {
			case u != nil:
				u.nodes++
				u.same = u.same && u.value == s.Value
			case len(at) < maxNames:
				at[s.Name] = &usage{s.Name, 1, s.Value, true}
			}
		}
	}
	list := make([]*usage, 0, len(at))
	for _, u := range at {
		list = append(list, u)
	}
	slices.SortFunc(list, func(a, b *usage) int { return strings.Compare(a.name, b.name) })
	return list
}

// settled is how many nodes know their variables.
func (f *Fleet) settled() int {
	count := 0
	for _, n := range f.known() {
		if n.settled() {
			count++
		}
	}
	return count
}

func checkAgree(f *Fleet) []Finding {
	var all []disagreement
	for i, d := range f.Differences {
		if i == maxDiffering {
			break
		}
		v, _ := ncclenv.Lookup(d.Name)
		if strings.HasPrefix(d.Name, "NCCL_") && (d.Left && !f.look().nccl || f.unread(v.Since)) {
			continue
		}
		all = merge(all, f.disagree(d))
	}
	var found []Finding
	for _, x := range all {
		found = append(found, x.Finding)
	}
	return found
}

// disagreement is what is said of a difference. Settled: every rank gets one value.
type disagreement struct {
	Finding
	settled bool
}

func (f *Fleet) disagree(d Difference) disagreement {
	x := disagreement{settled: !d.Left && !d.Error}
	x.Severity, x.Values = Warning, slices.Clone(d.Values)
	word := " should be the same on every rank: "
	if d.Error {
		x.Severity, word = Error, " has to be the same on every rank: "
	}
	x.Text = d.Name + word + d.Text + "."
	for i := range x.Values {
		x.Values[i].Odd = i > 0 // its value does not count
	}
	first := f.called(d.Values[0].Nodes[:1])
	switch {
	case d.Left:
		slices.SortStableFunc(x.Values, func(a, b Value) int { return len(b.Nodes) - len(a.Nodes) })
		for i := range x.Values {
			x.Values[i].Odd = len(x.Values[i].Nodes) < len(x.Values[0].Nodes)
		}
		switch {
		case d.Targeted:
			x.Steps = []Step{byHand("give " + d.Name + " one value for all nodes, not some of them another one (-x NODE:" + d.Name + "=VALUE, role=...)")}
		case f.told(x.Values):
			x.Steps = f.oneValue(d.Name, x.Values)
		default:
			x.Steps = []Step{byHand("give " + d.Name + " one value on all nodes with -x, or none")}
		}
	case d.Asked:
		x.Text = d.Name + " is asked for with different values."
		if x.settled {
			x.Text = d.Name + " is asked for with different values, and every rank gets that of " + first + "."
		}
		x.Steps = []Step{byHand("give -x " + d.Name + "=VALUE on one node only, or the same on all; -x NODE:" + d.Name + "=VALUE is for one node alone")}
	default:
		if x.settled {
			x.Text = d.Name + " differs, and every rank gets what " + first + " has. Otherwise: " + d.Text + "."
		}
		x.Steps = f.confirm(d)
	}
	x.Values = f.finish(x.Values)
	if d.Left {
		f.describe(x.Values, func(i int) string { return f.Nodes[i].origin(d.Name) })
	}
	return x
}

// confirm says how every rank gets what the first node has, and nobody is told
// of a difference.
func (f *Fleet) confirm(d Difference) []Step {
	const text, refuse = "have the same on every node, or confirm ", " (--env-conflict=error refuses such a job)"
	first := d.Values[0].Nodes[:1]
	value, known := f.Nodes[first[0]].setting(d.Name)
	switch set := strings.HasPrefix(d.Values[0].Value, d.Name+"="); {
	case set && known:
		return []Step{everyRank(text+"that value"+refuse, d.Name, value)}
	case set:
		return []Step{toGorun(text+"that value"+refuse, "-x "+d.Name).on(first)}
	}
	return []Step{toGorun(text+"that it is not set"+refuse, "--unset "+d.Name)}
}

// joinLines makes one step of the options that several findings have for gorun.
func joinLines(a, b []Step) []Step {
	for _, s := range b {
		k := slices.IndexFunc(a, func(t Step) bool { return t.Place == ToGorun && s.Place == ToGorun })
		switch {
		case k >= 0:
			a[k].Lines[0] += " " + s.Lines[0]
		default:
			a = append(a, s)
		}
	}
	return a
}

// told reports whether the facts of all these nodes are known.
func (f *Fleet) told(values []Value) bool {
	return !slices.ContainsFunc(values, func(v Value) bool {
		return slices.ContainsFunc(v.Nodes, func(i int) bool { return f.Nodes[i].Format == 0 })
	})
}

// merge adds a disagreement, or joins it with one of the same kind that parts the
// nodes in the same way: what one lost environment changes is one finding.
func merge(all []disagreement, x disagreement) []disagreement {
	for i := range all {
		y := &all[i]
		if y.Severity != x.Severity || y.settled != x.settled || !sameParts(y.Values, x.Values) {
			continue
		}
		for k := range y.Values {
			y.Values[k].Value = clean(y.Values[k].Value+", "+x.Values[k].Value, 1000)
		}
		switch {
		case y.settled:
			y.Text = "Several variables differ that should be the same on every rank, and every rank gets what the first of these nodes has."
			y.Steps = joinLines(y.Steps, x.Steps)
		case y.Severity == Warning:
			y.Text = "Several variables that should be the same on every rank differ."
			y.Steps = joinLines(y.Steps, x.Steps)
		default:
			y.Text = "Several variables that have to be the same on every rank differ; the ranks hang, crash or compute nonsense."
			y.Steps = joinLines(y.Steps, x.Steps)
		}
		return all
	}
	return append(all, x)
}

func sameParts(a, b []Value) bool {
	return slices.EqualFunc(a, b, func(x, y Value) bool { return slices.Equal(x.Nodes, y.Nodes) })
}

// unread reports whether the loaded NCCL is known on some node and older than
// the variable everywhere.
func (f *Fleet) unread(since int) bool {
	known := false
	for _, n := range f.known() {
		code := n.ncclCode()
		if code >= since {
			return false
		}
		known = known || code > 0
	}
	return known
}

// origin tells the conf file that a value is from, "" for the environment.
func (n *Facts) origin(name string) string {
	if s := n.source(name); s != "" && s != ncclenv.Environment {
		return "from " + s
	}
	return ""
}

func checkConf(f *Fleet) []Finding {
	if !f.look().nccl {
		return nil
	}
	var all []Finding
	values := f.differ(func(_ int, n *Facts) string {
		if !n.settled() {
			return ""
		}
		var list []string
		for _, c := range n.ConfFiles {
			if len(c.Names) > 0 {
				list = append(list, c.Path+" ("+short(c.Hash)+")")
			}
		}
		if len(list) == 0 {
			return "no nccl.conf"
		}
		return strings.Join(list, ", ")
	})
	f.describe(values, func(i int) string {
		var names []string
		for _, c := range f.Nodes[i].ConfFiles {
			names = append(names, c.Names...)
		}
		if len(names) == 0 {
			return ""
		}
		return "sets " + strings.Join(names[:min(len(names), 8)], ", ")
	})
	all = append(all, one(values, Finding{Text: "The nodes have different nccl.conf files."})...)
	return append(all, one(odd(f.collect(func(_ int, n *Facts, add func(string)) {
		for _, c := range n.ConfFiles {
			if c.Error != "" {
				add(c.Path + ": " + c.Error)
			}
			for _, fault := range c.Faults {
				add(c.Path + ": " + fault)
			}
		}
	})), Finding{Text: "A conf file is not read as its author meant."})...)
}
