package rules

import (
	"slices"
	"strings"

	"github.com/gorun/gorun/internal/term"

	"github.com/gorun/gorun/envprop/ncclenv"
	"github.com/gorun/gorun/rendezvous/preflight"
)

// agreeRules returns E01 and E05: variables and files that must be the same.
func agreeRules() []preflight.Rule {
	return []preflight.Rule{
		{
			ID: "E01", Name: "env-must-agree", Severity: preflight.Error,
			Meaning: "Variables that must be the same on every rank are the same; unset differs from set. gorun gives every rank the value of the first node, or of `-x`, and warns of the difference; with `--env-conflict=error` it refuses the job. A difference that gorun cannot remove is an error, or a warning if it only costs speed or clarity: a conf file sets what the first node does not set, `-x` gives different nodes different values, or, without a secret, the variable could run code and no node accepts it from another.",
			Symptom: "`message truncated : receiving X bytes instead of Y`, `collective mismatch error`, wrong results, or a hang.",
			Steps:   []preflight.Step{preflight.ToGorun.Step("give every rank one value", "-x NCCL_ALGO=Ring")},
			Check:   checkAgree,
		},
		{
			ID: "E05", Name: "conf-file", Severity: preflight.Warning,
			Meaning: "The nccl.conf files are the same on every node and have no faults: NCCL removes neither blanks nor quotes.",
			Symptom: "A difference between nodes that no environment shows.",
			Steps: []preflight.Step{
				preflight.ByHand.Step("make the file the same on all nodes, or remove it everywhere; write NAME=value without blanks and quotes"),
				preflight.ToShow.Step("what is in it", "cat -A /etc/nccl.conf"),
			},
			Check: checkConf,
		},
	}
}

// usage is how the fleet sets a variable.
type usage struct {
	name  string
	nodes int    // number of nodes that set it
	value string // on the first of these nodes
	same  bool   // all of these nodes have value
}

// maxNames bounds the distinct names of variables that are compared; a node has
// a few dozen.
const maxNames = 4096

// maxDiffering bounds the variables that findings name as different.
const maxDiffering = 64

// usages lists the variables that at least one node sets, by name.
func usages(f *preflight.Fleet) []*usage {
	at := map[string]*usage{}
	for _, n := range f.Known() {
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

// countSettings returns the number of nodes that know their variables.
func countSettings(f *preflight.Fleet) int {
	count := 0
	for _, n := range f.Known() {
		if n.KnowsSettings() {
			count++
		}
	}
	return count
}

func checkAgree(f *preflight.Fleet) []preflight.Finding {
	var all []disagreement
	for i, d := range f.Differences {
		if i == maxDiffering {
			break
		}
		v, _ := ncclenv.Lookup(d.Name)
		if strings.HasPrefix(d.Name, "NCCL_") && (d.Remains && !f.View().NCCL || isUnread(f, v.Since)) {
			continue
		}
		all = mergeDisagreement(all, newDisagreement(f, d))
	}
	var found []preflight.Finding
	for _, x := range all {
		found = append(found, x.Finding)
	}
	return found
}

// disagreement is a finding about a difference.
type disagreement struct {
	preflight.Finding
	resolved bool // every rank gets one value all the same
}

func newDisagreement(f *preflight.Fleet, d preflight.Difference) disagreement {
	x := disagreement{resolved: !d.Remains && !d.Error}
	x.Severity, x.Values = preflight.Warning, slices.Clone(d.Values)
	word := " should be the same on every rank: "
	if d.Error {
		x.Severity, word = preflight.Error, " must be the same on every rank: "
	}
	x.Text = d.Name + word + d.Text + "."
	for i := range x.Values {
		x.Values[i].Odd = i > 0
	}
	first := f.NamesOf(d.Values[0].Nodes[:1])
	switch {
	case d.Remains:
		slices.SortStableFunc(x.Values, func(a, b preflight.Value) int { return len(b.Nodes) - len(a.Nodes) })
		for i := range x.Values {
			x.Values[i].Odd = len(x.Values[i].Nodes) < len(x.Values[0].Nodes)
		}
		switch {
		case d.Targeted:
			x.Steps = []preflight.Step{preflight.ByHand.Step("give " + d.Name + " one value for all nodes, and no node another one (-x NODE:" + d.Name + "=VALUE, role=...)")}
		case hasFacts(f, x.Values):
			x.Steps = oneValueSteps(f, d.Name, x.Values)
		default:
			x.Steps = []preflight.Step{preflight.ByHand.Step("give " + d.Name + " one value on all nodes with -x, or none")}
		}
	case d.Requested:
		x.Text = d.Name + " is requested with different values."
		if x.resolved {
			x.Text = d.Name + " is requested with different values, and every rank gets that of " + first + "."
		}
		x.Steps = []preflight.Step{preflight.ByHand.Step("give -x " + d.Name + "=VALUE on one node only, or the same on all; -x NODE:" + d.Name + "=VALUE is for that node only")}
	default:
		if x.resolved {
			x.Text = d.Name + " differs, and every rank gets what " + first + " has. Otherwise: " + d.Text + "."
		}
		x.Steps = confirmSteps(f, d)
	}
	x.Values = f.Complete(x.Values)
	if d.Remains {
		f.Describe(x.Values, func(i int) string { return confFile(&f.Nodes[i], d.Name) })
	}
	return x
}

// confirmSteps returns the step that gives every rank the first node's value.
// No difference is left after it.
func confirmSteps(f *preflight.Fleet, d preflight.Difference) []preflight.Step {
	const text, refuse = "set the same on every node, or confirm ", " (--env-conflict=error refuses such a job)"
	first := d.Values[0].Nodes[:1]
	value, known := f.Nodes[first[0]].Setting(d.Name)
	switch set := strings.HasPrefix(d.Values[0].Value, d.Name+"="); {
	case set && known:
		return []preflight.Step{preflight.EveryRank(text+"that value"+refuse, d.Name, value)}
	case set:
		return []preflight.Step{preflight.ToGorun.Step(text+"that value"+refuse, "-x "+d.Name).On(first)}
	}
	return []preflight.Step{preflight.ToGorun.Step(text+"that it is unset"+refuse, "--unset "+d.Name)}
}

// joinOptions makes one step of the options for gorun that several findings
// have.
func joinOptions(a, b []preflight.Step) []preflight.Step {
	for _, s := range b {
		k := slices.IndexFunc(a, func(t preflight.Step) bool { return t.Place == preflight.ToGorun && s.Place == preflight.ToGorun })
		switch {
		case k >= 0:
			a[k].Lines[0] += " " + s.Lines[0]
		default:
			a = append(a, s)
		}
	}
	return a
}

// hasFacts reports whether the facts of all these nodes are known.
func hasFacts(f *preflight.Fleet, values []preflight.Value) bool {
	return !slices.ContainsFunc(values, func(v preflight.Value) bool {
		return slices.ContainsFunc(v.Nodes, func(i int) bool { return f.Nodes[i].Format == 0 })
	})
}

// mergeDisagreement adds a disagreement, or joins it with one of the same kind
// between the same groups of nodes. So a node that lost its environment gives
// one finding.
func mergeDisagreement(all []disagreement, x disagreement) []disagreement {
	for i := range all {
		y := &all[i]
		if y.Severity != x.Severity || y.resolved != x.resolved || !sameGroups(y.Values, x.Values) {
			continue
		}
		for k := range y.Values {
			y.Values[k].Value = preflight.Clean(y.Values[k].Value+", "+x.Values[k].Value, 1000)
		}
		switch {
		case y.resolved:
			y.Text = "Several variables differ that should be the same on every rank, and every rank gets what the first of these nodes has."
			y.Steps = joinOptions(y.Steps, x.Steps)
		case y.Severity == preflight.Warning:
			y.Text = "Several variables that should be the same on every rank differ."
			y.Steps = joinOptions(y.Steps, x.Steps)
		default:
			y.Text = "Several variables that must be the same on every rank differ; the ranks hang, crash or give wrong results."
			y.Steps = joinOptions(y.Steps, x.Steps)
		}
		return all
	}
	return append(all, x)
}

func sameGroups(a, b []preflight.Value) bool {
	return slices.EqualFunc(a, b, func(x, y preflight.Value) bool { return slices.Equal(x.Nodes, y.Nodes) })
}

// isUnread reports whether no known NCCL reads the variable: the loaded NCCL is
// known on at least one node, and older than the variable wherever it is known.
func isUnread(f *preflight.Fleet, since int) bool {
	known := false
	for _, n := range f.Known() {
		code := n.NCCLCode()
		if code >= since {
			return false
		}
		known = known || code > 0
	}
	return known
}

// confFile names the conf file that sets a value, "" for the environment.
func confFile(n *preflight.Facts, name string) string {
	if s := n.SettingSource(name); s != "" && s != ncclenv.Environment {
		return "from " + s
	}
	return ""
}

func checkConf(f *preflight.Fleet) []preflight.Finding {
	if !f.View().NCCL {
		return nil
	}
	var all []preflight.Finding
	values := f.Differing(func(_ int, n *preflight.Facts) string {
		if !n.KnowsSettings() {
			return ""
		}
		var list []string
		for _, c := range n.ConfFiles {
			if len(c.Names) > 0 {
				list = append(list, c.Path+" ("+shortHash(c.Hash)+")")
			}
		}
		if len(list) == 0 {
			return "no nccl.conf"
		}
		return strings.Join(list, ", ")
	})
	f.Describe(values, func(i int) string {
		var names []string
		for _, c := range f.Nodes[i].ConfFiles {
			names = append(names, c.Names...)
		}
		if len(names) == 0 {
			return ""
		}
		return "sets " + strings.Join(names[:min(len(names), 8)], ", ")
	})
	all = append(all, preflight.IfAny(values, preflight.Finding{Text: "The nodes have different nccl.conf files."})...)
	return append(all, preflight.IfAny(preflight.AllOdd(f.Collect(func(_ int, n *preflight.Facts, add func(string)) {
		for _, c := range n.ConfFiles {
			if c.Error != "" {
				add(c.Path + ": " + c.Error)
			}
			for _, fault := range c.Faults {
				add(c.Path + ": " + fault)
			}
		}
	})), preflight.Finding{Text: "A conf file has lines that NCCL does not read as they look."})...)
}

// unreadRules returns E04: names that have no effect.
func unreadRules() []preflight.Rule {
	return []preflight.Rule{{
		ID: "E04", Name: "env-unknown", Severity: preflight.Warning,
		Meaning: "Variables of NCCL, torch and Gloo have names that something reads.",
		Symptom: "Nothing: a name that no library reads has no effect and no message.",
		Steps:   []preflight.Step{preflight.ToGorun.Step("unset it, or write its name correctly", "--unset NCCL_SOCKET_IFNAMES")},
		Check:   checkNames,
	}}
}

func checkNames(f *preflight.Fleet) []preflight.Finding {
	v := f.View()
	if !v.NCCL && !v.Gloo {
		return nil
	}
	texts := map[string]string{}
	newest := 0
	for _, n := range f.Known() {
		newest = max(newest, n.NCCLCode())
	}
	for _, u := range usages(f) {
		ofNCCL := strings.HasPrefix(u.name, "NCCL_")
		if ofNCCL && (!v.NCCL || newest > ncclenv.Newest) || len(texts) == preflight.MaxValues {
			continue
		}
		near, unknown := ncclenv.Misspelt(u.name)
		known, listed := ncclenv.Lookup(u.name)
		switch {
		case unknown && near != "":
			texts[u.name] = u.name + ": nothing reads it; did you mean " + near + "?"
		case unknown:
			texts[u.name] = u.name + ": nothing reads it"
		case listed && known.Scope == ncclenv.Obsolete:
			texts[u.name] = u.name + ": " + known.Text
		}
	}
	return preflight.WithSteps(preflight.IfAny(preflight.AllOdd(f.Collect(func(_ int, n *preflight.Facts, add func(string)) {
		for _, s := range n.Settings {
			add(texts[s.Name])
		}
	})), preflight.Finding{Text: "Variables are set that have no effect."}), func() []preflight.Step {
		return unsetVariables(f, "unset them, or write their names correctly", func(s ncclenv.Value) bool { return texts[s.Name] != "" })
	})
}

// namedFileRules returns E06: whether the files that variables name exist.
func namedFileRules() []preflight.Rule {
	return []preflight.Rule{{
		ID: "E06", Name: "env-files", Severity: preflight.Warning,
		Meaning: "The files that NCCL_TOPO_FILE, NCCL_GRAPH_FILE, NCCL_TUNER_CONFIG_FILE and, by their paths, NCCL_PROFILER_PLUGIN, NCCL_ENV_PLUGIN and NCCL_GIN_PLUGIN name exist on every node and can be read; the graph's, and a plugin that must be on all nodes, is an error. N02 checks NCCL's net and tuner plugins, E05 its conf files.",
		Symptom: "`Could not open XML graph file`; otherwise nothing: NCCL runs without the file there, and with it on the other nodes.",
		Steps:   []preflight.Step{preflight.ByHand.Step("put the file on the marked nodes, where the job's user may read it")},
		Check:   checkNamedFiles,
	}}
}

func checkNamedFiles(f *preflight.Fleet) []preflight.Finding {
	if !f.View().NCCL {
		return nil
	}
	return bySeverity(f, func(_ int, n *preflight.Facts, add func(preflight.Severity, string)) {
		for _, file := range n.Files {
			if n.GPU.Driver && file.Error != "" && n.Env(file.Name) == file.Path {
				required := slices.Contains([]string{"NCCL_GRAPH_FILE", "NCCL_ENV_PLUGIN", "NCCL_GIN_PLUGIN"}, file.Name)
				add(errorIf(required), file.Name+"="+file.Path+": "+file.Error)
			}
		}
	}, func(s preflight.Severity, _ []int) preflight.Finding {
		if s == preflight.Error {
			return preflight.Finding{Text: "A variable names a file that does not exist or cannot be read: NCCL fails, or its ranks differ."}
		}
		return preflight.Finding{Text: "A variable names a file that does not exist or cannot be read: NCCL runs without it there, and with it on the other nodes."}
	})
}

// oneValueSteps returns the step that gives every rank one value of a variable.
// It takes the value that most nodes have, no value if at least half of the
// nodes set none, or else the first node's value.
func oneValueSteps(f *preflight.Fleet, name string, values []preflight.Value) []preflight.Step {
	good := 0
	if !preflight.HasMajority(values) {
		good = slices.IndexFunc(values, func(v preflight.Value) bool { _, set := f.Nodes[v.Nodes[0]].Setting(name); return !set })
		if len(values) != 2 || good < 0 {
			good = slices.IndexFunc(values, func(v preflight.Value) bool { return v.Nodes[0] == 0 })
		}
	}
	if value, set := f.Nodes[values[max(good, 0)].Nodes[0]].Setting(name); set {
		return []preflight.Step{preflight.EveryRank("give every rank one value", name, value)}
	}
	return unsetVariables(f, "unset it", func(s ncclenv.Value) bool { return s.Name == name })
}

// unsetVariables returns the steps that remove settings from all nodes that
// have them.
func unsetVariables(f *preflight.Fleet, text string, is func(ncclenv.Value) bool) []preflight.Step {
	var names []string
	for _, n := range f.Known() {
		for _, s := range n.Settings {
			if is(s) && s.Source == ncclenv.Environment && term.Command(s.Name) == s.Name && !slices.Contains(names, s.Name) && len(names) < maxDiffering {
				names = append(names, s.Name)
			}
		}
	}
	slices.Sort(names)
	var steps []preflight.Step
	if len(names) > 0 {
		step := preflight.ToGorun.Step(text, "--unset "+strings.Join(names, " --unset "))
		if slices.ContainsFunc(names, ncclenv.RunsCode) { // as in preflight.EveryRank
			step = step.Everywhere()
		}
		steps = append(steps, step)
		text = ""
	}
	return append(steps, f.StepsFor(f.AllNodes(), preflight.AsRoot, text, func(_ int, n *preflight.Facts) []string {
		var lines []string
		for _, s := range n.Settings {
			if n.Format != 0 && is(s) && s.Source != ncclenv.Environment && strings.HasPrefix(s.Source, "/") && !strings.ContainsAny(term.Command(s.Name), "'/") {
				lines = append(lines, "sed -i "+term.Command("/^"+s.Name+"=/d")+" "+term.Command(s.Source))
			}
		}
		return lines
	})...)
}
