// Package gather learns what a node is: all sources of facts at once, each with
// its own deadline.
//
// Invariants: Facts always returns, at the latest when the slowest source's time
// is over, and always with something; a source that is slow, hangs or fails costs
// its own facts only, and says so in Unknown. What may hang for good, a file
// system that is gone, is left behind in its goroutine. Nothing is opened for
// writing. The only children are those of Run, which ask ld.so; the GPU driver, which
// may crash its caller, is asked by the function that the caller gives.
package gather

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/gorun/gorun/envprop/ncclenv"
	"github.com/gorun/gorun/rendezvous/preflight"
	"github.com/gorun/gorun/rendezvous/preflight/ldso"
)

// Deadlines of the sources. Files answer in milliseconds unless their file
// system is remote; a driver that is loaded first takes seconds.
const (
	fileTime = 3 * time.Second
	loadTime = 6 * time.Second // files and some children that ask the loader, with deadlines of their own
	gpuTime  = 22 * time.Second

	moduleTime = time.Second      // many files, of which little depends
	lostTime   = 40 * time.Second // above the function's own: it cleans up
)

// Options is what the facts are about.
type Options struct {
	Root    string // stands before /proc, /sys, /etc and the like, for tests
	Node    preflight.Node
	Program preflight.Program
	Env     []string // of the workers
	Whole   bool     // gorun check: everything, whatever the program is
	// Run starts the loader of the workers' program in a child process; nil: it is not
	// asked.
	Run ldso.Runner
	// GPU asks the driver; nil: there is none.
	GPU func(context.Context) (facts preflight.GPU, unknown []string)
	// Lost looks behind the wrapper in front of the program; nil: there is none.
	Lost func(context.Context) (facts *preflight.Lost, unknown []string)

	nccl int // version code, 0 unknown
}

// Facts gathers everything.
func Facts(ctx context.Context, o Options) preflight.Facts {
	begin := time.Now()
	g := &gathering{Facts: preflight.Facts{Format: preflight.Format, Node: o.Node, Program: o.Program}}
	g.Program.Args = ncclenv.ShownWords(o.Program.Args)
	g.source(ctx, "host", fileTime, o.host)
	g.source(ctx, "network", fileTime, o.network)
	g.source(ctx, "program", fileTime, o.program)
	g.source(ctx, "modules", moduleTime, o.modules)
	g.source(ctx, "library", loadTime, o.library)
	if o.GPU != nil {
		g.source(ctx, "gpu", gpuTime, o.gpu)
	}
	if o.Lost != nil {
		g.source(ctx, preflight.LostSource, lostTime, o.lost)
	}
	g.wait("library") // the version of NCCL decides how it reads its files
	o.nccl = g.nccl()
	g.source(ctx, "settings", fileTime, o.settings)
	if o.GPU != nil {
		g.wait("settings") // a variable for NCCL may come from a file
		o.Env = append(slices.Clone(o.Env), g.fromFiles()...)
		g.source(ctx, "rdma", loadTime, o.rdma)
	}
	g.wait("")
	g.mu.Lock()
	defer g.mu.Unlock()
	g.TookMS = float64(time.Since(begin).Microseconds()) / 1000
	return g.Facts
}

// source is one of the things that facts come from. take puts what it found into
// the facts.
type source func(context.Context) (take func(*preflight.Facts), unknown []string)

// gathering collects what the sources give.
type gathering struct {
	preflight.Facts
	mu      sync.Mutex
	pending []*pending
}

type pending struct {
	name  string
	limit time.Duration
	done  chan struct{}
	late  <-chan struct{}
	stop  context.CancelFunc
	given bool // under gathering.mu: it has answered, or its time is over
}

// source starts one source.
func (g *gathering) source(ctx context.Context, name string, limit time.Duration, run source) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	p := &pending{name: name, limit: limit, done: make(chan struct{}), late: ctx.Done(), stop: cancel}
	g.pending = append(g.pending, p)
	go func() {
		defer close(p.done)
		take, unknown := run(ctx)
		g.mu.Lock()
		defer g.mu.Unlock()
		if p.given {
			return
		}
		p.given = true
		if take != nil {
			take(&g.Facts)
		}
		for _, why := range unknown {
			g.Unknown = append(g.Unknown, preflight.Unknown{Source: name, Why: why})
		}
	}()
}

// wait for a source, or with "" for every one, but for none beyond its time.
func (g *gathering) wait(name string) {
	for _, p := range g.pending {
		if name != "" && p.name != name {
			continue
		}
		select {
		case <-p.done:
		case <-p.late:
		}
		p.stop()
		g.mu.Lock()
		if !p.given {
			p.given = true
			g.Unknown = append(g.Unknown, preflight.Unknown{Source: p.name, Why: fmt.Sprintf("nothing came within %v", p.limit)})
		}
		g.mu.Unlock()
	}
}
