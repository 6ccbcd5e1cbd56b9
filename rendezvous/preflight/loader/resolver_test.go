package loader_test

import (
	"debug/elf"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/gorun/gorun/rendezvous/preflight/loader"
	"github.com/gorun/gorun/rendezvous/preflight/loader/elftest"
)

// machine lays out a Debian machine under a root: libnccl in the cache, in a
// tarball's folder and in a wheel.
func machine(t *testing.T) (root string, lib elftest.Library) {
	root = folder(t)
	lib = elftest.Library{Soname: "libnccl.so.2"}
	elftest.Write(t, root+"/lib/x86_64-linux-gnu/libc.so.6", elftest.Library{Soname: "libc.so.6"})
	elftest.Write(t, root+"/usr/lib/x86_64-linux-gnu/libnccl.so.2.17.1", lib)
	link(t, "libnccl.so.2.17.1", root+"/usr/lib/x86_64-linux-gnu/libnccl.so.2")
	elftest.Write(t, root+"/opt/nccl/lib/libnccl.so.2", lib)
	elftest.Write(t, root+"/site/nvidia/nccl/lib/libnccl.so.2", lib)
	elftest.WriteCache(t, root+"/etc/ld.so.cache", []elftest.CacheEntry{{Soname: "libnccl.so.2", Path: "/lib/x86_64-linux-gnu/libnccl.so.2"}, {Soname: "libnccl.so.2", Path: "/usr/lib/x86_64-linux-gnu/libnccl.so.2"}})
	elftest.Write(t, root+"/site/torch/lib/libtorch_cuda.so", elftest.Library{Soname: "libtorch_cuda.so", Needed: []string{"libc.so.6", "libnccl.so.2"}, Rpath: "$ORIGIN/../../nvidia/nccl/lib:$ORIGIN"})
	return root, lib
}

func config(root, libPath string) loader.Config {
	return loader.Config{Root: root, Dir: "/", LibraryPath: libPath, Machine: elf.EM_X86_64}
}

func TestFindTellsWinnerAndLosers(t *testing.T) {
	root, _ := machine(t)
	// A file for another machine comes first and is passed over.
	elftest.Write(t, root+"/arm/libnccl.so.2", elftest.Library{Machine: elf.EM_AARCH64})
	got, err := loader.New(config(root, "/arm:/opt/nccl/lib")).Find("libnccl.so.2", nil)
	if err != nil {
		t.Fatal(err)
	}
	if got.Path != "/opt/nccl/lib/libnccl.so.2" || got.Why() != "LD_LIBRARY_PATH" {
		t.Errorf("got %s (%s)", got.Path, got.Why())
	}
	var others []string
	for _, p := range got.Others {
		others = append(others, p.Path+" "+p.Why())
	}
	want := []string{"/arm/libnccl.so.2 LD_LIBRARY_PATH", "/usr/lib/x86_64-linux-gnu/libnccl.so.2 ld.so.cache"}
	if !slices.Equal(others, want) || got.Others[0].Err == nil {
		t.Errorf("others %q, want %q", others, want)
	}
}

func TestFindFails(t *testing.T) {
	root, _ := machine(t)
	r := loader.New(config(root, "/nowhere"))
	_, err := r.Find("libibverbs.so.1", nil)
	if !errors.Is(err, loader.ErrNotFound) || !strings.Contains(err.Error(), "LD_LIBRARY_PATH, ld.so.cache, /lib/x86_64-linux-gnu") {
		t.Errorf("got %v", err)
	}
	write(t, root+"/text/libnccl.so.2", "INPUT(libnccl.so.2.17.1)")
	got, err := loader.New(config(root, "/text")).Find("libnccl.so.2", nil)
	if !errors.Is(err, loader.ErrNotELF) || got.Path != "" || len(got.Others) != 2 {
		t.Errorf("a text file ends the search: %v, %+v", err, got)
	}
	if err := syscall.Mkfifo(root+"/text/libpipe.so", 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := loader.New(config(root, "/text")).Find("libpipe.so", nil); err == nil || errors.Is(err, loader.ErrNotFound) {
		t.Errorf("a pipe: %v", err)
	}
	write(t, root+"/etc/ld.so.cache", "junk")
	r = loader.New(config(root, ""))
	if p, err := r.Find("libnccl.so.2", nil); err != nil || p.Step != loader.ByDefault || r.CacheError == nil {
		t.Errorf("without a cache: %+v, %v, %v", p, err, r.CacheError)
	}
}

func TestProcess(t *testing.T) {
	root, lib := machine(t)
	isNCCL := func(name string) bool { return strings.HasPrefix(name, "libnccl.so") }
	elftest.Write(t, root+"/opt/python/bin/python3.11", elftest.Library{Needed: []string{"libc.so.6", "libm.so.6"}, Interp: "/lib64/ld-linux-x86-64.so.2"})
	link(t, "/opt/python/bin/python3.11", root+"/usr/bin/python3")

	open := func(preload, libPath string) *loader.Process {
		t.Helper()
		c := config(root, libPath)
		c.Preload = preload
		p, err := loader.New(c).Start(t.Context(), "/usr/bin/python3", isNCCL)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.Open(t.Context(), "/site/torch/lib/libtorch_cuda.so"); err != nil {
			t.Fatal(err)
		}
		if p.Watched == nil || p.Watched.Got == nil {
			t.Fatalf("libnccl was not asked for: %+v", p)
		}
		return p
	}
	p := open("", "/opt/nccl/lib")
	if got := p.Watched.Got; got.Path != "/site/nvidia/nccl/lib/libnccl.so.2" || got.Why() != "RPATH of /site/torch/lib/libtorch_cuda.so" {
		t.Errorf("RPATH wins over LD_LIBRARY_PATH: got %s (%s)", got.Path, got.Why())
	}
	if len(p.Missing) != 1 || p.Missing[0].Name != "libm.so.6" || !errors.Is(p.Missing[0].Err, loader.ErrNotFound) {
		t.Errorf("missing %+v", p.Missing)
	}
	p = open("/none.so:/opt/nccl/lib/libnccl.so.2", "")
	if got := p.Watched.Got; got.Path != "/opt/nccl/lib/libnccl.so.2" || got.Why() != "LD_PRELOAD" || len(p.Ignored) != 1 {
		t.Errorf("LD_PRELOAD wins: got %s (%s), ignored %v", got.Path, got.Why(), p.Ignored)
	}
	lib.Needed = []string{"libnccl.so.2"} // itself
	elftest.Write(t, root+"/ring/libnccl.so.2", lib)
	if p, err := loader.New(config(root, "/ring")).Start(t.Context(), "/ring/libnccl.so.2", nil); err != nil || len(p.Objects) != 1 {
		t.Errorf("a ring of needs: %+v, %v", p, err)
	}
	write(t, root+"/etc/ld.so.preload", "# a comment\n/usr/lib/x86_64-linux-gnu/libnccl.so.2\n")
	if got := open("", "").Watched.Got; got.Path != "/usr/lib/x86_64-linux-gnu/libnccl.so.2" || got.Why() != "LD_PRELOAD" {
		t.Errorf("ld.so.preload wins: got %s (%s)", got.Path, got.Why())
	}

	elftest.Write(t, root+"/static", elftest.Library{})
	if p, err := loader.New(config(root, "")).Start(t.Context(), "/static", nil); err != nil || len(p.Objects) != 1 {
		t.Errorf("a static program has no loader: %+v, %v", p, err)
	}
	for _, program := range []string{"/etc/ld.so.preload", "/nowhere", "/etc"} {
		if _, err := loader.New(config(root, "")).Start(t.Context(), program, nil); err == nil || !strings.Contains(err.Error(), program) {
			t.Errorf("%s as a program: %v", program, err)
		}
	}
}

// The layouts of other distributions, told by the C library's place.
func TestDefaultFolders(t *testing.T) {
	for libc, dir := range map[string]string{"/usr/lib64/libc.so.6": "/usr/lib64", "/usr/lib/libc.so.6": "/usr/lib", "/lib/aarch64-linux-gnu/libc.so.6": "/lib/aarch64-linux-gnu"} {
		root, m := folder(t), elf.EM_X86_64
		if strings.Contains(libc, "aarch64") {
			m = elf.EM_AARCH64
		}
		elftest.Write(t, root+libc, elftest.Library{Machine: m})
		elftest.Write(t, filepath.Join(root, dir, "libnccl.so.2"), elftest.Library{Machine: m})
		got, err := loader.New(loader.Config{Root: root, Machine: m}).Find("libnccl.so.2", nil)
		if err != nil || filepath.Dir(got.Path) != dir || got.Why() != "default folder "+dir {
			t.Errorf("%s: got %s (%s), %v", libc, got.Path, got.Why(), err)
		}
	}
}

func BenchmarkStart(b *testing.B) {
	for b.Loop() {
		p, err := loader.New(loader.Config{Dir: "/"}).Start(b.Context(), "/bin/ls", nil)
		if err != nil || len(p.Objects) < 2 {
			b.Fatalf("%+v, %v", p, err)
		}
	}
}
