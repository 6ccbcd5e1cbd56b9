package preflight

import (
	"path"
	"slices"
	"strings"
)

// programRules is R03: whether all nodes run the same program.
func programRules() []Rule {
	return []Rule{{
		ID: "R03", Name: "script-same", Severity: Error,
		Meaning: "The program that the user named (of each role) and torch are the same on every node; other arguments, another Python and other modules are a warning: Python files in the folder of the script (for -m, in the working directory) and up to 3 folders below, where their names can be imported, without virtual environments, up to 256 files in 64 folders of up to 512 entries, by their sizes and first 64 KiB. System programs may differ.",
		Users:   "The ranks run different code: a hang, or `shape mismatch`.",
		Steps:   []Step{byHand("copy the program to all nodes anew, or start it from a shared file system")},
		Check:   checkProgram,
	}}
}

func checkProgram(f *Fleet) []Finding {
	values := f.differInRole(func(n *Facts) string {
		if n.Program.Hash == "" || system(n.Program) {
			return ""
		}
		return "SHA-256 " + short(n.Program.Hash)
	})
	f.describe(values, func(i int) string { return f.Nodes[i].Program.file() })
	all := one(values, Finding{Text: "The nodes would run different programs."})

	values = f.differ(func(_ int, n *Facts) string { return n.Libraries.Torch })
	all = append(all, one(values, Finding{
		Text:  "The nodes have different versions of torch.",
		Steps: f.installTorch(values),
	})...)

	values = f.differInRole(func(n *Facts) string {
		if n.Program.Title == "" || len(n.Program.Args) == 0 {
			return ""
		}
		return strings.Join(n.Program.Args, " ")
	})
	all = append(all, one(values, Finding{
		Severity: Warning,
		Text:     "The nodes give the program different arguments.",
		Steps:    []Step{byHand("start the same command on every node, unless the difference is meant")},
	})...)

	all = append(all, one(f.modules(), Finding{
		Severity: Warning,
		Text:     "Python files beside the script differ between the nodes: ranks that import them run different code.",
		Steps:    []Step{byHand("copy the folder of the program to all nodes anew, or start it from a shared file system")},
	})...)

	return append(all, one(f.differ(func(_ int, n *Facts) string {
		if n.Libraries.Torch == "" {
			return ""
		}
		return n.Libraries.Python
	}), Finding{
		Severity: Warning,
		Text:     "The nodes run different releases of Python; what one rank pickles another may not read.",
		Steps:    []Step{byHand("use the same Python on every node; PYTHON_EXEC names another one")},
	})...)
}

// installTorch has all nodes install the release that most nodes have, or else the
// first node's. One of PyTorch's own index names the CUDA that it is for.
func (f *Fleet) installTorch(values []Value) []Step {
	if values == nil {
		return nil
	}
	good := 0
	if !majority(values) {
		good = slices.IndexFunc(values, func(v Value) bool { return v.Nodes[0] == 0 })
	}
	good = max(good, 0)
	version := f.Nodes[values[good].Nodes[0]].Libraries.Torch
	index := ""
	if _, build, ok := strings.Cut(version, "+"); ok {
		index = " --index-url https://download.pytorch.org/whl/" + quote(build)
	}
	return f.each(others(values, good), inShell, "install torch "+version, func(_ int, n *Facts) []string {
		return []string{n.pip() + " install " + quote("torch=="+version) + index}
	})
}

// differInRole is differ among the nodes of each role: a trainer and an
// evaluator may run different programs.
func (f *Fleet) differInRole(key func(n *Facts) string) []Value {
	first, differs := map[string]string{}, map[string]bool{}
	for _, n := range f.known() {
		k := key(n)
		if other, ok := first[n.Node.Role]; !ok && k != "" {
			first[n.Node.Role] = k
		} else if ok && k != "" && k != other {
			differs[n.Node.Role] = true
		}
	}
	return f.differ(func(_ int, n *Facts) string {
		if !differs[n.Node.Role] {
			return ""
		}
		return key(n)
	})
}

// file is what the user named.
func (p Program) file() string {
	for _, s := range []string{p.Script, p.Path, p.Title} {
		if s != "" {
			return s
		}
	}
	return ""
}

// system reports whether the program came with the machine: two releases of a
// distribution have different ones.
func system(p Program) bool {
	dir := path.Dir(p.file()) + "/"
	for _, prefix := range []string{"/bin/", "/sbin/", "/usr/bin/", "/usr/sbin/", "/usr/lib/", "/lib/"} {
		if strings.HasPrefix(dir, prefix) {
			return true
		}
	}
	return false
}

// short is as much of a hash as a person compares.
func short(hash string) string { return hash[:min(len(hash), 12)] }
