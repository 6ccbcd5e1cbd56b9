package rdma

import (
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
)

// sinceNetPlugins is the first version that tries a list of net plugins, and
// says "Failed to initialize any NET plugin".
const sinceNetPlugins = 22703

// Transport reproduces which network NCCL uses. kind is "IB", "Socket", or a
// plugin's file name. why is the rule that decided. err is the error that NCCL
// would fail with, "" if it works. Facts that were never gathered give neither
// kind nor err. A plugin's file does not show whether the plugin works, and why
// says so. code is NCCL's version, 0 unknown.
//
// Source: src/plugin/net.cc (src/net.cc before 2.27), ncclNetInit.
func Transport(f Facts, env func(string) string, code int) (kind, why, err string) {
	want := env("NCCL_NET")
	plugin, missing := netPlugin(f, env)
	verbs := verbsUsable(f, env)
	switch {
	case want == "":
	case strings.EqualFold(want, "Socket"):
		return "Socket", "NCCL_NET=" + want, ""
	case !isKnown(f):
	case strings.EqualFold(want, "IB"):
		if verbs == "" {
			return "IB", "NCCL_NET=" + want, ""
		}
		return "", "NCCL_NET=" + want, notFound(want, code) + ": " + verbs
	case plugin != nil:
		return filepath.Base(plugin.Path), "NCCL_NET=" + want + ", which " + plugin.Path + " has to be, and to work", ""
	default:
		if missing == "" {
			missing = "there is no net plugin libnccl-net.so"
		}
		return "", "NCCL_NET=" + want, notFound(want, code) + ": NCCL itself has only IB and Socket, and " + missing
	}
	switch {
	case !isKnown(f):
		return "", "what the node has for RDMA is not known", ""
	case plugin != nil:
		return filepath.Base(plugin.Path), "NCCL takes the net plugin " + plugin.Path + " if it works", ""
	case verbs == "":
		return "IB", count(len(HCAs(f, env))) + "; NCCL_NET is not set", ""
	}
	why = "NCCL_NET is not set, and IB does not work: " + verbs
	if missing != "" {
		why += "; no plugin: " + missing
	}
	return "Socket", why, ""
}

// isKnown reports whether Gather made the facts. Gather always sets something
// about libibverbs.
func isKnown(f Facts) bool {
	return f.Verbs != Library{} || len(f.Devices) > 0
}

// DisablesPlugins reports whether the environment keeps NCCL from every plugin
// of a kind, "net" or "tuner", whatever the node had when the facts were
// gathered.
func DisablesPlugins(env func(string) string, kind string) bool {
	return strings.EqualFold(env("NCCL_"+strings.ToUpper(kind)+"_PLUGIN"), "none")
}

// netPlugin returns the first net plugin that NCCL can load. missing says why
// another plugin that the user asked for cannot be loaded.
func netPlugin(f Facts, env func(string) string) (p *Plugin, missing string) {
	if DisablesPlugins(env, "net") {
		return nil, ""
	}
	for i := range f.Plugin {
		switch p := &f.Plugin[i]; {
		case p.Name != "net":
		case p.Error == "":
			return p, missing
		case missing == "":
			missing = p.Error
		}
	}
	return nil, missing
}

func notFound(want string, code int) string {
	if code != 0 && code < sinceNetPlugins {
		return fmt.Sprintf("Error: network %s not found.", want)
	}
	return "Failed to initialize any NET plugin"
}

func count(n int) string {
	if n == 1 {
		return "1 active port"
	}
	return strconv.Itoa(n) + " active ports"
}

func isRange(err error) bool { return errors.Is(err, strconv.ErrRange) }
