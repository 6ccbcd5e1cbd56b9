package device

import (
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

// maxNICs bounds the adapters that are read.
const maxNICs = 256

// Distance is how far an adapter is from a GPU, in nvidia-smi's words.
type Distance int

const (
	PIX  Distance = iota // behind the same PCI switch
	PXB                  // behind switches of the same root port
	PHB                  // at the same host bridge of the CPU
	NODE                 // at another host bridge of the same NUMA node
	SYS                  // at another NUMA node, or unknown
)

func (d Distance) String() string { return [...]string{"PIX", "PXB", "PHB", "NODE", "SYS"}[d] }

// pciDevice is a GPU or an adapter on the PCI buses.
type pciDevice struct {
	name string
	path []string // "pci0000:15", "0000:15:01.0", ... down to the device itself
	numa *int
}

// locate reads each GPU's NUMA node and, if nics is set, its nearest adapters
// from /sys below root. A value that is missing there stays unknown.
func locate(root fs.FS, gpus []GPU, nics bool) {
	var adapters []pciDevice
	if nics {
		adapters = listNICs(root)
	}
	for i := range gpus {
		g := &gpus[i]
		if g.PCI == "" {
			continue
		}
		at, ok := findPCI(root, "sys/bus/pci/devices/"+g.PCI)
		g.NUMA = at.numa
		if ok && g.State != nil {
			g.State.NICs, g.State.Distance = nearest(at, adapters)
		}
	}
}

// listNICs returns the node's adapters: those with verbs, which NCCL prefers,
// else the interfaces on a PCI bus.
func listNICs(root fs.FS) []pciDevice {
	for _, class := range []string{"sys/class/infiniband", "sys/class/net"} {
		var found []pciDevice
		entries, _ := fs.ReadDir(root, class)
		for _, e := range entries[:min(len(entries), maxNICs)] {
			if at, ok := findPCI(root, class+"/"+e.Name()); ok {
				at.name = e.Name()
				found = append(found, at)
			}
		}
		if len(found) > 0 {
			return found
		}
	}
	return nil
}

// findPCI follows a link of /sys. It returns the PCI device that the link's
// target is or belongs to.
func findPCI(root fs.FS, link string) (at pciDevice, ok bool) {
	target, err := fs.ReadLink(root, link)
	if err != nil {
		return at, false
	}
	place := path.Join(path.Dir(link), target)
	parts := strings.Split(place, "/")
	first := slices.IndexFunc(parts, func(s string) bool { return strings.HasPrefix(s, "pci") })
	last := len(parts) - 1
	for last > first && !isPCI(parts[last]) {
		last--
	}
	if first < 0 || last == first {
		return at, false
	}
	at.path = parts[first : last+1]
	if b, err := fs.ReadFile(root, strings.Join(parts[:last+1], "/")+"/numa_node"); err == nil {
		if n, err := strconv.Atoi(strings.TrimSpace(string(b))); err == nil && n >= 0 { // -1: the firmware does not say
			at.numa = &n
		}
	}
	return at, true
}

// isPCI reports whether s is an address as "0000:1a:00.0".
func isPCI(s string) bool {
	return strings.Count(s, ":") == 2 && strings.Contains(s, ".") && strings.Trim(s, "0123456789abcdef:.") == ""
}

// nearest returns the names of the adapters with the smallest distance to a GPU,
// and that distance. The names are "mlx5_0" or, where no adapter has verbs,
// interfaces ("eth0").
func nearest(gpu pciDevice, adapters []pciDevice) (names []string, text string) {
	limit := SYS + 1
	for _, nic := range adapters {
		switch d := distance(gpu, nic); {
		case d < limit:
			limit, names = d, []string{nic.name}
		case d == limit:
			names = append(names, nic.name)
		}
	}
	if limit > SYS {
		return nil, ""
	}
	return names, limit.String()
}

// distance computes NCCL's distance from what the paths of two devices have in
// common.
func distance(gpu, nic pciDevice) Distance {
	common := 0
	for common < min(len(gpu.path), len(nic.path)) && gpu.path[common] == nic.path[common] {
		common++
	}
	switch {
	case common == 0 && gpu.numa != nil && nic.numa != nil && *gpu.numa == *nic.numa:
		return NODE
	case common == 0:
		return SYS
	case common == 1:
		return PHB
	case common >= len(gpu.path)-2: // all but the switch's port and the GPU itself
		return PIX
	}
	return PXB
}
