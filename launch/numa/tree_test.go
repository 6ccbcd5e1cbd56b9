package numa

import (
	"fmt"
	"testing/fstest"
)

// tree describes a machine for which a /sys is written.
type tree struct {
	nodes   int // NUMA nodes; 0: a kernel without NUMA
	sockets int // the nodes are divided among them
	cores   int // of a node
	smt     int // threads of a core; CPU numbers go round the cores first, as Linux on x86 counts
	perL3   int // cores that share an L3 cache; 0: /sys shows no caches
	offline Set
	gpus    map[string]string // PCI address: numa_node
}

const firstEmptyNode = 1000 // nodes without CPUs have numbers from here on

func (m tree) fs() fstest.MapFS {
	f := fstest.MapFS{}
	put := func(text, format string, args ...any) {
		f[fmt.Sprintf(format, args...)] = &fstest.MapFile{Data: []byte(text + "\n")}
	}
	all := max(m.nodes, 1) * m.cores
	var online Set
	ofNode := make([]Set, max(m.nodes, 1))
	threads := func(first, n int) (s Set) { // of the cores from first on
		for t := range m.smt {
			for c := range n {
				if cpu := t*all + first + c; !m.offline.Has(cpu) {
					s = append(s, cpu)
				}
			}
		}
		return s
	}
	for cpu := range all * m.smt {
		if m.offline.Has(cpu) {
			continue
		}
		core := cpu % all
		node := core / m.cores
		dir := fmt.Sprintf("%s/cpu%d", cpuDir, cpu)
		online, ofNode[node] = append(online, cpu), append(ofNode[node], cpu)
		put(threads(core, 1).String(), "%s/topology/thread_siblings_list", dir)
		put(fmt.Sprint(node*m.sockets/max(m.nodes, 1)), "%s/topology/physical_package_id", dir)
		if m.perL3 == 0 {
			continue
		}
		for i, c := range []struct {
			level, kind string
			shared      Set
		}{
			{"1", "Data", threads(core, 1)},
			{"1", "Instruction", threads(core, 1)},
			{"2", "Unified", threads(core, 1)},
			{"3", "Unified", threads(core/m.perL3*m.perL3, m.perL3)},
		} {
			put(c.level, "%s/cache/index%d/level", dir, i)
			put(c.kind, "%s/cache/index%d/type", dir, i)
			put(c.shared.String(), "%s/cache/index%d/shared_cpu_list", dir, i)
		}
		put("1", "%s/cache/uevent", dir)
	}
	put(online.String(), "%s/online", cpuDir)
	if m.nodes > 0 {
		for n, cpus := range ofNode {
			put(cpus.String(), "%s/node%d/cpulist", nodeDir, n)
		}
		put("", "%s/node%d/cpulist", nodeDir, firstEmptyNode) // memory behind CXL
		put(fmt.Sprintf("0-%d,%d", m.nodes-1, firstEmptyNode), "%s/online", nodeDir)
		put(fmt.Sprintf("0-%d,%d", m.nodes-1, firstEmptyNode), "%s/has_memory", nodeDir)
	}
	for pci, node := range m.gpus {
		put(node, "%s/%s/numa_node", pciDir, pci)
	}
	return f
}

// gpu returns the PCI address of a GPU of the trees.
func gpu(i int) string { return fmt.Sprintf("0000:%02x:00.0", i+16) }

// on assigns GPUs to nodes: the first to nodes[0], ...
func on(nodes ...int) map[string]string {
	gpus := map[string]string{}
	for i, n := range nodes {
		gpus[gpu(i)] = fmt.Sprint(n)
	}
	return gpus
}
