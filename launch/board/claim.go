package board

import (
	"net"

	"github.com/gorun/gorun/launch/numa"
)

// claimCPUs claims a machine's CPUs for the workers of one agent, so that the workers of
// two jobs do not choose the same ones. It returns nil if another agent has claimed them.
// The claim ends with Close or with this process: it is a socket without a file.
func claimCPUs(sets []numa.Set) net.Listener {
	var all numa.Set
	for _, s := range sets {
		all = all.Or(s)
	}
	l, err := net.Listen("unix", "@gorun-cpus/"+all.String())
	if err != nil {
		return nil
	}
	return l
}
