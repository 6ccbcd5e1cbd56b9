package rdma

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gorun/gorun/rendezvous/preflight/loader/elftest"
)

// machine is a folder that stands for a node's "/".
type machine struct {
	testing.TB
	root string
}

func newMachine(t testing.TB) machine { return machine{t, t.TempDir()} }

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

// library writes a shared library into a default folder of the loader.
func (m machine) library(name string, symbols ...string) {
	m.Helper()
	elftest.Write(m, filepath.Join(m.root, "usr/lib64", name), elftest.Library{Soname: name, Symbols: symbols})
}

// verbs installs libibverbs with the mlx5 provider.
func (m machine) verbs() {
	m.library("libibverbs.so.1", "ibv_get_device_list", symbolVersion)
	m.write("etc/libibverbs.d/mlx5.driver", "driver mlx5\n")
	m.library("libibverbs/libmlx5-rdmav34.so")
}

// adapter is mlx5_n with one port and its file in /dev.
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
	f, unknown := Gather(m.Context(), Options{Root: m.root, Env: env})
	if len(unknown) > 0 {
		m.Errorf("unknown: %q", unknown)
	}
	return f
}

// vars is an environment of "NAME=value" words.
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
