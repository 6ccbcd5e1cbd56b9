package tree_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/gorun/gorun/rendezvous/preflight/loader/tree"
)

func build(t *testing.T) string {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"etc", "usr/lib", "many"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range map[string]string{"etc/hosts": "inside", "usr/lib/libx.so.1.2": "library"} {
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for name, target := range map[string]string{
		"lib": "usr/lib", "usr/lib/libx.so.1": "libx.so.1.2", "abs": "/etc/hosts", "escape": "../../../../../../../etc/hosts",
		"loop": "loop", "outside": root + "/etc/hosts",
	} {
		if err := os.Symlink(target, filepath.Join(root, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(filepath.Join(root, "pipe"), 0o644); err != nil {
		t.Fatal(err)
	}
	for i := range 300 {
		if err := os.WriteFile(filepath.Join(root, "many", strings.Repeat("n", 50)+string(rune('a'+i%26))+strings.Repeat("m", i)[:i%150]), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestStaysInside(t *testing.T) {
	root := build(t)
	in := tree.New(root + "/")
	for path, want := range map[string]string{
		"/etc/hosts": "inside", "/abs": "inside", "/escape": "inside", "/lib/libx.so.1": "library",
		"/../../etc/hosts": "inside", "/lib/../../etc/hosts": "inside", "//etc/./hosts": "inside",
	} {
		if b, err := in.ReadFile(path, 100); err != nil || string(b) != want {
			t.Errorf("%s: %q, %v, want %q", path, b, err, want)
		}
	}
	if real, err := in.Resolve("/lib/libx.so.1"); err != nil || real != "/usr/lib/libx.so.1.2" {
		t.Errorf("Resolve: %s, %v", real, err)
	}
	for path, want := range map[string]error{"/loop": syscall.ELOOP, "/outside": fs.ErrNotExist, "/pipe": tree.ErrIrregular, "/etc": tree.ErrIrregular, "/none": fs.ErrNotExist} {
		if _, err := in.ReadFile(path, 100); !errors.Is(err, want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: got %v, want %v", path, err, want)
		}
	}
	if in.IsFile("/pipe") || in.IsFile("/etc") || !in.IsFile("/abs") || !in.IsDir("/lib") || in.IsDir("/abs") {
		t.Error("IsFile or IsDir is wrong")
	}
}

func TestBounds(t *testing.T) {
	root := build(t)
	for _, in := range []struct {
		tree tree.Tree
		at   string
	}{{tree.New(root), ""}, {tree.New(""), root}, {tree.New("/"), root}} {
		if b, err := in.tree.ReadFile(in.at+"/etc/hosts", 6); err != nil || string(b) != "inside" {
			t.Errorf("exactly the limit: %q, %v", b, err)
		}
		if _, err := in.tree.ReadFile(in.at+"/etc/hosts", 5); err == nil {
			t.Error("a file longer than the limit is no error")
		}
		if b, whole, err := in.tree.ReadHead(in.at+"/etc/hosts", 3); err != nil || whole || string(b) != "ins" {
			t.Errorf("head: %q, %v, %v", b, whole, err)
		}
		all, err := in.tree.ReadDir(in.at+"/many", 1000)
		entries, _ := os.ReadDir(root + "/many")
		if err != nil || len(all) != len(entries) || slices.Contains(all, ".") {
			t.Errorf("%d names of %d, %v", len(all), len(entries), err)
		}
		if some, err := in.tree.ReadDir(in.at+"/many", 7); err != nil || len(some) != 7 {
			t.Errorf("%d names of 7, %v", len(some), err)
		}
		if _, err := in.tree.ReadDir(in.at+"/pipe", 7); err == nil {
			t.Error("a pipe has names")
		}
	}
	// Files of /proc tell no size.
	if b, err := tree.New("").ReadFile("/proc/self/status", 1<<20); err != nil || !strings.Contains(string(b), "Pid:") {
		t.Errorf("/proc/self/status: %q, %v", b, err)
	}
	if f, err := tree.New(root).Open("/abs"); err != nil {
		t.Error(err)
	} else {
		if id, _, err := tree.New("").Stat(root + "/etc/hosts"); err != nil || id != f.ID() || f.Size() != 6 {
			t.Errorf("two names of a file: %v, %v, %v", id, f.ID(), err)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
}
