package rules

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/gorun/gorun/internal/term"

	"github.com/gorun/gorun/rendezvous/preflight"
)

// programRules returns R03: whether all nodes run the same program.
func programRules() []preflight.Rule {
	return []preflight.Rule{{
		ID: "R03", Name: "script-same", Severity: preflight.Error,
		Meaning: "The program that the user named (of each role) and torch are the same on every node; other arguments, another Python and other modules are a warning. Modules are Python files in the folder of the script (for -m, in the working directory) and up to 3 folders below, where their names can be imported, without virtual environments: up to 256 files in 64 folders of up to 512 entries, compared by their sizes and first 64 KiB. System programs may differ.",
		Symptom: "The ranks run different code: a hang, or `shape mismatch`.",
		Steps:   []preflight.Step{preflight.ByHand.Step("copy the program to all nodes again, or start it from a shared file system")},
		Check:   checkProgram,
	}}
}

func checkProgram(f *preflight.Fleet) []preflight.Finding {
	values := differInRole(f, func(n *preflight.Facts) string {
		if n.Program.Hash == "" || isSystemProgram(n.Program) {
			return ""
		}
		return "SHA-256 " + shortHash(n.Program.Hash)
	})
	f.Describe(values, func(i int) string { return programFile(f.Nodes[i].Program) })
	all := preflight.IfAny(values, preflight.Finding{Text: "The nodes would run different programs."})

	values = f.Differing(func(_ int, n *preflight.Facts) string { return n.Libraries.Torch })
	all = append(all, preflight.IfAny(values, preflight.Finding{
		Text:  "The nodes have different versions of torch.",
		Steps: installTorch(f, values),
	})...)

	values = differInRole(f, func(n *preflight.Facts) string {
		if n.Program.Title == "" || len(n.Program.Args) == 0 {
			return ""
		}
		return strings.Join(n.Program.Args, " ")
	})
	all = append(all, preflight.IfAny(values, preflight.Finding{
		Severity: preflight.Warning,
		Text:     "The nodes give the program different arguments.",
		Steps:    []preflight.Step{preflight.ByHand.Step("start the same command on every node, unless the difference is intended")},
	})...)

	all = append(all, preflight.IfAny(differingModules(f), preflight.Finding{
		Severity: preflight.Warning,
		Text:     "Python files beside the script differ between the nodes: ranks that import them run different code.",
		Steps:    []preflight.Step{preflight.ByHand.Step("copy the folder of the program to all nodes again, or start it from a shared file system")},
	})...)

	return append(all, preflight.IfAny(f.Differing(func(_ int, n *preflight.Facts) string {
		if n.Libraries.Torch == "" {
			return ""
		}
		return n.Libraries.Python
	}), preflight.Finding{
		Severity: preflight.Warning,
		Text:     "The nodes run different releases of Python; a rank may not read what another one pickles.",
		Steps:    []preflight.Step{preflight.ByHand.Step("use the same Python on every node; PYTHON_EXEC names it")},
	})...)
}

// installTorch returns the steps that install one release on all nodes: the
// release that most nodes have, or else the first node's. A release of
// PyTorch's own index names the CUDA that it is for.
func installTorch(f *preflight.Fleet, values []preflight.Value) []preflight.Step {
	if values == nil {
		return nil
	}
	good := 0
	if !preflight.HasMajority(values) {
		good = slices.IndexFunc(values, func(v preflight.Value) bool { return v.Nodes[0] == 0 })
	}
	good = max(good, 0)
	version := f.Nodes[values[good].Nodes[0]].Libraries.Torch
	index := ""
	if _, build, ok := strings.Cut(version, "+"); ok {
		index = " --index-url https://download.pytorch.org/whl/" + term.Command(build)
	}
	return f.StepsFor(preflight.NodesOutside(values, good), preflight.InShell, "install torch "+version, func(_ int, n *preflight.Facts) []string {
		return []string{pipCommand(n) + " install " + term.Command("torch=="+version) + index}
	})
}

// differInRole groups the nodes of the roles whose nodes have different keys. A
// trainer and an evaluator may run different programs.
func differInRole(f *preflight.Fleet, key func(n *preflight.Facts) string) []preflight.Value {
	first, differs := map[string]string{}, map[string]bool{}
	for _, n := range f.Known() {
		k := key(n)
		if other, ok := first[n.Node.Role]; !ok && k != "" {
			first[n.Node.Role] = k
		} else if ok && k != "" && k != other {
			differs[n.Node.Role] = true
		}
	}
	return f.Differing(func(_ int, n *preflight.Facts) string {
		if !differs[n.Node.Role] {
			return ""
		}
		return key(n)
	})
}

// programFile returns the program as the user named it.
func programFile(p preflight.Program) string {
	return cmp.Or(p.Script, p.Path, p.Title)
}

// isSystemProgram reports whether the program came with the machine. Two
// releases of a distribution have different programs.
func isSystemProgram(p preflight.Program) bool {
	dir := path.Dir(programFile(p)) + "/"
	return slices.ContainsFunc([]string{"/bin/", "/sbin/", "/usr/bin/", "/usr/sbin/", "/usr/lib/", "/lib/"}, func(prefix string) bool { return strings.HasPrefix(dir, prefix) })
}

// shortHash returns the part of a hash that a person compares.
func shortHash(hash string) string { return hash[:min(len(hash), 12)] }

// shownModules bounds the files of one kind that a value names.
const shownModules = 4

// differingModules says for each node how its modules differ from the modules
// that most nodes of its role have. If equally many nodes have two versions,
// the version of the lower group rank counts.
func differingModules(f *preflight.Fleet) []preflight.Value {
	type version struct {
		node  *preflight.Facts
		nodes int
	}
	versions, digests := map[string]map[string]*version{}, make([]string, len(f.Nodes)) // by role and digest
	best := map[string]*version{}
	for i, n := range f.Known() {
		if n.Program.Python == "" || n.Program.Title == "" || !n.Knows("modules") {
			continue
		}
		d, role := moduleDigest(n), n.Node.Role
		if versions[role] == nil {
			versions[role] = map[string]*version{}
		}
		v := versions[role][d]
		if v == nil {
			v = &version{node: n}
			versions[role][d] = v
		}
		v.nodes++
		digests[i] = d
		if best[role] == nil || v.nodes > best[role].nodes {
			best[role] = v
		}
	}
	return f.Faults(func(i int, n *preflight.Facts) string {
		most := best[n.Node.Role]
		if digests[i] == "" || versions[n.Node.Role][digests[i]] == most {
			return ""
		}
		return compareModules(most.node.Program, n.Program)
	})
}

// moduleDigest returns a text that is the same for the same modules, and never
// empty.
func moduleDigest(n *preflight.Facts) string {
	var b strings.Builder
	for _, m := range n.Program.Modules {
		b.WriteString(m.Path + "\x00" + m.Hash + "\n")
	}
	fmt.Fprint(&b, n.Program.More)
	return b.String()
}

// compareModules names the files in which a node's modules differ from others.
// If a list was cut, it compares only the files that both lists have.
func compareModules(most, node preflight.Program) string {
	var different, missing, additional []string
	hashes := map[string]string{}
	for _, m := range most.Modules {
		hashes[m.Path] = m.Hash
	}
	for _, m := range node.Modules {
		hash, ok := hashes[m.Path]
		switch {
		case !ok && !most.More:
			additional = append(additional, m.Path)
		case ok && hash != m.Hash:
			different = append(different, m.Path)
		}
		delete(hashes, m.Path)
	}
	for _, m := range most.Modules {
		if _, left := hashes[m.Path]; left && !node.More {
			missing = append(missing, m.Path)
		}
	}
	var parts []string
	for _, p := range []struct {
		word  string
		paths []string
	}{{"differs: ", different}, {"is missing: ", missing}, {"is only here: ", additional}} {
		if len(p.paths) == 0 {
			continue
		}
		slices.Sort(p.paths)
		text := p.word + strings.Join(p.paths[:min(len(p.paths), shownModules)], ", ")
		if more := len(p.paths) - shownModules; more > 0 {
			text += fmt.Sprintf(" and %d more", more)
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, "; ")
}
