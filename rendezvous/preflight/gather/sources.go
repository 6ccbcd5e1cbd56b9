package gather

import (
	"context"
	"time"

	"github.com/gorun/gorun/envprop/ncclenv"
	"github.com/gorun/gorun/rendezvous/preflight"
	"github.com/gorun/gorun/rendezvous/preflight/host"
	"github.com/gorun/gorun/rendezvous/preflight/ldso"
	"github.com/gorun/gorun/rendezvous/preflight/library"
	"github.com/gorun/gorun/rendezvous/preflight/netif"
	"github.com/gorun/gorun/rendezvous/preflight/rdma"
)

// defaultRunID is the run id of jobs that have none; many jobs share it.
const defaultRunID = "none"

// brief reports whether the worker is a plain program of a node without GPUs.
// For such a worker no rule needs limits or what /sys knows of interfaces, and
// the job starts sooner without them.
func (o Options) brief() bool { return !o.EveryFact && o.GPU == nil && o.Program.Python == "" }

func (o Options) host(ctx context.Context) (func(*preflight.Facts), []string) {
	in := host.Options{Root: o.Root, Env: o.Env, Dir: o.Program.Dir, Driver: o.GPU != nil, Brief: o.brief()}
	if o.GPU != nil && o.Node.RunID != defaultRunID { // only jobs with GPUs justify reading every process
		in.RunID = o.Node.RunID
	}
	f, unknown := host.Gather(ctx, in)
	return func(all *preflight.Facts) { all.Host = f }, unknown
}

func (o Options) library(ctx context.Context) (func(*preflight.Facts), []string) {
	f, unknown := library.Gather(ctx, library.Options{
		Run: o.Run, Brief: o.brief(), Root: o.Root, Env: o.Env, Dir: o.Program.Dir, Program: o.Program.Path,
		Python: o.Program.Python, Args: o.Program.Args, Script: o.Program.Script,
	})
	return func(all *preflight.Facts) { all.Libraries = f }, unknown
}

// network asks a name server only for programs that may use Gloo.
func (o Options) network(ctx context.Context) (func(*preflight.Facts), []string) {
	in := netif.Options{Root: o.Root, Brief: o.brief()}
	if o.Program.Python != "" {
		in.NameServer = nameServer
	}
	f, unknown := netif.Gather(ctx, in)
	return func(all *preflight.Facts) { all.Network = f }, unknown
}

func (o Options) settings(ctx context.Context) (func(*preflight.Facts), []string) {
	in := ncclenv.Options{Root: o.Root, Env: o.Env, Dir: o.Program.Dir, NCCL: o.nccl}
	values, confs, unknown := ncclenv.Gather(ctx, in)
	files := ncclenv.NamedFiles(in, values)
	return func(all *preflight.Facts) { all.Settings, all.ConfFiles, all.Files = values, confs, files }, unknown
}

func (o Options) rdma(ctx context.Context) (func(*preflight.Facts), []string) {
	loader := ldso.Loader{Run: o.Run, Env: o.Env, Dir: o.Program.Dir}
	f, unknown := rdma.Gather(ctx, rdma.Options{Root: o.Root, Env: o.Env, Code: o.nccl, Find: loader.Find})
	return func(all *preflight.Facts) { all.RDMA = f }, unknown
}

func (o Options) gpu(ctx context.Context) (func(*preflight.Facts), []string) {
	f, unknown := o.GPU(ctx)
	return func(all *preflight.Facts) { all.GPU = f }, unknown
}

func (o Options) lost(ctx context.Context) (func(*preflight.Facts), []string) {
	f, unknown := o.WrapperLoss(ctx)
	return func(all *preflight.Facts) { all.WrapperLoss = f }, unknown
}

func (o Options) program(context.Context) (func(*preflight.Facts), []string) {
	hash, err := fileHash(o.Root, o.Program)
	if err != nil {
		return nil, []string{err.Error()}
	}
	return func(all *preflight.Facts) { all.Program.Hash = hash }, nil
}

func (o Options) modules(ctx context.Context) (func(*preflight.Facts), []string) {
	list, more, err := modules(ctx, o.Root, o.Program)
	if err != nil {
		return nil, []string{err.Error()}
	}
	return func(all *preflight.Facts) { all.Program.Modules, all.Program.More = list, more }, nil
}

// nccl returns the version of NCCL that the workers load.
func (g *gathering) nccl() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	if n := g.Libraries.NCCL; n != nil {
		return n.Code
	}
	return 0
}

// fromFiles returns the variables that nccl.conf files add to the environment.
func (g *gathering) fromFiles() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	var out []string
	for _, v := range g.Settings {
		if v.Source != ncclenv.Environment {
			out = append(out, v.Name+"="+v.Value)
		}
	}
	return out
}

// nameServer is how long a name server may be asked for this host's name.
const nameServer = 500 * time.Millisecond
