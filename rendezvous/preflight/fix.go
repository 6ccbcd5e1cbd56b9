package preflight

import (
	"cmp"
	"slices"
	"strings"

	"github.com/gorun/gorun/rendezvous/preflight/library"
	"github.com/gorun/gorun/rendezvous/preflight/setting"
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
func (f *Fleet) called(nodes []int) string { return nameList(nodes, f.Names(), len(f.Nodes), true) }

// fixNCCL says how the odd nodes get the version that most nodes have, or, where
// half of them have it, the newer one; "" when that is not known.
func (f *Fleet) fixNCCL(values []Value) string {
	most := majority(values)
	if !most && len(values) > 2 {
		return ""
	}
	good := 0
	if a, b := f.Nodes[values[0].Nodes[0]].ncclCode(), f.Nodes[values[1].Nodes[0]].ncclCode(); !most && a < b {
		good = 1
	}
	nodes := others(values, good)
	model, odd := &f.Nodes[values[good].Nodes[0]], &f.Nodes[nodes[0]]
	from, to := model.Libraries.NCCL.Path, odd.Libraries.NCCL.Path
	wheel := model.wheel()
	text := "install NCCL " + release(model.loaded()) + ", which most nodes load, on " + f.called(nodes)
	if !most {
		text = "install the same NCCL on every node, for instance " + release(model.loaded()) + " on " + f.called(nodes) + ", too"
	}
	switch {
	case wheel != nil && (to == from || strings.Contains(to, "/nvidia/nccl/lib/")):
		pip := "pip"
		if odd.Program.Python != "" {
			pip = quote(odd.Program.Python) + " -m pip"
		}
		return text + ":\n  " + pip + " install --force-reinstall " + quote(wheel.Name+"=="+wheel.Version)
	case !most:
		return ""
	case to == from:
		return text
	}
	return text + ", or take away what leads their workers to " + to
}

// wheel is the package that the node's NCCL is from, nil when it is from none.
func (n *Facts) wheel() *library.Wheel {
	x := n.loaded()
	if x == nil || !strings.Contains(x.Path, "/nvidia/nccl/lib/") {
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

// fixVariable says how the odd nodes get the value that most nodes have, or lose
// the one that only half of them set; "" when neither is known.
func (f *Fleet) fixVariable(name string, values []Value) string {
	good, who := 0, "most nodes"
	if !majority(values) {
		good = slices.IndexFunc(values, func(v Value) bool { _, set := f.Nodes[v.Nodes[0]].setting(name); return !set })
		if len(values) != 2 || good < 0 {
			return ""
		}
		who = f.called(values[good].Nodes)
	}
	value, set := f.Nodes[values[good].Nodes[0]].setting(name)
	odd := others(values, good)
	var lines []string
	for _, v := range f.group(func(i int, n *Facts) string {
		if _, among := slices.BinarySearch(odd, i); !among {
			return ""
		}
		return cmp.Or(n.source(name), setting.Environment)
	}) {
		file, nodes := v.Value, f.called(v.Nodes)
		switch {
		case set && file != setting.Environment:
			lines = append(lines, "write "+name+"="+value+" into "+file+" on "+nodes+", as on "+who)
		case set:
			lines = append(lines, "set it as on "+who+" on "+nodes+", in the environment or in nccl.conf:", "  export "+name+"="+quote(value))
		case file != setting.Environment:
			lines = append(lines, "remove "+name+" from "+file+" on "+nodes+": not set on "+who)
		default:
			lines = append(lines, "take it away from the environment on "+nodes+", as it is not set on "+who+":", "  unset "+name)
		}
		if len(lines) > 8 {
			break
		}
	}
	return strings.Join(lines, "\n")
}

// fixForced says how to take forced values away where no shell unsets them; ""
// when all are from environments.
func (f *Fleet) fixForced(is func(setting.Value) bool) string {
	env := false
	files := f.collect(func(_ int, n *Facts, add func(string)) {
		for _, s := range n.Settings {
			switch {
			case !is(s):
			case s.Source == setting.Environment:
				env = true
			default:
				add(s.Name + " from " + s.Source)
			}
		}
	})
	var lines []string
	for i, v := range files {
		if i == 4 {
			lines = append(lines, "...")
			break
		}
		lines = append(lines, "remove "+v.Value+" on "+f.called(v.Nodes)+" unless you need it")
	}
	if env && len(lines) > 0 {
		lines = append(lines, "unset the others unless you need them")
	}
	return strings.Join(lines, "\n")
}

// quote makes one word of s for a shell.
func quote(s string) string {
	const safe = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:,=@%+"
	if s != "" && strings.Trim(s, safe) == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
