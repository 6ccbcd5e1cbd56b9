package e2e_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gorun/gorun/rendezvous/preflight/ldso/ldsotest"
)

// machine is one machine of a fleet. An agent sees the settings made before its start.
type machine struct {
	place
	testing.TB
	nics []nic
	env  []string
}

// layer makes a folder whose path has no comma, because overlayfs cannot use a comma.
func layer(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "gorun-e2e-host-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// ip returns the address at which the other agents reach the machine.
func (m *machine) ip() string {
	best := m.nics[0]
	for _, n := range m.nics {
		if n.net == mgmt {
			best = n
		}
	}
	ip, _, _ := strings.Cut(best.addrs, "/")
	return ip
}

// write puts a file into the machine's layer; the path is absolute on the machine.
func (m *machine) write(path, text string) {
	m.Helper()
	path = m.file(path)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		m.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		m.Fatal(err)
	}
}

// hide takes away a file that the real machine may have.
func (m *machine) hide(path string) {
	m.Helper()
	if _, err := os.Lstat(path); err != nil {
		return
	}
	m.node(path, unix.S_IFCHR, 0) // for overlayfs this device means: no file here
}

func (m *machine) node(path string, mode uint32, dev uint64) {
	m.Helper()
	path = m.file(path)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		m.Fatal(err)
	}
	if err := unix.Mknod(path, mode, int(dev)); err != nil {
		m.Fatal(err)
	}
}

// on makes a command run on the machine.
func (m *machine) on(cmd *exec.Cmd) *exec.Cmd {
	m.Helper()
	b, err := json.Marshal(m.place)
	if err != nil {
		m.Fatal(err)
	}
	file, err := os.CreateTemp(m.Layer, "place-*.json")
	if err != nil {
		m.Fatal(err)
	}
	defer file.Close()
	if _, err := file.Write(b); err != nil {
		m.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		m.Fatal(err)
	}
	cmd.Args = append([]string{self, playFlag, playHost, file.Name(), cmd.Path}, cmd.Args[1:]...)
	cmd.Path = self
	cmd.Env = slices.DeleteFunc(cmd.Env, func(entry string) bool { return entry == hideGPUs }) // the machine has its own GPUs
	cmd.Env = append(cmd.Env, m.env...)
	return cmd
}

// device makes a device file that can be opened.
func (m *machine) device(path string) {
	_ = os.Remove(m.file(path))
	m.node(path, unix.S_IFCHR|0o666, unix.Mkdev(1, 3))
}

func (m *machine) library(path string, l ldsotest.Library) {
	m.Helper()
	ldsotest.Write(m.TB, m.file(path), l)
}

func (m *machine) link(path, target string) {
	m.Helper()
	path = m.file(path)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		m.Fatal(err)
	}
	_ = os.Remove(path)
	if err := os.Symlink(target, path); err != nil {
		m.Fatal(err)
	}
}

// file returns the real path of a file of the machine.
func (m *machine) file(path string) string { return filepath.Join(m.Layer, path) }

// mayMount returns why this process cannot make the mounts of a machine, or nil.
var mayMount = sync.OnceValue(func() error {
	return exec.Command("unshare", "--mount", "--uts", "mount", "-t", "overlay", "overlay", "-o", "lowerdir=/etc:/opt", "/mnt").Run()
})
