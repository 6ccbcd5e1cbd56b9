package rdma

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gorun/gorun/rendezvous/preflight/ldso"
	"github.com/gorun/gorun/rendezvous/preflight/ldso/ldsotest"
)

// machine is a folder that stands for a node's "/".
type machine struct {
	testing.TB
	root string
}

func newMachine(t testing.TB) machine {
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return machine{t, root}
}

func (m machine) write(path, content string) {
	m.Helper()
	p := filepath.Join(m.root, path)
	if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
		m.Fatal(err)
	}
	if err := os.WriteFile(p, []byte(content), 0o600); err != nil {
		m.Fatal(err)
	}
}

func (m machine) link(path, to string) {
	m.Helper()
	p := filepath.Join(m.root, path)
	if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
		m.Fatal(err)
	}
	if err := os.Symlink(to, p); err != nil {
		m.Fatal(err)
	}
}

// library writes a shared library into the folder of the loader.
func (m machine) library(name string, symbols ...string) {
	m.Helper()
	m.libraryAt("usr/lib64/"+name, symbols...)
}

// libraryAt writes a shared library that exports the symbols; those with a dot
// are versions.
func (m machine) libraryAt(path string, symbols ...string) {
	m.Helper()
	l := ldsotest.Library{Soname: filepath.Base(path)}
	for _, s := range symbols {
		if strings.Contains(s, ".") {
			l.Versions = append(l.Versions, s)
		} else {
			l.Symbols = append(l.Symbols, s)
		}
	}
	ldsotest.Write(m, filepath.Join(m.root, path), l)
}

// at returns the real path of a file of the machine.
func (m machine) at(path string) string { return filepath.Join(m.root, path) }

// options returns the options for a node whose loader searches the machine's
// folder last.
func (m machine) options(env ...string) Options {
	path := m.at("usr/lib64")
	for _, e := range env {
		if dirs, ok := strings.CutPrefix(e, "LD_LIBRARY_PATH="); ok {
			path = dirs + ":" + path
		}
	}
	env = append(env, "LD_LIBRARY_PATH="+path)
	loader := ldso.Loader{Run: ldsotest.Run, Env: env, Dir: "/"}
	return Options{Root: m.root, Env: env, Find: func(ctx context.Context, names []string) (map[string]ldso.Request, error) {
		found, err := loader.Find(ctx, names)
		for name, r := range found { // the real machine may have some of them
			if r.Path != "" && !strings.HasPrefix(r.Path, m.root) {
				found[name] = ldso.Request{Name: name, Err: name + ": not found"}
			}
		}
		return found, err
	}}
}

// verbs installs libibverbs with the mlx5 provider.
func (m machine) verbs() {
	m.library("libibverbs.so.1", "ibv_get_device_list", symbolVersion)
	m.write("etc/libibverbs.d/mlx5.driver", "driver mlx5\n")
	m.library("libibverbs/libmlx5-rdmav34.so")
}

// adapter adds mlx5_n with one port and its file in /dev.
func (m machine) adapter(n int, state, link string, gids ...string) {
	m.Helper()
	dir := fmt.Sprintf("sys/class/infiniband/mlx5_%d/", n)
	m.write(dir+"fw_ver", "28.39.1002\n")
	m.write(dir+"board_id", "MT_0000000838\n")
	m.write(dir+"hca_type", "MT4129\n")
	m.write(dir+"node_guid", "946d:ae03:00ab:cdef\n")
	m.link(dir+"device/driver", "../../../../bus/pci/drivers/mlx5_core")
	m.write("sys/bus/pci/drivers/mlx5_core/bind", "")
	port := dir + "ports/1/"
	m.write(port+"state", state+"\n")
	m.write(port+"phys_state", "5: LinkUp\n")
	m.write(port+"rate", "400 Gb/sec (4X NDR)\n")
	m.write(port+"link_layer", link+"\n")
	for i, g := range gids {
		address, kind, _ := strings.Cut(g, "|")
		m.write(fmt.Sprintf("%sgids/%d", port, i), address+"\n")
		if kind != "" {
			m.write(fmt.Sprintf("%sgid_attrs/types/%d", port, i), kind+"\n")
			m.write(fmt.Sprintf("%sgid_attrs/ndevs/%d", port, i), "eth0\n")
		}
	}
	verbs := fmt.Sprintf("uverbs%d", n)
	m.write("sys/class/infiniband_verbs/"+verbs+"/ibdev", fmt.Sprintf("mlx5_%d\n", n))
	m.write("dev/infiniband/"+verbs, "")
}

func (m machine) gather(env ...string) Facts {
	m.Helper()
	f, unknown := Gather(m.Context(), m.options(env...))
	if len(unknown) > 0 {
		m.Errorf("unknown: %q", unknown)
	}
	return f
}

// vars returns an environment of "NAME=value" words.
func vars(words ...string) func(string) string {
	return func(name string) string {
		for _, w := range words {
			if v, ok := strings.CutPrefix(w, name+"="); ok {
				return v
			}
		}
		return ""
	}
}
