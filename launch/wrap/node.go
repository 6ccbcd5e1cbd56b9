package wrap

import (
	"context"
	"slices"
	"strings"

	"github.com/gorun/gorun/envprop"
	"github.com/gorun/gorun/envprop/ncclenv"
	"github.com/gorun/gorun/internal/environ"
	"github.com/gorun/gorun/rendezvous/preflight/host"
)

// Node describes what is known of a node's workers before their world is sealed.
type Node struct {
	Env     []string        // of gorun
	Base    envprop.Base    // what its workers have in common
	Role    string          // of its workers
	Request envprop.Request // what the user asks of the workers' environment
	Trusted bool            // variables that run code may come from another node
	Chosen  []string        // variables that gorun may choose once all nodes are known
	Placed  []string        // variables by which a worker finds its devices
	// Devices waits until the devices are known. It returns the names of the
	// variables that a worker of this node gets by its place.
	Devices func(context.Context) []string
}

// ProbeRank is the local rank of the made-up worker.
const ProbeRank = 5

// probeVars returns the variables of a worker in a world that is not known yet. No
// other worker has these values, so a replaced value shows. The run id is made up
// as well, so that an agent that looks for workers of an earlier job of this run
// does not find a probe.
func probeVars() envprop.Vars {
	return envprop.Vars{
		Ranks: envprop.Ranks{
			Rank: 7, LocalRank: ProbeRank, GroupRank: 3, RoleRank: 6,
			WorldSize: 11, LocalWorldSize: 9, GroupWorldSize: 8, RoleWorldSize: 10,
		},
		Round: envprop.Round{
			RunID: "probe-of-gorun", Number: 4, RestartCount: 1, MaxRestarts: 2,
			MasterAddr: host.ProbeAddr, MasterPort: 9, WorldToken: "none",
		},
		WorkerSocket: "/dev/null", NodeAddr: "192.0.2.2", Ports: "1-9",
	}
}

// probeValue is the value of a variable that another node may set. It is a number,
// because the wrappers' own programs may require a number.
const probeValue = "13"

// sent returns what a made-up worker of this node gets.
func (n *Node) sent() Sent {
	v := probeVars()
	v.RoleName = n.Role
	for _, name := range n.Placed {
		made := "GPU-made-up"
		if name == "CUDA_DEVICE_ORDER" { // another node's value does no harm if it is the same
			made = "PCI_BUS_ID"
		}
		v.Pinned = append(v.Pinned, envprop.Variable{Name: name, Value: made})
	}
	s := Sent{Env: n.Base.Worker(v)}
	for _, e := range envprop.NewBase(nil).Worker(v) {
		name, _, _ := strings.Cut(e, "=")
		s.FromGorun = append(s.FromGorun, name)
	}
	requested, conditional := n.requested()
	s.Requested = slices.Concat(requested, conditional)
	for _, name := range conditional {
		if _, set := environ.Lookup(s.Env, name); !set {
			s.Env = append(s.Env, name+"="+probeValue)
		}
	}
	return s
}

// requested lists the variables that the user requests for this node's workers. conditional
// lists those that the workers may get once all nodes are known: variables for
// certain nodes, variables without a value here, and variables that gorun chooses.
func (n *Node) requested() (requested, conditional []string) {
	for _, override := range n.Request.LocalOverrides {
		requested = append(requested, override.Name)
	}
	for _, override := range n.Request.Overrides {
		switch {
		case override.Kind == envprop.FromUnset:
		case override.To == envprop.Target{}:
			requested = append(requested, override.Name)
		default:
			conditional = append(conditional, override.Name)
		}
	}
	for _, name := range n.Request.Missing { // another node may set it
		if n.Trusted || !ncclenv.RunsCode(name) {
			conditional = append(conditional, name)
		}
	}
	conditional = append(conditional, n.Chosen...)
	slices.Sort(conditional)
	return requested, slices.DeleteFunc(slices.Compact(conditional), func(name string) bool { return slices.Contains(requested, name) })
}

// mustAgree reports whether this node has a variable that must be the same on all
// workers.
func (n *Node) mustAgree(name string) bool {
	v, _ := ncclenv.Governed(name)
	_, set := environ.Lookup(n.Env, name)
	return set && v.Scope == ncclenv.All
}
