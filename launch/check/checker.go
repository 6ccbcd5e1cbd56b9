package check

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/gorun/gorun/envprop"
	"github.com/gorun/gorun/internal/accept"
	"github.com/gorun/gorun/internal/smallfile"
	"github.com/gorun/gorun/launch/spec"
	"github.com/gorun/gorun/rendezvous"
	"github.com/gorun/gorun/rendezvous/preflight"
	"github.com/gorun/gorun/rendezvous/preflight/gather"
	"github.com/gorun/gorun/rendezvous/preflight/netif"
	"github.com/gorun/gorun/rendezvous/preflight/probe"
	"github.com/gorun/gorun/rendezvous/preflight/rules"
)

// Policy holds the user's options for the comparison.
type Policy struct {
	spec.Checks
	Conflict envprop.Conflict
	Trusted  bool // the nodes prove a secret to each other; a Checker learns it at Start
	MaxNodes int
}

// Options holds what a Checker needs.
type Options struct {
	Policy
	Ports   probe.Ports     // that the probes may open; zero: all
	Env     []string        // of gorun
	Request envprop.Request // what the user asks of the workers' environment on this node
	Facts   gather.Options  // Program, Run, GPU and WrapperLoss; Start fills in the others
	Pool    *accept.Pool    // counts the connections to the probes' ports

	Post        func(rendezvous.Event)
	Console     Console
	OtherPrints bool // another agent at this terminal shows the tables
	// OnFindings receives the findings about a world that starts.
	OnFindings func([]preflight.Finding)
	Wait       *sync.WaitGroup // for all goroutines
}

// Console is the terminal. Any goroutine may write to it.
type Console interface {
	Say(format string, args ...any) // one line
	Table(lines string)
}

// Checker is the agent's part of the preflight. Only the agent's loop may call its
// methods. The goroutines that they start share only what mu guards.
type Checker struct {
	stop context.CancelFunc // cancels the last Answer
	opts Options
	node rendezvous.Node
	key  string // Trust.Key

	mu      sync.Mutex
	shown   map[string]bool // tables and notes that were shown
	sources probe.Ports     // ports from which probes connect
	torch   string          // see Torch
	goNCCL  string          // see GoNCCL
}

// Needed reports whether the job needs a comparison. Several nodes need one, because
// they need one environment. A single node needs one if it is special: it has GPUs, or
// a wrapper in front of the program. gorun check always needs one.
func (p *Policy) Needed(special bool) bool {
	return p.Check != nil || p.MaxNodes > 1 || p.Preflight != spec.PreflightOff && special
}

// ValidateIgnore returns an error for a word of --ignore that is neither the id nor the
// name of a check. Without the error a misspelt check would still run.
func ValidateIgnore(words []string) error {
	if len(words) == 0 {
		return nil
	}
	all := rules.All()
	for _, word := range words {
		if !slices.ContainsFunc(all, func(r preflight.Rule) bool { return r.IsNamed(word) }) {
			return fmt.Errorf("cannot use --ignore %s: there is no such check; it takes ids such as V01 and names such as nccl-version (docs/checks.md lists them)", word)
		}
	}
	return nil
}

// New returns the checker of a node.
func New(o Options) *Checker {
	return &Checker{opts: o, shown: map[string]bool{}}
}

// Trust is what the nodes of a job prove to each other.
type Trust struct {
	Key    string // probes prove it to the nodes of this job; not empty
	Secret bool   // it is derived from a secret
}

// Start gathers the facts of the node, whose addresses are known now. It posts them
// together with the node's report on its environment. With --preflight off there
// are no facts.
func (x *Checker) Start(ctx context.Context, node rendezvous.Node, trust Trust) {
	x.node, x.key, x.opts.Trusted = node, trust.Key, trust.Secret
	x.opts.Wait.Go(func() {
		env := x.environment(ctx)
		if x.opts.Preflight == spec.PreflightOff {
			x.opts.Post(rendezvous.Facts{Body: []byte("null"), Env: env})
			return
		}
		n := &x.node
		rank := n.NodeRank
		if x.opts.MaxNodes == 1 { // the rank is always 0
			rank = -1
		}
		o := x.opts.Facts
		o.Env, o.EveryFact = x.workerEnvironment(), x.opts.Check != nil
		o.Node = preflight.Node{
			ID: string(n.ID), Name: n.Name(), Host: n.Host, Addr: n.Addr, Version: n.Version, Protocol: n.Protocol,
			Workers: n.Workers, Role: n.Role, NodeRank: rank, RunID: n.RunID,
		}
		f := gather.Facts(ctx, o)
		x.setLibraries(&f)
		x.applyIface(&f)
		x.listenForProbes(ctx, &f)
		body, err := preflight.Encode(f)
		if err != nil {
			x.opts.Console.Say("preflight: %v", err)
			body = []byte("null")
		}
		x.save(body)
		x.opts.Post(rendezvous.Facts{Body: body, Env: env})
	})
}

// Compare decides about a world and posts the decision. The checks of ten thousand
// nodes take a second, so they run beside the agent's loop.
func (x *Checker) Compare(ctx context.Context, c rendezvous.Compare) {
	x.opts.Wait.Go(func() {
		v := Decide(&x.opts.Policy, c)
		v.setTime(time.Now())
		for _, note := range v.Notes {
			if x.isFirst(note) {
				x.opts.Console.Say("%s", note)
			}
		}
		if v.Warnings != "" && x.isFirst(v.Warnings) && !x.opts.OtherPrints {
			x.opts.Console.Table(v.Warnings)
		}
		if v.Env != nil {
			x.opts.OnFindings(v.Findings)
		}
		x.opts.Post(v.Compared)
	})
}

// setLibraries stores what the workers' environment depends on.
func (x *Checker) setLibraries(f *preflight.Facts) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if n := f.Libraries.GoNCCL; n != nil && n.Error == "" {
		x.goNCCL = n.Path
	}
	if f.Libraries.TorchCUDA != "" {
		x.torch = f.Libraries.Torch
	}
}

// Torch returns the version of the torch that the workers will import, if it was built for
// CUDA, else "". It is known once the facts are posted.
func (x *Checker) Torch() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.torch
}

// GoNCCL returns the path of the libnccl that Go workers open, "" if none was found. It is
// known once the facts are posted.
func (x *Checker) GoNCCL() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.goNCCL
}

// setTime sets the time at which the world was refused.
func (v *Decision) setTime(now time.Time) {
	if v.Outcome == nil || v.Outcome.Cause == nil {
		return
	}
	v.Outcome.Cause.Time = now
	for i := range v.Outcome.Failures {
		v.Outcome.Failures[i].Time = now
	}
}

// isFirst reports whether a table or a note was not shown before. A restart must not
// show it again.
func (x *Checker) isFirst(table string) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	known := x.shown[table]
	x.shown[table] = true
	return !known
}

// save writes the facts to the file of gorun check --save.
func (x *Checker) save(body []byte) {
	c := x.opts.Check
	if c == nil || c.Save == "" {
		return
	}
	if err := smallfile.Save(c.Save, append(body, '\n')); err != nil {
		x.opts.Console.Say("cannot save the facts of this node in %s: %v", c.Save, err)
	}
}

// listenForProbes opens the ports that the other nodes probe. It closes them when ctx
// ends.
func (x *Checker) listenForProbes(ctx context.Context, f *preflight.Facts) {
	if x.opts.MaxNodes == 1 {
		return
	}
	addrs := probeAddresses(f, x.opts.Iface == "auto")
	if len(addrs) == 0 {
		return
	}
	ports := x.opts.Ports
	if ports.Hi == 0 { // the ports that the workers' libraries would get
		ports = ephemeralPorts(f.Network)
	}
	x.setSources(f.Network)
	s, errs := probe.Listen(x.probeOptions(), addrs, ports)
	for _, err := range errs {
		f.Unknown = append(f.Unknown, preflight.Unknown{Source: "probe", Why: err.Error()})
	}
	f.Listeners = s.Listeners()
	x.opts.Wait.Go(func() { s.Serve(ctx) })
}

// ephemeralPorts returns the ports that the kernel assigns to programs.
func ephemeralPorts(n netif.Facts) probe.Ports {
	return probe.Ports{Lo: n.PortFirst, Hi: n.PortLast, Reserved: n.Reserved}
}

func (x *Checker) setSources(n netif.Facts) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.sources = ephemeralPorts(n)
}

func (x *Checker) probeOptions() probe.Options {
	x.mu.Lock()
	defer x.mu.Unlock()
	return probe.Options{Key: x.key, ID: string(x.node.ID), Ports: x.sources, Pool: x.opts.Pool}
}

// applyIface applies --iface NAME and --iface CIDR on this node.
func (x *Checker) applyIface(f *preflight.Facts) {
	want := x.opts.Iface
	if want == "" || want == "auto" {
		return
	}
	if err := requestInterface(f, want); err != nil {
		f.Unknown = append(f.Unknown, preflight.Unknown{Source: ifaceSource, Why: fmt.Sprintf("--iface %s: %v", want, err)})
	}
}
