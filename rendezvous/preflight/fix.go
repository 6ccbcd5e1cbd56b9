package preflight

import (
	"cmp"
	"slices"
	"strings"

	"github.com/gorun/gorun/envprop/ncclenv"
	"github.com/gorun/gorun/rendezvous/preflight/library"
)

// majority reports whether the others should be made equal to the first group:
// it is larger than every other one.
func majority(values []Value) bool { return len(values) > 1 && values[1].Odd }

// others are the nodes that are not in the k-th group, ascending.
func others(values []Value, k int) []int {
	var nodes []int
	for i, v := range values {
		if i != k {
			nodes = append(nodes, v.Nodes...)
		}
	}
	slices.Sort(nodes)
	return nodes
}

// called names odd nodes.
func (f *Fleet) called(nodes []int) string {
	if len(nodes) == 0 {
		return ""
	}
	return nameList(nodes, f.Names(), len(f.Nodes), true)
}

// maxSteps bounds the steps that differ from node to node only.
const maxSteps = 8

// each makes a step for those of the nodes that need the same lines; none for a
// node without lines.
func (f *Fleet) each(nodes []int, step func(text string, lines ...string) Step, text string, lines func(i int, n *Facts) []string) []Step {
	const newline = "\n"
	at := map[string]int{}
	var steps []Step
	for _, i := range nodes {
		list := lines(i, &f.Nodes[i])
		key := strings.Join(list, newline)
		k, ok := at[key]
		switch {
		case len(list) == 0:
		case ok:
			steps[k].Nodes = append(steps[k].Nodes, i)
		case len(steps) == maxSteps:
			return append(steps, byHand("do the same on the other marked nodes, with their own values"))
		default:
			at[key] = len(steps)
			steps = append(steps, step(text, list...).on([]int{i}))
			text = ""
		}
	}
	return steps
}

// or joins two ways.
func or(steps []Step, more ...Step) []Step {
	if len(steps) > 0 && len(more) > 0 {
		more[0].Or = true
	}
	return append(steps, more...)
}

// installNCCL says how all nodes get one version: the one that most nodes have,
// or else the newest; nil when no package is known that brings it.
func (f *Fleet) installNCCL(values []Value) []Step {
	good := 0
	if !majority(values) {
		for k, v := range values {
			if f.Nodes[v.Nodes[0]].ncclCode() > f.Nodes[values[good].Nodes[0]].ncclCode() {
				good = k
			}
		}
	}
	model := &f.Nodes[values[good].Nodes[0]]
	from := model.Libraries.NCCL.Path
	text := "install NCCL " + release(model.loaded()) + ", as " + f.called(values[good].Nodes) + " has it"
	if majority(values) {
		text = "install NCCL " + release(model.loaded()) + ", which most nodes load"
	}
	var elsewhere []int
	path := ""
	steps := f.each(others(values, good), inShell, text, func(i int, n *Facts) []string {
		wheel, to := model.wheel(), n.Libraries.NCCL.Path
		if wheel == nil || to != from && !strings.Contains(to, wheelFolder) {
			elsewhere, path = append(elsewhere, i), to
			return nil
		}
		return n.install(siteOf(to), wheel.Name, wheel.Version)
	})
	switch {
	case len(elsewhere) == 0:
		return steps
	case path == from:
		return append(steps, byHand(text+", on "+f.called(elsewhere)+": the package that owns "+path))
	}
	return append(steps, byHand("take "+path+" out of the way of the workers of "+f.called(elsewhere)+" (LD_LIBRARY_PATH, LD_PRELOAD), or "+text+", there"))
}

// wheelFolder is where the wheels of NCCL keep it, below a site directory.
const wheelFolder = "/nvidia/nccl/lib/"

func siteOf(path string) string {
	site, _, _ := strings.Cut(path, wheelFolder)
	return site
}

// pip is how the node's workers' Python installs packages. Debian's own refuses
// to, unless it is told; an older pip passes over the variable.
func (n *Facts) pip() string {
	python := cmp.Or(n.Program.Python, "python3")
	command := quote(python) + " -m pip"
	if strings.HasPrefix(python, "/usr/bin/") {
		command = "PIP_BREAK_SYSTEM_PACKAGES=1 " + command
	}
	return command
}

// install is the lines that put a wheel of NCCL into a site directory, alone: the
// wheels of several CUDAs own the same file, so the others are uninstalled first.
// pip's own place is not where the workers look first when PYTHONPATH names the
// directory.
func (n *Facts) install(site, name, version string) []string {
	wheel := quote(name + "==" + version)
	if n.foreign(site) {
		return []string{
			"rm -rf " + quote(site+"/nvidia/nccl") + " " + quote(site) + "/nvidia_nccl_cu*.dist-info",
			`d=$(mktemp -d) && ` + n.pip() + ` install --no-deps --target="$d" ` + wheel + ` && cp -r "$d"/. ` + quote(site),
		}
	}
	var others []string
	for _, w := range n.Libraries.Wheels {
		if w.Site == site && w.Name != name {
			others = append(others, quote(w.Name))
		}
	}
	again := n.pip() + " install --force-reinstall --no-deps " + wheel
	if others == nil {
		return []string{again}
	}
	return []string{n.pip() + " uninstall -y " + strings.Join(others, " "), again}
}

// foreign reports whether pip installs elsewhere: PYTHONPATH names the directory,
// or it is another Python's.
func (n *Facts) foreign(site string) bool {
	x := n.Libraries.NCCL
	return n.byPath(site) || x != nil && strings.Contains(x.Path, wheelFolder) && siteOf(x.Path) != site
}

// byPath reports whether PYTHONPATH names the directory.
func (n *Facts) byPath(site string) bool {
	return slices.ContainsFunc(strings.Split(n.env("PYTHONPATH"), ":"), func(dir string) bool {
		return dir != "" && strings.TrimRight(dir, "/") == strings.TrimRight(site, "/")
	})
}

// wheel is the package that the node's NCCL is from, nil when it is from none.
func (n *Facts) wheel() *library.Wheel {
	x := n.loaded()
	if x == nil || !strings.Contains(x.Path, wheelFolder) {
		return nil
	}
	var same []*library.Wheel // of its version: a link may hide the site
	for i := range n.Libraries.Wheels {
		w := &n.Libraries.Wheels[i]
		if w.Version != release(x) && w.Version != x.Version {
			continue
		}
		if strings.HasPrefix(x.Path, w.Site+"/") {
			return w
		}
		same = append(same, w)
	}
	if len(same) == 1 {
		return same[0]
	}
	return nil
}

// oneValue says how every rank gets one value of a variable that the nodes have
// differently: the one that most nodes have, or none where most or half of them
// set none, or else what the first node has.
func (f *Fleet) oneValue(name string, values []Value) []Step {
	good := 0
	if !majority(values) {
		good = slices.IndexFunc(values, func(v Value) bool { _, set := f.Nodes[v.Nodes[0]].setting(name); return !set })
		if len(values) != 2 || good < 0 {
			good = slices.IndexFunc(values, func(v Value) bool { return v.Nodes[0] == 0 })
		}
	}
	if value, set := f.Nodes[values[max(good, 0)].Nodes[0]].setting(name); set {
		return []Step{everyRank("give every rank one value", name, value)}
	}
	return f.takeAway("take it away", func(s ncclenv.Value) bool { return s.Name == name })
}

// everyRank gives all ranks of the job one value.
func everyRank(text, name, value string) Step {
	if strings.Contains(value, ncclenv.Hidden) { // the node's own, which is not shown
		return toGorun(text+", on the node that has it", "-x "+name)
	}
	step := toGorun(text, "-x "+quote(name+"="+value))
	if ncclenv.RunsCodeWith(name, value) { // without a secret, no node takes it from another one
		step = step.everywhere()
	}
	return step
}

// takeAway says how settings go from all nodes that have them.
func (f *Fleet) takeAway(text string, is func(ncclenv.Value) bool) []Step {
	var names []string
	for _, n := range f.known() {
		for _, s := range n.Settings {
			if is(s) && s.Source == ncclenv.Environment && quote(s.Name) == s.Name && !slices.Contains(names, s.Name) && len(names) < maxDiffering {
				names = append(names, s.Name)
			}
		}
	}
	slices.Sort(names)
	var steps []Step
	if len(names) > 0 {
		step := toGorun(text, "--unset "+strings.Join(names, " --unset "))
		if slices.ContainsFunc(names, ncclenv.RunsCode) { // as in everyRank
			step = step.everywhere()
		}
		steps = append(steps, step)
		text = ""
	}
	return append(steps, f.each(indices(len(f.Nodes)), asRoot, text, func(_ int, n *Facts) []string {
		var lines []string
		for _, s := range n.Settings {
			if n.Format != 0 && is(s) && s.Source != ncclenv.Environment && strings.HasPrefix(s.Source, "/") && !strings.ContainsAny(quote(s.Name), "'/") {
				lines = append(lines, "sed -i "+quote("/^"+s.Name+"=/d")+" "+quote(s.Source))
			}
		}
		return lines
	})...)
}

// quote makes one word of s for a shell.
func quote(s string) string {
	const safe = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:,=@%+"
	if s != "" && strings.Trim(s, safe) == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
