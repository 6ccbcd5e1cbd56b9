package library_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gorun/gorun/rendezvous/preflight/ldso"
	"github.com/gorun/gorun/rendezvous/preflight/ldso/ldsotest"
	"github.com/gorun/gorun/rendezvous/preflight/library"
)

// ncclRPATH is the RPATH in torch's wheels.
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

// scene is a machine whose files are under a folder. Its paths are relative to
// that folder; the paths in the facts are real.
type scene struct {
	t    *testing.T
	root string
	env  []string
	run  ldso.Runner
}

// newScene returns a Debian machine with Python 3.11 and nothing else.
func newScene(t *testing.T) *scene {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	s := &scene{t: t, root: root, run: ldsotest.Run}
	s.env = []string{"HOME=" + s.at("/home/u"), "PATH=" + s.at("/usr/bin")}
	s.lib("/usr/bin/python3.11", ldsotest.Library{Program: true})
	s.link("python3.11", "/usr/bin/python3")
	s.write("/job/notes", "")
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
	if filepath.IsAbs(target) {
		target = s.at(target)
	}
	if err := os.Symlink(target, s.at(path)); err != nil {
		s.t.Fatal(err)
	}
}

func (s *scene) lib(path string, l ldsotest.Library) {
	s.t.Helper()
	ldsotest.Write(s.t, s.at(path), l)
}

// system installs libnccl from a package of the distribution, whose folder the
// loader searches last.
func (s *scene) system(version, cuda string) {
	s.t.Helper()
	const dir = "/usr/lib/x86_64-linux-gnu/"
	s.lib(dir+"libnccl.so."+version, ldsotest.Library{Soname: "libnccl.so.2", Text: ldsotest.NCCL(version, cuda)})
	s.link("libnccl.so."+version, dir+"libnccl.so.2")
	s.env = append(s.env, "LD_LIBRARY_PATH="+s.at(dir))
}

// wheel installs nvidia-nccl-cuXX. Of two wheels in one place the later one's
// file stays.
func (s *scene) wheel(site, name, version, cuda string) {
	s.t.Helper()
	s.write(site+"/"+strings.ReplaceAll(name, "-", "_")+"-"+version+".dist-info/METADATA", "Name: "+name)
	s.lib(site+"/nvidia/nccl/lib/libnccl.so.2", ldsotest.Library{Soname: "libnccl.so.2", Text: ldsotest.NCCL(version, cuda)})
}

// torch installs torch as its wheels do; more is added to libtorch_cuda.
func (s *scene) torch(site string, cuda ldsotest.Library) {
	s.t.Helper()
	s.write(site+"/torch/__init__.py", "")
	s.write(site+"/torch/version.py", "from typing import Optional\n\n__all__ = ['__version__', 'cuda']\n__version__ = '2.1.2+cu121'\ndebug = False\ncuda: Optional[str] = '12.1'\ngit_version = 'a8e7c98cb95ff97bb30a728c6b2a1ce6bff946eb'\nhip: Optional[str] = None\n")
	s.lib(site+"/torch/lib/libtorch_python.so", ldsotest.Library{Soname: "libtorch_python.so", Needed: []string{"libtorch_cuda.so"}, Rpath: "$ORIGIN"})
	cuda.Soname = "libtorch_cuda.so"
	s.lib(site+"/torch/lib/libtorch_cuda.so", cuda)
}

// gather runs Gather with the environment's paths as they are and the other
// paths in the scene.
func (s *scene) gather(o library.Options) (library.Facts, []string) {
	s.t.Helper()
	for _, path := range []*string{&o.Program, &o.Python} {
		if *path != "" {
			*path = s.at(*path)
		}
	}
	o.Run, o.Root, o.Dir = s.run, s.root, s.at("/job")
	o.Env = append(slices.Clone(s.env), o.Env...)
	return library.Gather(s.t.Context(), o)
}

// expectLoaded checks the prediction.
func (s *scene) expectLoaded(f library.Facts, path, version, why string) {
	s.t.Helper()
	switch n := f.NCCL; {
	case n == nil:
		s.t.Errorf("no NCCL predicted (%s), want %s %s", f.NCCLError, version, path)
	case n.Path != s.at(path) || n.Version != version || !strings.Contains(n.Why, why):
		s.t.Errorf("predicted %s %s (%s), want %s %s (%s)", n.Version, n.Path, n.Why, version, path, why)
	}
}

// expectCandidate checks that a candidate is listed.
func (s *scene) expectCandidate(f library.Facts, path, version, why string) {
	s.t.Helper()
	for _, c := range f.Candidates {
		if c.Path == s.at(path) {
			if c.Version != version || !strings.Contains(c.Why, why) {
				s.t.Errorf("candidate %s %s (%s), want %s (%s)", c.Version, path, c.Why, version, why)
			}
			return
		}
	}
	s.t.Errorf("%s is no candidate of %+v", path, f.Candidates)
}
