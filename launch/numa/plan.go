package numa

import (
	"fmt"
	"slices"
	"strings"
)

// Mode is the value of --numa-binding.
type Mode string

const (
	ByNode      Mode = "node"         // all CPUs of the GPU's NUMA node
	BySocket    Mode = "socket"       // all CPUs of the socket that the node is on
	Exclusive   Mode = "exclusive"    // physical cores of the node, divided among its GPUs
	CoreComplex Mode = "core-complex" // CPUs of the node that share a last-level cache, if possible another cache for each of its GPUs
)

// ParseMode reads the value of --numa-binding.
func ParseMode(text string) (Mode, error) {
	switch m := Mode(text); m {
	case ByNode, BySocket, Exclusive, CoreComplex:
		return m, nil
	}
	return "", fmt.Errorf("cannot use --numa-binding %s: it is neither node, socket, exclusive, core-complex nor none", text)
}

// minCPUs is the number of CPUs below which NCCL's own threads wait for the
// program's.
const minCPUs = 4

// Request is the input of a plan.
type Request struct {
	Mode     Mode // "": no worker is bound, and the plan says only how many CPUs each worker has
	Topology Topology
	CPUs     Set      // the CPUs that this process may use; see Allowed
	Memory   Set      // nodes whose memory it may use
	GPUs     []string // PCI addresses of all visible GPUs, in one order for all agents of the machine; "" unknown
	// Workers has, by local rank, the GPUs that each worker owns, as positions
	// in GPUs. If one worker owns none, all count as workers that compute on
	// CPUs. A GPU that no worker owns keeps its part of a node (Exclusive,
	// CoreComplex), as with torchrun, because it belongs to another agent.
	Workers [][]int
	// Skip is the number of workers that other agents of this machine have
	// before these. Machine is the number of workers of all agents of this
	// machine; 0: there are no other agents. Workers without a GPU are spread
	// over the machine together with the other agents' workers.
	Skip, Machine int
}

// Plan says where the workers of a node run.
type Plan struct {
	Workers  []Binding // by local rank
	Doubt    string    // a warning about the machine; "": none
	Warnings []string  // about these workers, for the user, a line each
}

// Binding says where one worker runs.
type Binding struct {
	CPUs   Set
	Memory Set // nodes whose memory it prefers; none: no policy
	// Threads is the worker's fair part of the physical cores, at least 1. A
	// core that n workers may use counts 1/n.
	Threads int
	// Bound means that CPUs or Memory differ from what the worker would
	// inherit.
	Bound bool
}

// Make returns the plan for a request.
func Make(r Request) (Plan, error) {
	workers := len(r.Workers)
	if r.Mode != "" && r.areCPUWorkers() { // count all workers of the machine, as if one agent had them
		r.Workers = make([][]int, max(r.Machine, r.Skip+workers))
	} else {
		r.Skip = 0
	}
	p := Plan{Workers: make([]Binding, len(r.Workers))}
	if err := p.bindWorkers(r); err != nil {
		return Plan{}, err
	}
	for i := range p.Workers {
		w := &p.Workers[i]
		if len(w.CPUs) == 0 {
			return Plan{}, fmt.Errorf("local rank %d has no CPU to run on: its GPUs are not among the visible ones, or this process may use no CPU", i)
		}
		w.Bound = len(w.Memory) > 0 || !slices.Equal(w.CPUs, r.CPUs)
	}
	p.countThreads(r)
	p.Workers = p.Workers[r.Skip:][:workers]
	p.warnOfFewCPUs(r)
	return p, nil
}

// bindWorkers sets every worker's CPUs and memory.
func (p *Plan) bindWorkers(r Request) error {
	if r.Mode == "" {
		for i := range p.Workers {
			p.Workers[i].CPUs = r.CPUs
		}
		return nil
	}
	claims, doubt, err := r.claims()
	if err != nil {
		return err
	}
	p.Doubt = doubt
	for _, c := range claims {
		cpus, err := c.cpus(r)
		if err != nil {
			return err
		}
		if c.worker >= 0 {
			w := &p.Workers[c.worker]
			w.CPUs, w.Memory = w.CPUs.Or(cpus), w.Memory.Or(c.memory(r, cpus))
		}
	}
	return nil
}

// countThreads computes each worker's part of the cores.
func (p *Plan) countThreads(r Request) {
	parts := make([]float64, len(p.Workers))
	for _, core := range r.Topology.Cores {
		var users []int
		for i, w := range p.Workers {
			if slices.ContainsFunc(core, w.CPUs.Has) {
				users = append(users, i)
			}
		}
		for _, i := range users {
			parts[i] += 1 / float64(len(users))
		}
	}
	for i, part := range parts {
		p.Workers[i].Threads = max(1, int(part+1e-6)) // thirds add up to a little less than 1
	}
}

// warnOfFewCPUs adds a warning about workers with few CPUs.
func (p *Plan) warnOfFewCPUs(r Request) {
	if r.Mode == "" {
		return
	}
	var few []string
	for i, w := range p.Workers {
		if len(w.CPUs) < minCPUs {
			few = append(few, fmt.Sprintf("%d (CPUs %v)", i, w.CPUs))
		}
	}
	if len(few) == 0 {
		return
	}
	shown := few
	if len(shown) > minCPUs {
		shown = append(slices.Clone(few[:minCPUs]), fmt.Sprintf("and %d more", len(few)-minCPUs))
	}
	p.Warnings = append(p.Warnings, fmt.Sprintf("--numa-binding %s leaves fewer than %d CPUs to local rank %s; NCCL's threads need some beside the program's", r.Mode, minCPUs, strings.Join(shown, ", ")))
}
