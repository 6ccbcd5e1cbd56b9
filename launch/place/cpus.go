package place

import (
	"github.com/gorun/gorun/envprop"
	"github.com/gorun/gorun/launch/numa"
)

// bind finds the CPUs of each worker: the CPUs to which the worker is bound, or the
// CPUs that it shares with the others. They also give its number of threads.
func (c Config) bind(p *Plan, n Node) error {
	mode := c.Options.Binding
	threads := c.Threads && n.Workers > 1
	if mode == "" && !threads {
		return nil
	}
	cpus, memory, err := numa.Allowed()
	if err != nil && mode == "" {
		return nil // the worker keeps torchrun's number of threads
	} else if err != nil {
		return err
	}
	machine := n.Workers * max(1, c.Agents)
	quota := numa.Quota(c.Root)
	if mode == "" {
		t := envprop.Threads{Cores: len(numa.Cores(c.Root, cpus)), Workers: machine}
		for i := range p.Slots {
			p.Slots[i].Devices.Threads = limitThreads(quota, machine, t)
		}
		return nil
	}
	r := numa.Request{Mode: mode, CPUs: cpus, Memory: memory, Skip: n.Skip, Machine: machine}
	for _, g := range n.Visible {
		r.GPUs = append(r.GPUs, g.PCI)
	}
	for _, s := range p.Slots {
		r.Workers = append(r.Workers, s.Positions)
	}
	if r.Topology, err = numa.Read(c.Root, r.GPUs); err != nil {
		return err
	}
	bound, err := numa.Make(r)
	if err != nil {
		return err
	}
	if bound.Doubt != "" {
		p.note("%s", bound.Doubt)
	}
	p.Warnings = append(p.Warnings, bound.Warnings...)
	for i, b := range bound.Workers {
		p.Slots[i].Binding = b
		if threads {
			p.Slots[i].Devices.Threads = limitThreads(quota, machine, envprop.Threads{Cores: b.Threads, Workers: 1})
		}
	}
	return nil
}

// limitThreads bounds a worker's share of the cores by the CPU quota that all workers of
// the machine share.
func limitThreads(quota float64, workers int, t envprop.Threads) envprop.Threads {
	if quota == 0 || quota*float64(t.Workers) >= float64(t.Cores*workers) {
		return t
	}
	return envprop.Threads{Cores: max(1, int(quota)), Workers: workers, Quota: true}
}
