package launch

import (
	"context"
	"os"

	"github.com/gorun/gorun/launch/device"
	"github.com/gorun/gorun/launch/scratch"
	"github.com/gorun/gorun/launch/spec"
)

// Options holds everything that an agent needs.
type Options struct {
	Spec    spec.Spec
	Version string   // gorun's, for display
	Env     []string // environment of gorun
	Dir     string   // working directory

	Stdin, Stdout, Stderr *os.File

	Signals <-chan os.Signal // signals that gorun receives
	Keeper  <-chan struct{}  // closed when the keeper has ended; nil: there is none
	Probe   []string         // argv of a child process that prints what package device probes
	Self    string           // path of gorun's own file, to start that child process
	Scratch scratch.Tag      // of temporary files
	Local   *LocalNode       // set for --local-nodes

	// CommandWith returns the user's own command with another value of a flag, without
	// credentials; nil: there is no command line.
	CommandWith func(flag, value string) string
}

// LocalNode describes an agent's place among the agents that --local-nodes started
// on this machine.
type LocalNode struct {
	Index    int
	Addr     string                                // 127.0.0.1, .2, ...
	Endpoint func(context.Context) (string, error) // waits for the first node's endpoint; node 0 does not call it
	Announce func(endpoint string)                 // passes the endpoint to the other agents; node 0 calls it
	Secret   []byte                                // shared by this job's agents only, if the user gives no secret; nil: there is none
	Survey   *device.Exchange                      // of the GPUs; nil: each agent asks the driver
}

// shares reports whether the first node of this machine writes the job's files and
// prints what concerns the job.
func (o *Options) shares() bool { return o.Local != nil && o.Local.Index > 0 }

// leavesJobLinesToFirst reports whether the first node prints what concerns the job: the
// first node of this machine, or of the job if the output of all nodes goes to one place.
func (o *Options) leavesJobLinesToFirst() bool {
	return o.shares() || o.Spec.ReportOn == spec.ReportFirst && o.Spec.NodeRank > 0
}

// printsWarnings reports whether this agent prints warnings. With JSON output a program
// reads, not a user; and the first node prints what concerns all nodes.
func (o *Options) printsWarnings() bool {
	c := o.Spec.Check
	return !o.leavesJobLinesToFirst() && (c == nil || !c.JSON)
}

func hostName() string {
	h, err := os.Hostname()
	if err != nil {
		return "localhost"
	}
	return h
}
