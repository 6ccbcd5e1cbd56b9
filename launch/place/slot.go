package place

import (
	"slices"

	"github.com/gorun/gorun/envprop"
	"github.com/gorun/gorun/launch/device"
	"github.com/gorun/gorun/launch/numa"
	"github.com/gorun/gorun/worker/contract"
)

// Plan says what each worker of a node gets of it.
type Plan struct {
	// Mode says what the variables do. With None they do nothing, and a worker may
	// use another worker's GPU. A virtual local rank has the mode Exclusive.
	Mode      Mode
	Slots     []Slot    // by local rank
	Shared    bool      // the user lets workers share GPUs
	Notes     []string  // lines for the user about the machine; all its agents have the same
	Warnings  []string  // lines for the user about these workers
	Inventory Inventory // the GPUs for which the plan was made
}

// Slot is what the worker of one local rank gets.
type Slot struct {
	Positions []int           // its GPUs, as positions among the visible ones; with None, the GPU of its local rank
	GPUs      []string        // UUIDs of the GPUs that are planned for it
	Devices   envprop.Devices // the devices in its environment
	Binding   numa.Binding    // the CPUs and memory to which its process is bound
}

// Slot returns the slot of a local rank. It is empty if the plan does not have the
// rank.
func (p *Plan) Slot(local int) (s Slot) {
	if local < len(p.Slots) {
		s = p.Slots[local]
	}
	return s
}

// Separates reports whether each worker is bound to CPUs that no other worker of the
// plan has.
func (p *Plan) Separates() bool {
	var taken numa.Set
	for _, s := range p.Slots {
		if cpus := s.Binding.CPUs; !s.Binding.Bound || len(cpus) == 0 || len(taken.And(cpus)) > 0 {
			return false
		}
		taken = taken.Or(s.Binding.CPUs)
	}
	return len(p.Slots) > 0
}

// Owned lists the UUIDs of all GPUs that this node's workers own.
func (p *Plan) Owned() (uuids []string) {
	for _, s := range p.Slots {
		uuids = append(uuids, s.GPUs...)
	}
	return uuids
}

// Sets reports whether a worker gets this variable by its place on the node.
func (p *Plan) Sets(name string) bool {
	return slices.ContainsFunc(p.Slots, func(s Slot) bool {
		return name == contract.EnvDevice && s.Devices.Device != "" ||
			slices.ContainsFunc(s.Devices.Pinned, func(v envprop.Variable) bool { return v.Name == name })
	})
}

// Names lists the variables that a plan may set, besides LOCAL_RANK.
func Names() []string { return []string{deviceOrder, visibleDevices, contract.EnvDevice} }

// addGPU gives a visible GPU to the slot.
func (s *Slot) addGPU(visible []device.GPU, at int) {
	s.Positions = append(s.Positions, at)
	if id := visible[at].UUID; id != "" {
		s.GPUs = append(s.GPUs, id)
	}
}
