package rdma

import (
	"context"
	"slices"
	"strings"

	"github.com/gorun/gorun/internal/environ"
	"github.com/gorun/gorun/internal/smallfile"
	"github.com/gorun/gorun/rendezvous/preflight/ldso"
)

// Options says where Gather reads, and for which workers.
type Options struct {
	Root string   // prefix of /sys, /dev and /etc, for tests
	Env  []string // of the workers, with what nccl.conf files add
	Code int      // NCCL's version; 0: unknown, treated as the newest
	// Find returns what dlopen of each name finds. It leaves out names without
	// an answer.
	Find func(ctx context.Context, names []string) (map[string]ldso.Request, error)
}

// Gather reads what NCCL would find. The strings say what stays unknown and
// why.
func Gather(ctx context.Context, o Options) (Facts, []string) {
	g := &gatherer{o: o}
	var f Facts
	f.Devices = g.devices(ctx)
	f.PeerMem = g.peerMem()
	f.Nodes = g.nodes(ctx)
	var err error
	if g.found, err = o.Find(ctx, g.names()); err != nil {
		g.unknown = append(g.unknown, "libibverbs and the plugins: "+err.Error())
	} else {
		f.Verbs = g.verbs()
		if f.Verbs.Path != "" {
			f.Provider = g.providers(f.Verbs.Path)
		}
		f.Plugin = g.plugins(ctx)
	}
	if err := ctx.Err(); err != nil {
		g.unknown = append(g.unknown, "some of the RDMA devices and plugins: "+err.Error())
	}
	return f, g.unknown
}

type gatherer struct {
	o       Options
	found   map[string]ldso.Request
	unknown []string
}

// names returns the names of all libraries that NCCL may open, each once.
func (g *gatherer) names() []string {
	names := slices.Clone(g.verbsNames())
	for _, asked := range g.netPlugins() {
		names = append(names, pluginNames(asked, "libnccl-net")...)
	}
	names = append(names, pluginNames(environ.Get(g.o.Env, "NCCL_TUNER_PLUGIN"), "libnccl-tuner")...)
	for _, driver := range g.configuredDrivers() {
		names = append(names, providerLibrary(driver))
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// line returns the first line of a small file of /sys, "" if it cannot be read.
func (g *gatherer) line(path string) string {
	b, _, err := smallfile.Read(g.o.Root+path, 256)
	if err != nil {
		return ""
	}
	s, _, _ := strings.Cut(string(b), "\n")
	return strings.ToValidUTF8(strings.TrimSpace(s), "?")
}
