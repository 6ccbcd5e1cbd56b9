package launch

import (
	"strings"

	"github.com/gorun/gorun/envprop"
	"github.com/gorun/gorun/launch/numa"
	"github.com/gorun/gorun/launch/pin"
	"github.com/gorun/gorun/worker/contract"
)

// envDevice is set by package envprop, the other variables of a plan by overlay.
const envDevice = contract.EnvDevice

// slot is what one worker gets of the node.
type slot struct {
	own     []string                       // UUIDs of its GPUs; none: nothing is planned for it
	device  string                         // GORUN_DEVICE
	set     []pin.Variable                 // what it has instead of what it would inherit
	around  func(start func() error) error // binds it to CPUs; nil: it is not bound
	threads envprop.Threads
}

// take is the part of a plan that concerns one worker.
func (s *slot) take(w pin.Worker, owns bool) {
	for _, v := range w.Set {
		if v.Name == envDevice {
			s.device = v.Value
			continue
		}
		s.set = append(s.set, v)
	}
	for _, g := range w.GPUs {
		if owns && g.UUID != "" {
			s.own = append(s.own, g.UUID)
		}
	}
}

// bind finds the CPUs of each worker: those that it is bound to, or those that it
// shares with the others, which say how many threads it should have.
func (d *devices) bind() error {
	cpus, memory, err := numa.Allowed()
	if err != nil && d.want.Binding == "" {
		return nil // torchrun's number of threads
	} else if err != nil {
		return err
	}
	quota := numa.Quota(d.root)
	if d.want.Binding == "" {
		if _, set := findEnv(d.env, "OMP_NUM_THREADS"); set || d.node.Workers == 1 {
			return nil
		}
		t := envprop.Threads{Cores: len(numa.Cores(d.root, cpus)), Workers: d.node.Workers * d.alike}
		for i := range d.slots {
			d.slots[i].threads = within(quota, t.Workers, t)
		}
		return nil
	}
	r := numa.Request{Mode: d.want.Binding, CPUs: cpus, Memory: memory, Skip: d.node.Skip, Machine: d.node.Workers * d.alike}
	for _, g := range d.node.Visible {
		r.GPUs = append(r.GPUs, g.PCI)
	}
	for _, w := range d.plan.Workers {
		r.Workers = append(r.Workers, w.At)
	}
	if r.Topology, err = numa.Read(d.root, r.GPUs); err != nil {
		return err
	}
	p, err := numa.Make(r)
	if err != nil {
		return err
	}
	if p.Doubt != "" {
		d.notes = append(d.notes, p.Doubt)
	}
	d.own = append(d.own, p.Warnings...)
	for i, b := range p.Workers {
		d.slots[i].around = b.Around()
		if d.node.Workers > 1 {
			d.slots[i].threads = within(quota, d.node.Workers*d.alike, envprop.Threads{Cores: b.Threads, Workers: 1})
		}
	}
	return nil
}

// within is a worker's part of the cores, or of the CPU quota that all workers of
// the machine share, if that is less.
func within(quota float64, workers int, t envprop.Threads) envprop.Threads {
	if quota == 0 || quota*float64(t.Workers) >= float64(t.Cores*workers) {
		return t
	}
	return envprop.Threads{Cores: max(1, int(quota)), Workers: workers, Quota: true}
}

// overlay replaces variables of an environment that has one entry a name.
func overlay(env []string, set []pin.Variable) []string {
	for _, v := range set {
		entry, there := v.Name+"="+v.Value, false
		for i := range env {
			if strings.HasPrefix(env[i], v.Name+"=") {
				env[i], there = entry, true
			}
		}
		if !there {
			env = append(env, entry)
		}
	}
	return env
}
