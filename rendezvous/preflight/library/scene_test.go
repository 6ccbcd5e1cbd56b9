package library_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gorun/gorun/rendezvous/preflight/library"
	"github.com/gorun/gorun/rendezvous/preflight/loader"
	"github.com/gorun/gorun/rendezvous/preflight/loader/elftest"
)

// ncclRPATH is what torch's wheels carry.
const ncclRPATH = "$ORIGIN/../../nvidia/cublas/lib:$ORIGIN/../../nvidia/nccl/lib:$ORIGIN"

// need skips a test that lacks a part; with CI=true it fails.
func need(t *testing.T, have bool, part string) {
	t.Helper()
	switch {
	case have:
	case os.Getenv("CI") == "true":
		t.Fatal("no " + part)
	default:
		t.Skip("no " + part)
	}
}

// scene is a machine that is laid out under a folder.
type scene struct {
	t    *testing.T
	root string
	env  []string
}

// newScene is a Debian machine with Python 3.11 and nothing else.
func newScene(t *testing.T) *scene {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	s := &scene{t: t, root: root, env: []string{"HOME=/home/u", "PATH=/usr/bin"}}
	s.lib("/lib/x86_64-linux-gnu/libc.so.6", elftest.Library{Soname: "libc.so.6"})
	s.lib("/usr/bin/python3.11", elftest.Library{Needed: []string{"libc.so.6"}, Interp: "/lib64/ld-linux-x86-64.so.2"})
	s.link("python3.11", "/usr/bin/python3")
	s.write("/usr/lib/python3.11/os.py", "")
	return s
}

func (s *scene) at(path string) string { return filepath.Join(s.root, path) }

func (s *scene) write(path, text string) {
	s.t.Helper()
	if err := os.MkdirAll(filepath.Dir(s.at(path)), 0o755); err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(s.at(path), []byte(text), 0o755); err != nil {
		s.t.Fatal(err)
	}
}

func (s *scene) link(target, path string) {
	s.t.Helper()
	if err := os.MkdirAll(filepath.Dir(s.at(path)), 0o755); err != nil {
		s.t.Fatal(err)
	}
	if err := os.Symlink(target, s.at(path)); err != nil {
		s.t.Fatal(err)
	}
}

func (s *scene) lib(path string, l elftest.Library) {
	s.t.Helper()
	elftest.Write(s.t, s.at(path), l)
}

// nccl is a library that the ld.so of this machine maps.
func (s *scene) nccl(path, version, cuda string) {
	s.t.Helper()
	s.lib(path, elftest.Library{Soname: "libnccl.so.2", Rodata: elftest.NCCL(version, cuda), Machine: loader.HostMachine()})
}

// system installs libnccl from a package of the distribution.
func (s *scene) system(version, cuda string) {
	s.t.Helper()
	const dir = "/usr/lib/x86_64-linux-gnu/"
	s.lib(dir+"libnccl.so."+version, elftest.Library{Soname: "libnccl.so.2", Rodata: elftest.NCCL(version, cuda)})
	s.link("libnccl.so."+version, dir+"libnccl.so.2")
	elftest.WriteCache(s.t, s.at("/etc/ld.so.cache"), []elftest.CacheEntry{{Soname: "libnccl.so.2", Path: dir + "libnccl.so.2"}})
}

// wheel installs nvidia-nccl-cuXX; of two in one place the later one's file stays.
func (s *scene) wheel(site, name, version, cuda string) {
	s.t.Helper()
	s.write(site+"/"+strings.ReplaceAll(name, "-", "_")+"-"+version+".dist-info/METADATA", "Name: "+name)
	s.lib(site+"/nvidia/nccl/lib/libnccl.so.2", elftest.Library{Soname: "libnccl.so.2", Rodata: elftest.NCCL(version, cuda)})
}

// torch installs torch as its wheels do; more is added to libtorch_cuda.
func (s *scene) torch(site string, cuda elftest.Library) {
	s.t.Helper()
	s.write(site+"/torch/__init__.py", "")
	s.write(site+"/torch/version.py", "from typing import Optional\n\n__all__ = ['__version__', 'cuda']\n__version__ = '2.1.2+cu121'\ndebug = False\ncuda: Optional[str] = '12.1'\ngit_version = 'a8e7c98cb95ff97bb30a728c6b2a1ce6bff946eb'\nhip: Optional[str] = None\n")
	s.lib(site+"/torch/lib/libtorch_python.so", elftest.Library{Soname: "libtorch_python.so", Needed: []string{"libtorch_cuda.so"}, Rpath: "$ORIGIN"})
	cuda.Soname = "libtorch_cuda.so"
	s.lib(site+"/torch/lib/libtorch_cuda.so", cuda)
}

func (s *scene) gather(o library.Options) (library.Facts, []string) {
	s.t.Helper()
	o.Root, o.Env, o.Dir = s.root, append(s.env, o.Env...), "/work"
	return library.Gather(s.t.Context(), o)
}

// wins checks the prediction.
func (s *scene) wins(f library.Facts, path, version, why string) {
	s.t.Helper()
	switch n := f.NCCL; {
	case n == nil:
		s.t.Errorf("no NCCL predicted (%s), want %s %s", f.NCCLError, version, path)
	case n.Path != path || n.Version != version || !strings.Contains(n.Why, why):
		s.t.Errorf("predicted %s %s (%s), want %s %s (%s)", n.Version, n.Path, n.Why, version, path, why)
	}
}

// loses checks that a candidate is listed.
func (s *scene) loses(f library.Facts, path, version, why string) {
	s.t.Helper()
	for _, c := range f.Candidates {
		if c.Path == path {
			if c.Version != version || !strings.Contains(c.Why, why) {
				s.t.Errorf("candidate %s %s (%s), want %s (%s)", c.Version, path, c.Why, version, why)
			}
			return
		}
	}
	s.t.Errorf("%s is no candidate of %+v", path, f.Candidates)
}
