package place

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/gorun/gorun/envprop"
	"github.com/gorun/gorun/launch/device"
)

// Node describes the node of a plan.
type Node struct {
	Name    string // for messages
	Workers int
	// Skip is the number of workers that other agents of this machine start before
	// this agent's (--local-nodes). Those workers have taken their GPUs.
	Skip int
	// All is the number of workers of all agents of this machine; 0: only this agent's.
	All               int
	List              *string // CUDA_VISIBLE_DEVICES of this node's environment; nil: it is not set
	device.Visibility         // the GPUs that its workers may use
}

// The variables that CUDA and torch read.
const (
	visibleDevices = "CUDA_VISIBLE_DEVICES"
	deviceOrder    = "CUDA_DEVICE_ORDER"
	localRank      = "LOCAL_RANK"
)

// Make plans the GPUs. Its errors are errors of the command line (exit code 2).
func Make(n Node, o Options) (Plan, error) {
	if err := o.Check(); err != nil {
		return Plan{}, err
	}
	p := Plan{Mode: o.Mode, Slots: make([]Slot, n.Workers), Shared: o.Oversubscribe}
	if p.Mode == "" {
		p.Mode = Order
	}
	if o.Virtual {
		return p, p.planVirtualRanks(n)
	}
	if len(n.Visible) == 0 {
		return p, p.planWithoutGPUs(n, o)
	}
	if most := max(n.Skip+n.Workers, n.All); most > len(n.Visible) && !o.Strict() && !o.Oversubscribe && o.Mode == "" {
		p.Mode, o.Mode = None, None
		p.note("%s, but %s on node %s: no worker gets a GPU of its own, as under torchrun; --nproc-per-node gpu starts one for each GPU", plural(most, "worker"), visibleGPUs(len(n.Visible)), n.Name)
	}
	if err := p.assignGPUs(n, o); err != nil {
		return Plan{}, err
	}
	if p.Mode == None {
		return p, nil
	}
	strict := o.Strict()
	err := p.setVariables(n, o)
	if n.OrderUnknown != "" && (n.List != nil || !o.assignsGPUs()) {
		err, strict = errors.New(n.OrderUnknown), o.assignsGPUs()
	}
	switch {
	case err != nil && strict:
		return Plan{}, err
	case err != nil: // the user did not ask for GPUs, and torchrun would start the workers
		p = Plan{Mode: None, Slots: make([]Slot, n.Workers), Shared: o.Oversubscribe}
		p.note("no worker gets a GPU of its own, and CUDA_VISIBLE_DEVICES stays as it is: %v", err)
	case n.OrderUnknown != "":
		p.note("%s; --pin counts as nvidia-smi does", n.OrderUnknown)
	}
	return p, nil
}

// planWithoutGPUs plans for a node on which no GPU is visible. That is an error if the user
// asked for GPUs and the node has some. On a node without GPUs it is a note,
// because one command line serves all nodes of a job.
func (p *Plan) planWithoutGPUs(n Node, o Options) error {
	p.Mode = None
	switch {
	case n.NoneReason != "" && o.Strict():
		return fmt.Errorf("no GPU is visible on node %s: %s; make some visible, or leave out %s", n.Name, n.NoneReason, o.gpuFlag())
	case o.Strict():
		p.note("no GPU is visible on node %s, so there is nothing to give to its workers", n.Name)
	case n.Withheld && o.Mode != None:
		for r := range p.Slots {
			p.Slots[r].Devices.Pinned = []envprop.Variable{{Name: visibleDevices}}
		}
		p.note("no GPU is left for the workers, so they get CUDA_VISIBLE_DEVICES= (--pin=none leaves it as it is)")
	}
	return nil
}

func (p *Plan) note(format string, args ...any) {
	p.Notes = append(p.Notes, fmt.Sprintf(format, args...))
}

// assignGPUs gives each worker its GPUs.
func (p *Plan) assignGPUs(n Node, o Options) error {
	if o.Mode == None { // torchrun assumes this, to bind CPUs near the GPU
		for r := range p.Slots {
			if at := n.Skip + r; at < len(n.Visible) && n.OrderUnknown == "" {
				p.Slots[r].Positions = []int{at}
			}
		}
		return nil
	}
	each, from := o.perWorker(), o.Map
	if from == nil {
		from = make([]int, len(n.Visible))
		for i := range from {
			from[i] = i
		}
	}
	if bad := slices.Max(from); bad >= len(n.Visible) {
		return fmt.Errorf("--map names GPU %d, but %s on node %s, counted from 0", bad, visibleGPUs(len(n.Visible)), n.Name)
	}
	if each > len(from) {
		return fmt.Errorf("cannot give %d GPUs to a worker: %s on node %s", each, visibleGPUs(len(from)), n.Name)
	}
	need := (n.Skip + n.Workers) * each
	if need > len(from) && !o.Oversubscribe {
		return tooFewGPUs(n, o, len(from))
	}
	for r := range p.Slots {
		for k := range each {
			p.Slots[r].addGPU(n.Visible, from[((n.Skip+r)*each+k)%len(from)])
		}
	}
	switch last := each - 1; {
	case p.Mode != Order:
	case each > 1:
		p.note("each worker sees all GPUs and owns %d of them, local rank 1 from device %d on; --pin=exclusive shows each its own as devices 0 to %d", each, each, last)
	case n.Workers > len(from):
		p.note("%s share %s: take device LOCAL_RANK modulo %d, or use --pin=exclusive and device 0", plural(n.Workers, "worker"), plural(len(from), "GPU"), len(from))
	}
	return nil
}

// tooFewGPUs returns the error for more workers than GPUs.
func tooFewGPUs(n Node, o Options, have int) error {
	what := plural(n.Workers, "worker")
	if each := o.perWorker(); each > 1 {
		what += fmt.Sprintf(" with %d GPUs each", each)
	}
	if n.Skip > 0 {
		what += fmt.Sprintf(" after the %d of this machine's other nodes", n.Skip)
	}
	if o.Map != nil {
		return fmt.Errorf("%s on node %s, but --map names %s: name more, or use --oversubscribe-gpus", what, n.Name, plural(have, "GPU"))
	}
	return fmt.Errorf("%s, but %s on node %s: use --nproc-per-node gpu, or --oversubscribe-gpus to share; for a job that computes on CPUs, CUDA_VISIBLE_DEVICES=\"\" or --pin=none", what, visibleGPUs(have), n.Name)
}

// setVariables sets the variables that name each worker's GPUs.
func (p *Plan) setVariables(n Node, o Options) error {
	strict := o.Strict()
	nameOf, err := gpuNames(n, p.Mode, o.ByUUID)
	if err != nil {
		return err
	}
	if p.Mode == Order && n.Workers > 1 && slices.ContainsFunc(n.Visible, isMIG) {
		err := errors.New("CUDA shows a process one MIG instance of a list, so that only local rank 0 finds device LOCAL_RANK; use --virtual-local-rank, or --pin=exclusive and device 0")
		if !strict {
			return err
		}
		p.note("%v", err)
	}
	all := p.gpuOrder(len(n.Visible))
	// CUDA shows the GPUs in this order anyway, and programs parse the user's list.
	asTheyAre := p.Mode == Order && n.Whole && n.OrderUnknown == "" && !o.ByUUID && slices.IsSorted(all) && !slices.ContainsFunc(n.Visible, isMIG)
	for r := range p.Slots {
		slot := &p.Slots[r]
		list := all
		if p.Mode == Exclusive {
			list = slot.Positions
		}
		if !asTheyAre {
			slot.Devices.Pinned = []envprop.Variable{
				{Name: deviceOrder, Value: "PCI_BUS_ID"},
				{Name: visibleDevices, Value: join(list, nameOf)},
			}
		}
		if id := join(slot.Positions, func(at int) string { return n.Visible[at].UUID }); strings.Trim(id, ",") != "" {
			slot.Devices.Device = id
		}
	}
	return nil
}
