package launch

import (
	"slices"
	"strings"

	"github.com/gorun/gorun/envprop"
	"github.com/gorun/gorun/envprop/ncclenv"
	"github.com/gorun/gorun/launch/check"
	"github.com/gorun/gorun/launch/pin"
	"github.com/gorun/gorun/launch/wrap"
	"github.com/gorun/gorun/rendezvous/preflight/host"
)

// madeUp is a worker in a world that is not known yet: values that nobody else
// has, so that a replaced one is seen. The run id is made up, too: an agent that
// looks for workers of an earlier job of this run must not find a probe.
func madeUp() envprop.Vars {
	return envprop.Vars{
		Rank: 7, LocalRank: 5, GroupRank: 3, RoleRank: 6, WorldSize: 11, LocalWorldSize: 9, GroupWorldSize: 8, RoleWorldSize: 10,
		MasterAddr: host.ProbeAddr, MasterPort: 9, RestartCount: 1, MaxRestarts: 2,
		Round: 4, WorkerSocket: "/dev/null", NodeAddr: "192.0.2.2", WorldToken: "none", RunID: "probe-of-gorun",
	}
}

// madeUpValue is that of a variable whose value another node may give. It is a
// number, which the wrappers' own programs can read where they want one.
const madeUpValue = "13"

// sent is what a made-up worker of this node is given.
func (a *agent) sent() wrap.Sent {
	v := madeUp()
	v.RoleName = a.opts.Spec.Role
	s := wrap.Sent{Env: overlay(a.guess().Worker(v), madeUpDevices())}
	for _, e := range envprop.NewBase(nil).Worker(v) {
		name, _, _ := strings.Cut(e, "=")
		s.Own = append(s.Own, name)
	}
	s.Own = append(s.Own, pin.Names()...)
	asked, perhaps := a.asked()
	s.Asked = slices.Concat(asked, perhaps)
	for _, name := range perhaps {
		if _, set := findEnv(s.Env, name); !set {
			s.Env = append(s.Env, name+"="+madeUpValue)
		}
	}
	return s
}

// madeUpDevices is the part of a made-up slot. What others set CUDA_DEVICE_ORDER
// to is no harm if it is the same.
func madeUpDevices() (set []pin.Variable) {
	for _, name := range pin.Names() {
		v := pin.Variable{Name: name, Value: "GPU-made-up"}
		if name == "CUDA_DEVICE_ORDER" {
			v.Value = "PCI_BUS_ID"
		}
		set = append(set, v)
	}
	return set
}

// asked are the names that the user wants this node's workers to have, and those
// that they get perhaps, when all nodes were heard: what is for certain nodes, or
// has no value here, and what --iface chooses.
func (a *agent) asked() (asked, perhaps []string) {
	for _, ask := range a.request.Stay {
		asked = append(asked, ask.Name)
	}
	for _, ask := range a.request.Asks {
		switch {
		case ask.Kind == envprop.FromUnset:
		case ask.To == envprop.Target{}:
			asked = append(asked, ask.Name)
		default:
			perhaps = append(perhaps, ask.Name)
		}
	}
	for _, name := range a.request.Lack { // another node may give it
		if a.opts.Spec.Trusted || !ncclenv.RunsCode(name) {
			perhaps = append(perhaps, name)
		}
	}
	if a.opts.Spec.Iface != "" {
		perhaps = append(perhaps, check.IfaceNames()...)
	}
	slices.Sort(perhaps)
	return asked, slices.DeleteFunc(slices.Compact(perhaps), func(name string) bool { return slices.Contains(asked, name) })
}

// agreed reports whether this node has a variable that all workers must have alike.
func (a *agent) agreed(name string) bool {
	v, _ := ncclenv.Governed(name)
	_, set := findEnv(a.opts.Env, name)
	return set && v.Scope == ncclenv.All
}

// sets reports whether a worker gets this variable by its place on the node.
func (d *devices) sets(name string) bool {
	return slices.ContainsFunc(d.slots, func(s slot) bool {
		return name == envDevice && s.device != "" || slices.ContainsFunc(s.set, func(v pin.Variable) bool { return v.Name == name })
	})
}
