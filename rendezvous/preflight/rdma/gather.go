package rdma

import (
	"context"
	"strings"

	"github.com/gorun/gorun/rendezvous/preflight/loader"
	"github.com/gorun/gorun/rendezvous/preflight/loader/tree"
)

// Options say where to look, and for whom.
type Options struct {
	Root string   // "" is "/"
	Env  []string // of the workers, with what nccl.conf files add
	Dir  string   // working directory of the workers, for relative paths in LD_LIBRARY_PATH
	Code int      // NCCL's version, 0 unknown: taken as the newest
	// NCCL is the libnccl that opens libibverbs and plugins, whose RPATH counts;
	// nil: unknown.
	NCCL *loader.Object
}

// Gather reads what NCCL would find; the strings say what stays unknown and why.
func Gather(ctx context.Context, o Options) (Facts, []string) {
	g := &gatherer{o: o, files: tree.New(o.Root)}
	g.libraries = loader.New(loader.Config{Root: o.Root, Dir: o.Dir, LibraryPath: g.env("LD_LIBRARY_PATH"), Preload: g.env("LD_PRELOAD")})
	var f Facts
	f.Devices = g.devices(ctx)
	f.PeerMem = g.peerMem()
	f.Nodes = g.nodes(ctx)
	f.Verbs = g.verbs()
	if f.Verbs.Path != "" {
		f.Provider = g.providers(f.Verbs.Path)
	}
	f.Plugin = g.plugins(ctx)
	if err := ctx.Err(); err != nil {
		g.unknown = append(g.unknown, "some of the RDMA devices and plugins: "+err.Error())
	}
	return f, g.unknown
}

type gatherer struct {
	o         Options
	files     tree.Tree
	libraries *loader.Resolver
	unknown   []string
}

// env is a variable of the workers; "" when it is not set.
func (g *gatherer) env(name string) string {
	v, _ := g.lookup(name)
	return v
}

func (g *gatherer) lookup(name string) (string, bool) {
	for i := len(g.o.Env) - 1; i >= 0; i-- { // as os/exec: the last counts
		if v, ok := strings.CutPrefix(g.o.Env[i], name+"="); ok {
			return v, true
		}
	}
	return "", false
}

// find is what dlopen by libnccl finds.
func (g *gatherer) find(name string) (loader.Found, error) {
	return g.libraries.Find(name, g.o.NCCL)
}

// line is the first line of a small file of /sys, "" when it cannot be read.
func (g *gatherer) line(path string) string {
	b, _, err := g.files.ReadHead(path, 256)
	if err != nil {
		return ""
	}
	s, _, _ := strings.Cut(string(b), "\n")
	return strings.ToValidUTF8(strings.TrimSpace(s), "?")
}
