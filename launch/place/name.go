package place

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gorun/gorun/envprop"
	"github.com/gorun/gorun/launch/device"
)

// gpuNames returns a function that gives CUDA's names of the visible GPUs in a mode.
// They are those of the user's own form, because many programs read numbers there: the
// entries of the user's list or, without a list, indexes. UUIDs name the GPUs if the user
// wants it, for MIG instances, and for a single GPU that CUDA may count otherwise. If a
// UUID is not known, they are indexes for all GPUs, because CUDA does not mix the two.
func gpuNames(n Node, mode Mode, wantUUID bool) (func(at int) string, error) {
	unfit := func(g device.GPU) bool { return g.Entry == "" || isMIG(g) }
	if !wantUUID && !slices.ContainsFunc(n.Visible, unfit) && !(n.Ambiguous && mode == Exclusive) {
		return func(at int) string { return n.Visible[at].Entry }, nil
	}
	byUUID, byIndex := true, true
	for _, g := range n.Visible {
		byUUID = byUUID && g.UUID != ""
		byIndex = byIndex && g.Index >= 0
	}
	switch {
	case byUUID:
		return func(at int) string { return n.Visible[at].UUID }, nil
	case byIndex:
		return func(at int) string { return strconv.Itoa(n.Visible[at].Index) }, nil
	}
	return nil, fmt.Errorf("the GPUs of node %s cannot be named: some have no UUID and some no index; use --pin=none", n.Name)
}

// planVirtualRanks plans torchrun's --virtual-local-rank: every worker is local rank 0 and
// sees one device. The device is the entry of the list at the worker's local rank,
// as it is written there. Without a list it is the local rank.
func (p *Plan) planVirtualRanks(n Node) error {
	p.Mode = Exclusive
	var entries []string
	if n.List != nil {
		entries = strings.Split(*n.List, ",")
	}
	for r := range p.Slots {
		at := n.Skip + r
		entry := strconv.Itoa(at)
		if n.List != nil {
			if at >= len(entries) {
				return fmt.Errorf("--virtual-local-rank: local rank %d on node %s has no entry in CUDA_VISIBLE_DEVICES=%s: name more GPUs, or start fewer workers", r, n.Name, *n.List)
			}
			entry = strings.TrimSpace(entries[at])
		}
		if n.Withheld {
			entry = ""
		}
		slot := &p.Slots[r]
		slot.Devices.Pinned = []envprop.Variable{{Name: localRank, Value: "0"}, {Name: visibleDevices, Value: entry}}
		if at < len(n.Visible) && n.OrderUnknown == "" { // otherwise CUDA shows it no GPU, which is right for a worker that computes on CPUs
			slot.addGPU(n.Visible, at)
			slot.Devices.Device = n.Visible[at].UUID
		}
	}
	return nil
}

// gpuOrder lists every visible GPU once, first the GPUs of rank 0, then of rank 1,
// ...
func (p *Plan) gpuOrder(visible int) []int {
	var all []int
	seen := make([]bool, visible)
	add := func(at int) {
		if !seen[at] {
			all, seen[at] = append(all, at), true
		}
	}
	for _, w := range p.Slots {
		for _, at := range w.Positions {
			add(at)
		}
	}
	for at := range visible {
		add(at)
	}
	return all
}

func join(at []int, nameOf func(int) string) string {
	names := make([]string, len(at))
	for i, a := range at {
		names[i] = nameOf(a)
	}
	return strings.Join(names, ",")
}

func isMIG(g device.GPU) bool { return strings.HasPrefix(g.UUID, "MIG-") }

func visibleGPUs(n int) string {
	if n == 1 {
		return "1 GPU is visible"
	}
	return fmt.Sprintf("%d GPUs are visible", n)
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
