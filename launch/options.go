package launch

import (
	"context"
	"os"
	"slices"

	"github.com/gorun/gorun/launch/scratch"
	"github.com/gorun/gorun/launch/spec"
)

// Options is all that an agent is given.
type Options struct {
	Spec    spec.Spec
	Version string   // gorun's, for display
	Env     []string // environment of gorun
	Dir     string   // working directory

	Stdin, Stdout, Stderr *os.File

	Signals <-chan os.Signal // what gorun receives
	Keeper  <-chan struct{}  // closed when the keeper is gone; nil: there is none
	Probe   []string         // argv of a child that prints what package device probes
	Self    string           // path of gorun's own file, to start that child
	Scratch scratch.Tag      // of temporary files
	Local   *LocalNode       // set for --local-nodes

	// Elsewhere gives the user's own command with another value of a flag; nil if it
	// cannot.
	Elsewhere func(flag, value string) []string
}

// LocalNode is an agent's place among the agents that --local-nodes started on
// this machine.
type LocalNode struct {
	Index    int
	Addr     string                                // 127.0.0.1, .2, ...
	Endpoint func(context.Context) (string, error) // waits for the first node's endpoint; not called by node 0
	Announce func(endpoint string)                 // tells the others the endpoint; called by node 0
	Secret   []byte                                // of this job's agents alone, where the user gives none; nil: there is none
}

// quiet agents leave the full report to the first node of the machine.
func (o *Options) quiet() bool { return o.Local != nil && o.Local.Index > 0 }

// warns reports whether the user reads warnings: a program that asked for JSON does
// not, and the first node of a machine says what concerns all.
func (o *Options) warns() bool {
	c := o.Spec.Check
	return !o.quiet() && (c == nil || !c.JSON)
}

// findEnv gives the last value of a variable, as exec does.
func findEnv(env []string, name string) (value string, ok bool) {
	for _, kv := range slices.Backward(env) {
		if len(kv) > len(name) && kv[len(name)] == '=' && kv[:len(name)] == name {
			return kv[len(name)+1:], true
		}
	}
	return "", false
}

func hostName() string {
	h, err := os.Hostname()
	if err != nil {
		return "localhost"
	}
	return h
}
