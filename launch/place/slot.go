package place

import (
	"slices"

	"github.com/gorun/gorun/envprop"
	"github.com/gorun/gorun/launch/device"
	"github.com/gorun/gorun/launch/numa"
	"github.com/gorun/gorun/worker/contract"
)

// Plan is what the workers of a node get of it.
type Plan struct {
	// Mode is what the variables bring about; None: they bring about nothing, and
	// that a worker uses another one's GPU is no mistake. A virtual local rank is Exclusive.
	Mode     Mode
	Slots    []Slot   // by local rank
	Shared   bool     // the user lets workers share GPUs
	Notes    []string // about the machine, for the user, a line each; all its agents have the same
	Warnings []string // about these workers
	Seen     Seen     // the GPUs that it was made for
}

// Slot is what the worker of one local rank gets.
type Slot struct {
	At      []int           // its GPUs, as positions among the visible ones; under None, that of its local rank
	Own     []string        // UUIDs of the GPUs that are planned for it
	Devices envprop.Devices // what its environment says of them
	Binding numa.Binding    // the CPUs and memory that its process is bound to
}

// Slot is that of a local rank. A rank that the plan does not know gets nothing.
func (p *Plan) Slot(local int) (s Slot) {
	if local < len(p.Slots) {
		s = p.Slots[local]
	}
	return s
}

// Owned lists the UUIDs of all GPUs that this node's workers own.
func (p *Plan) Owned() (uuids []string) {
	for _, s := range p.Slots {
		uuids = append(uuids, s.Own...)
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

// Names lists the variables that a plan may set beside LOCAL_RANK.
func Names() []string { return []string{deviceOrder, visibleDevices, contract.EnvDevice} }

// give makes a visible GPU the slot's own.
func (s *Slot) give(visible []device.GPU, at int) {
	s.At = append(s.At, at)
	if id := visible[at].UUID; id != "" {
		s.Own = append(s.Own, id)
	}
}
