package launch

import (
	"os"
	"strings"

	"github.com/gorun/gorun/envprop"
	"github.com/gorun/gorun/launch/numa"
	"github.com/gorun/gorun/launch/pin"
	"github.com/gorun/gorun/worker/contract"
)

// envDevice is set by package envprop, the other variables of a plan by overlay.
const envDevice = contract.EnvDevice

// bind finds the CPUs of each worker: those that it is bound to, or those that it
// shares with the others, which say how many threads it should have.
func (d *devices) bind() error {
	cpus, memory, err := numa.Allowed()
	if err != nil && d.want.Binding == "" {
		return nil // torchrun's number of threads
	} else if err != nil {
		return err
	}
	root := os.DirFS("/")
	if d.want.Binding == "" {
		if _, set := findEnv(d.env, "OMP_NUM_THREADS"); set || d.node.Workers == 1 {
			return nil
		}
		cores := len(numa.Cores(root, cpus))
		for i := range d.slots {
			d.slots[i].threads = envprop.Threads{Cores: cores, Workers: d.node.Workers * d.alike}
		}
		return nil
	}
	r := numa.Request{Mode: d.want.Binding, CPUs: cpus, Memory: memory}
	for _, g := range d.node.Visible {
		r.GPUs = append(r.GPUs, g.PCI)
	}
	for _, w := range d.plan.Workers {
		r.Workers = append(r.Workers, w.At)
	}
	if r.Topology, err = numa.Read(root, r.GPUs); err != nil {
		return err
	}
	p, err := numa.Make(r)
	if err != nil {
		return err
	}
	d.notes = append(d.notes, p.Warnings...)
	for i, b := range p.Workers {
		d.slots[i].around = b.Around()
		if d.node.Workers > 1 {
			d.slots[i].threads = envprop.Threads{Cores: b.Threads, Workers: 1}
		}
	}
	return nil
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
