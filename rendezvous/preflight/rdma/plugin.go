package rdma

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/gorun/gorun/internal/environ"
)

const (
	maxPluginNames = 14       // NCCL_NET_MAX_PLUGINS without the two that are built into NCCL
	maxHashed      = 64 << 20 // bytes
	maxVersions    = 64
)

// plugins finds the net plugins that NCCL would try, in its order, and the tuner.
// Source: src/plugin/net.cc, plugin_open.cc, tuner.cc.
func (g *gatherer) plugins(ctx context.Context) []Plugin {
	var out []Plugin
	for _, name := range g.netPlugins() {
		p := Plugin{Name: "net", Asked: name}
		if g.load(ctx, &p, "libnccl-net", "ncclNetPlugin_v") || name != "" {
			out = append(out, p)
		}
	}
	if p, ok := g.tuner(ctx, out); ok {
		out = append(out, p)
	}
	return out
}

// netPlugins returns the names in NCCL_NET_PLUGIN; "" for the default.
func (g *gatherer) netPlugins() []string {
	list, set := environ.Lookup(g.o.Env, "NCCL_NET_PLUGIN")
	if !set {
		return []string{""}
	}
	var names []string
	for name := range strings.FieldsFuncSeq(list, func(c rune) bool { return c == ',' }) {
		if len(names) == maxPluginNames || strings.EqualFold(list, "none") {
			break
		}
		names = append(names, name)
	}
	return names
}

// tuner finds NCCL_TUNER_PLUGIN or libnccl-tuner.so, else the net plugin if
// that contains a tuner.
func (g *gatherer) tuner(ctx context.Context, net []Plugin) (Plugin, bool) {
	p := Plugin{Name: "tuner", Asked: environ.Get(g.o.Env, "NCCL_TUNER_PLUGIN")}
	if strings.EqualFold(p.Asked, "none") {
		return p, false
	}
	if g.load(ctx, &p, "libnccl-tuner", "ncclTunerPlugin_v") {
		return p, true
	}
	for _, n := range net {
		if n.Error == "" && slices.ContainsFunc(n.Versions, func(s string) bool { return strings.HasPrefix(s, "ncclTunerPlugin_v") }) {
			n.Name, n.Asked = "tuner", ""
			return n, true
		}
	}
	return p, p.Asked != ""
}

// pluginNames returns the file names that NCCL tries for a plugin.
func pluginNames(asked, prefix string) []string {
	switch {
	case asked == "":
		return []string{prefix + ".so"}
	case strings.Contains(asked, "/"), strings.HasPrefix(asked, "lib") && strings.HasSuffix(asked, ".so"):
		return []string{asked}
	}
	return []string{asked, prefix + "-" + asked + ".so"}
}

// load finds a plugin and reads it. It returns false if there is no file. A
// file that exports no symbol with the prefix must is no plugin for NCCL.
func (g *gatherer) load(ctx context.Context, p *Plugin, prefix, must string) bool {
	for _, name := range pluginNames(p.Asked, prefix) {
		found := g.found[name]
		if found.Path != "" {
			p.Path, p.Error = found.Path, ""
			break
		}
		p.Error = cmp.Or(found.Err, name+": the loader gave no answer")
		if n := len(found.Rejected); n > 0 { // the file exists but cannot be loaded
			p.Path = found.Rejected[n-1].Path
		}
	}
	if p.Error != "" {
		return p.Path != ""
	}
	if err := g.read(ctx, p); err != nil {
		p.Error = err.Error()
	} else if !slices.ContainsFunc(p.Versions, func(s string) bool { return strings.HasPrefix(s, must) }) {
		p.Error = fmt.Sprintf("%s exports no %s*: NCCL does not use it", p.Path, must)
	}
	return true
}

// read sets what a plugin exports, and its hash.
func (g *gatherer) read(ctx context.Context, p *Plugin) error {
	names, err := namesIn(p.Path)
	for _, name := range names {
		for _, prefix := range []string{"ncclNetPlugin_v", "ncclCollNetPlugin_v", "ncclTunerPlugin_v", "ncclProfiler_v", "ncclEnvPlugin_v", "ncclGinPlugin_v"} {
			if strings.HasPrefix(name, prefix) && len(name) < len(prefix)+4 && len(p.Versions) < maxVersions {
				p.Versions = append(p.Versions, name)
			}
		}
	}
	slices.SortFunc(p.Versions, compareNames)
	if err != nil {
		return err
	}
	p.Hash, err = g.hash(ctx, p.Path)
	return err
}

// hash returns the hash of a file, "" if the file is too large.
func (g *gatherer) hash(ctx context.Context, path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || info.Size() > maxHashed {
		return "", err
	}
	sum := sha256.New()
	for off := int64(0); off < info.Size(); off += 1 << 20 {
		if ctx.Err() != nil {
			return "", nil
		}
		if _, err := io.Copy(sum, io.NewSectionReader(f, off, min(1<<20, info.Size()-off))); err != nil {
			return "", fmt.Errorf("%s: %w", path, err)
		}
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}
