package preflight

import (
	"fmt"
	"slices"
	"strings"
)

// shownModules bounds the files of one kind that a value names.
const shownModules = 4

// modules says of each node how its modules differ from those that most nodes of
// its role have; of two that equally many have, those of the lower group rank.
func (f *Fleet) modules() []Value {
	type version struct {
		node  *Facts
		nodes int
	}
	versions, digests := map[string]map[string]*version{}, make([]string, len(f.Nodes)) // by role and digest
	best := map[string]*version{}
	for i, n := range f.known() {
		if n.Program.Python == "" || n.Program.Title == "" || !n.knows("modules") {
			continue
		}
		d, role := n.digest(), n.Node.Role
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
	return f.faults(func(i int, n *Facts) string {
		most := best[n.Node.Role]
		if digests[i] == "" || versions[n.Node.Role][digests[i]] == most {
			return ""
		}
		return deviation(most.node.Program, n.Program)
	})
}

// digest is the same for the same modules, and never empty.
func (n *Facts) digest() string {
	var b strings.Builder
	for _, m := range n.Program.Modules {
		b.WriteString(m.Path + "\x00" + m.Hash + "\n")
	}
	fmt.Fprint(&b, n.Program.More)
	return b.String()
}

// deviation names the files in which a node's modules differ from others. Of lists
// that were cut, only files of both are compared.
func deviation(most, own Program) string {
	var other, lacks, has []string
	hashes := map[string]string{}
	for _, m := range most.Modules {
		hashes[m.Path] = m.Hash
	}
	for _, m := range own.Modules {
		hash, ok := hashes[m.Path]
		switch {
		case !ok && !most.More:
			has = append(has, m.Path)
		case ok && hash != m.Hash:
			other = append(other, m.Path)
		}
		delete(hashes, m.Path)
	}
	for _, m := range most.Modules {
		if _, left := hashes[m.Path]; left && !own.More {
			lacks = append(lacks, m.Path)
		}
	}
	var parts []string
	for _, p := range []struct {
		word  string
		paths []string
	}{{"differs: ", other}, {"is missing: ", lacks}, {"is only here: ", has}} {
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
