package numa

import (
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Topology says how a machine's CPUs, memory and GPUs lie to each other. It has
// only CPUs that are online.
type Topology struct {
	Nodes     []Node // those that have CPUs, ascending
	Cores     []Set  // the CPUs (hardware threads) of each physical core, in the order of their first CPUs
	Complexes []Set  // the CPUs that share a last-level cache, in the order of their first CPUs; none where the machine does not say
	Memory    Set    // the nodes that have memory
	// GPUs has the node of each GPU by its PCI address, Unknown where the
	// machine does not say.
	GPUs map[string]int
}

// Node is one NUMA node.
type Node struct {
	ID      int
	CPUs    Set
	Package int // the socket, as the kernel numbers it
}

// Unknown stands for a NUMA node or a socket that is not known.
const Unknown = -1

const (
	cpuDir  = "sys/devices/system/cpu"
	nodeDir = "sys/devices/system/node"
	pciDir  = "sys/bus/pci/devices"
)

// maxFile bounds what is read of one file of /sys, in bytes.
const maxFile = 64 << 10

// Read reads /sys below root. gpus are PCI addresses as in
// /sys/bus/pci/devices; an empty address is ignored. A kernel without NUMA has
// one node, 0.
func Read(root fs.FS, gpus []string) (Topology, error) {
	t := Topology{GPUs: map[string]int{}}
	online, err := readSet(root, cpuDir+"/online")
	if err != nil {
		return t, fmt.Errorf("cannot learn which CPUs there are: %w", err)
	}
	if err := t.readNodes(root, online); err != nil {
		return t, err
	}
	t.Cores = Cores(root, online)
	t.Complexes = groupBy(online, func(cpu int) Set { return lastCache(root, cpu) })
	for _, pci := range gpus {
		if pci != "" {
			t.GPUs[pci] = t.nodeOf(root, pci)
		}
	}
	return t, nil
}

func (t *Topology) readNodes(root fs.FS, online Set) error {
	nodes, err := readSet(root, nodeDir+"/online")
	if err != nil {
		t.Nodes = []Node{{ID: 0, CPUs: online}}
		return nil
	}
	for _, id := range nodes {
		cpus, err := readSet(root, fmt.Sprintf("%s/node%d/cpulist", nodeDir, id))
		if err != nil {
			return fmt.Errorf("cannot learn which CPUs NUMA node %d has: %w", id, err)
		}
		if cpus = cpus.And(online); len(cpus) == 0 {
			continue // memory alone
		}
		n := Node{ID: id, CPUs: cpus, Package: Unknown}
		if p, err := readInt(root, fmt.Sprintf("%s/cpu%d/topology/physical_package_id", cpuDir, cpus[0])); err == nil {
			n.Package = p
		}
		t.Nodes = append(t.Nodes, n)
	}
	if len(t.Nodes) == 0 {
		return fmt.Errorf("cannot learn the NUMA nodes: none of %v has a CPU that is online", nodes)
	}
	if t.Memory, err = readSet(root, nodeDir+"/has_memory"); err != nil {
		t.Memory = nodes
	}
	return nil
}

// nodeOf returns the node of a PCI device, Unknown if it is no node with CPUs.
func (t *Topology) nodeOf(root fs.FS, pci string) int {
	if len(t.Nodes) == 1 {
		return t.Nodes[0].ID
	}
	id, err := readInt(root, path.Join(pciDir, pci, "numa_node"))
	if err != nil || !slices.ContainsFunc(t.Nodes, func(n Node) bool { return n.ID == id }) {
		return Unknown
	}
	return id
}

// Cores groups CPUs (hardware threads) by physical core.
func Cores(root fs.FS, cpus Set) []Set {
	siblings := func(cpu int) Set {
		s, _ := readSet(root, fmt.Sprintf("%s/cpu%d/topology/thread_siblings_list", cpuDir, cpu))
		return append(s, cpu) // a core of its own if the file is missing
	}
	// The file says that no core has two threads. It also says so if only the
	// scheduler (CONFIG_SCHED_SMT) knows of none, so Cores also reads the siblings of one CPU.
	if smt, _ := readText(root, cpuDir+"/smt/active"); smt == "0" && len(cpus) > 0 && len(siblings(cpus[0]).sorted()) == 1 {
		siblings = func(cpu int) Set { return Set{cpu} }
	}
	return groupBy(cpus, siblings)
}

// groupBy groups CPUs that share something. It does not ask about a CPU that a
// group already names, which keeps the number of files small on large machines.
func groupBy(cpus Set, with func(cpu int) Set) []Set {
	var groups []Set
	seen := map[int]bool{}
	for _, cpu := range cpus {
		if seen[cpu] {
			continue
		}
		group := with(cpu).sorted().And(cpus)
		for _, c := range group {
			seen[c] = true
		}
		if len(group) > 0 {
			groups = append(groups, group)
		}
	}
	return groups
}

// lastCache returns the CPUs that share the cache of the highest level with
// cpu, data or unified, none if the kernel does not say.
func lastCache(root fs.FS, cpu int) Set {
	dir := fmt.Sprintf("%s/cpu%d/cache", cpuDir, cpu)
	entries, err := fs.ReadDir(root, dir)
	if err != nil {
		return nil
	}
	var shared Set
	highest := 0
	for _, e := range entries {
		at := path.Join(dir, e.Name())
		if !strings.HasPrefix(e.Name(), "index") {
			continue
		}
		level, err := readInt(root, at+"/level")
		if kind, _ := readText(root, at+"/type"); err != nil || level <= highest || kind == "Instruction" {
			continue
		}
		if s, err := readSet(root, at+"/shared_cpu_list"); err == nil {
			shared, highest = s, level
		}
	}
	return shared
}

func readText(root fs.FS, name string) (string, error) {
	f, err := root.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxFile))
	return strings.TrimSpace(string(b)), err
}

func readInt(root fs.FS, name string) (int, error) {
	text, err := readText(root, name)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(text)
}

func readSet(root fs.FS, name string) (Set, error) {
	text, err := readText(root, name)
	if err != nil {
		return nil, err
	}
	s, err := ParseSet(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return s, nil
}
