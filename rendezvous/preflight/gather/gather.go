// Package gather learns the facts of a node from all sources at once, each with
// its own deadline.
//
// Invariants: Facts always returns, at the latest when the slowest source's
// time is over, and always with some facts. A source that is slow, hangs or
// fails costs its own facts only, which are then listed in Unknown. Work that
// may hang for ever, such as reading a lost file system, stays behind in its
// goroutine. Nothing is opened for writing. The only children are those of Run,
// which ask ld.so. The function in Options.GPU asks the GPU driver, which may
// crash its caller.
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

// These are the deadlines of the sources. Files answer in milliseconds unless
// their file system is remote. A driver that has to be loaded first takes
// seconds.
const (
	fileTime = 3 * time.Second
	loadTime = 6 * time.Second // files and some children that ask the loader, which have deadlines of their own
	gpuTime  = 22 * time.Second

	moduleTime = time.Second      // many files, which few findings need
	lostTime   = 40 * time.Second // longer than the function's own time, because it cleans up
)

// Options says what the facts are about.
type Options struct {
	Root      string // prefix of /proc, /sys, /etc and the like, for tests
	Node      preflight.Node
	Program   preflight.Program
	Env       []string // of the workers
	EveryFact bool     // for gorun check: every fact, whatever the program is
	// Run starts the loader of the workers' program in a child process; nil:
	// the loader is not asked.
	Run ldso.Runner
	// GPU asks the driver; nil: there is no driver.
	GPU func(context.Context) (facts preflight.GPU, unknown []string)
	// WrapperLoss looks behind the wrapper in front of the program; nil: there is no
	// wrapper.
	WrapperLoss func(context.Context) (facts *preflight.WrapperLoss, unknown []string)

	nccl int // version code, 0 unknown
}

// Facts gathers all facts of the node.
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
	if o.WrapperLoss != nil {
		g.source(ctx, preflight.WrapperSource, lostTime, o.lost)
	}
	g.wait("library") // NCCL's version decides how it reads its files
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

// source gathers the facts of one source. set puts them into the facts of the
// node.
type source func(context.Context) (set func(*preflight.Facts), unknown []string)

// gathering collects the results of the sources.
type gathering struct {
	preflight.Facts
	mu      sync.Mutex
	pending []*pending
}

type pending struct {
	name  string
	limit time.Duration
	done  chan struct{}
	over  <-chan struct{}
	stop  context.CancelFunc
	ended bool // under gathering.mu: the source has answered, or its time is over
}

// source starts one source.
func (g *gathering) source(ctx context.Context, name string, limit time.Duration, run source) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	p := &pending{name: name, limit: limit, done: make(chan struct{}), over: ctx.Done(), stop: cancel}
	g.pending = append(g.pending, p)
	go func() {
		defer close(p.done)
		set, unknown := run(ctx)
		g.mu.Lock()
		defer g.mu.Unlock()
		if p.ended {
			return
		}
		p.ended = true
		if set != nil {
			set(&g.Facts)
		}
		for _, why := range unknown {
			g.Unknown = append(g.Unknown, preflight.Unknown{Source: name, Why: why})
		}
	}()
}

// wait waits for a source, or with "" for every source, but never longer than
// the source's time.
func (g *gathering) wait(name string) {
	for _, p := range g.pending {
		if name != "" && p.name != name {
			continue
		}
		select {
		case <-p.done:
		case <-p.over:
		}
		p.stop()
		g.mu.Lock()
		if !p.ended {
			p.ended = true
			g.Unknown = append(g.Unknown, preflight.Unknown{Source: p.name, Why: fmt.Sprintf("nothing came within %v", p.limit)})
		}
		g.mu.Unlock()
	}
}
