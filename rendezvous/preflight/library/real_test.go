package library_test

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gorun/gorun/rendezvous/preflight/ldso/ldsotest"
	"github.com/gorun/gorun/rendezvous/preflight/library"
)

// realPython returns an interpreter of this machine, behind links and shims.
func realPython(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"python3", "/usr/bin/python3"} {
		out, err := exec.CommandContext(t.Context(), name, "-c", "import sys, venv; print(sys.executable)").Output()
		if err == nil {
			return strings.TrimSpace(string(out))
		}
	}
	need(t, false, "python3 with module venv")
	return ""
}

func runPython(t *testing.T, env []string, dir, exe string, args ...string) []string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), exe, args...)
	cmd.Env, cmd.Dir = env, dir
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %q: %v", exe, args, err)
	}
	var lines []string
	if err := json.Unmarshal(out, &lines); err != nil {
		t.Fatalf("%s: %v", out, err)
	}
	return lines
}

// TestSitesLikePython compares the folders with Python's own sys.path, in its
// order, without the standard library's folders.
func TestSitesLikePython(t *testing.T) {
	exe := realPython(t)
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	in := func(name string) string { return filepath.Join(dir, name) }
	if err := os.MkdirAll(in("extra"), 0o755); err != nil {
		t.Fatal(err)
	}
	const script = "import sys, os, json, sysconfig; std = {sysconfig.get_path(n) for n in ('stdlib', 'platstdlib')}\n" +
		"print(json.dumps([p or os.getcwd() for p in sys.path if os.path.isdir(p or '.') and p not in std and not p.endswith('lib-dynload')]))"
	if err := os.WriteFile(in("show.py"), []byte(script), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"closed", "open"} {
		args := []string{"-m", "venv", "--without-pip", in(name)}
		if name == "open" {
			args = append(args, "--system-site-packages")
		}
		if out, err := exec.CommandContext(t.Context(), exe, args...).CombinedOutput(); err != nil {
			t.Fatalf("venv: %v\n%s", err, out)
		}
	}
	// This creates a user's site directory for the interpreter's version, and a
	// path file.
	user := filepath.Join(dir, strings.TrimPrefix(runPython(t, []string{"HOME=/h"}, dir, exe, "-c", "import site, json; print(json.dumps([site.getusersitepackages()]))")[0], "/h"))
	if err := os.MkdirAll(user, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(user, "more.pth"), []byte("# a comment\nimport os\n"+in("extra")+"\nnowhere\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, python := range []string{exe, in("closed/bin/python3"), in("open/bin/python")} {
		for _, args := range [][]string{{}, {"-s"}, {"-I"}, {"-E"}, {"-uS"}, {"-W", "ignore", "-u"}} {
			for _, env := range [][]string{nil, {"PYTHONPATH=" + in("extra") + ":/none"}, {"PYTHONNOUSERSITE=x"}} {
				if len(args) > 0 && len(env) > 0 && args[0] != "-E" {
					continue // starting Python takes a while
				}
				env := append([]string{"HOME=" + dir, "PATH=/usr/bin:/bin"}, env...)
				args := append(slices.Clone(args), in("show.py"))
				want := runPython(t, env, "/", python, args...)
				f, unknown := library.Gather(t.Context(), library.Options{Run: ldsotest.Run, Env: env, Dir: "/", Program: python, Args: args})
				if !slices.Equal(f.Sites, want) || len(unknown) > 0 {
					t.Errorf("%s %q %q:\n   got %q\n  want %q\nunknown %q", python, args, env, f.Sites, want, unknown)
				}
			}
		}
	}
}

// TestPredictionLikePython compares the prediction with what a real Python has
// mapped after importing a torch made of small libraries.
func TestPredictionLikePython(t *testing.T) {
	exe := realPython(t)
	s := newScene(t)
	for _, version := range []string{"2.14.3", "2.17.1", "2.19.3"} {
		s.lib("/"+version+"/libnccl.so.2", ldsotest.Library{Soname: "libnccl.so.2", Text: ldsotest.NCCL(version, "12.3")})
	}
	s.lib("/site/nvidia/nccl/lib/libnccl.so.2", ldsotest.Library{Soname: "libnccl.so.2", Text: ldsotest.NCCL("2.21.5", "12.4")})
	s.write("/site/torch/__init__.py", `import ctypes, os
lib = os.path.join(os.path.dirname(__file__), "lib")
ctypes.CDLL(os.path.join(lib, "libtorch_python.so"))
`)
	s.write("/site/torch/version.py", "__version__ = '2.5.0'\n")
	s.write("/show.py", "import torch, json\nprint(json.dumps([l.split()[-1] for l in open('/proc/self/maps') if 'libnccl' in l]))\n")
	for name, tt := range map[string]struct {
		python, cuda ldsotest.Library
		env          []string
		want         string
	}{
		"RPATH":                        {cuda: ldsotest.Library{Rpath: ncclRPATH}, env: []string{"LD_LIBRARY_PATH=" + s.at("2.17.1")}, want: "2.21.5"},
		"RUNPATH":                      {cuda: ldsotest.Library{Runpath: ncclRPATH}, want: "2.21.5"},
		"RUNPATH and LD_LIBRARY_PATH":  {cuda: ldsotest.Library{Runpath: ncclRPATH}, env: []string{"LD_LIBRARY_PATH=" + s.at("2.17.1") + ":" + s.at("2.14.3")}, want: "2.17.1"},
		"RPATH and LD_PRELOAD":         {cuda: ldsotest.Library{Rpath: ncclRPATH}, env: []string{"LD_PRELOAD=" + s.at("2.19.3/libnccl.so.2")}, want: "2.19.3"},
		"RPATH of the loading library": {python: ldsotest.Library{Rpath: "$ORIGIN:" + s.at("2.14.3")}, env: []string{"LD_LIBRARY_PATH=" + s.at("2.17.1")}, want: "2.14.3"},
		"RUNPATH of the loading library counts no": {python: ldsotest.Library{Runpath: "$ORIGIN:" + s.at("2.14.3")}, env: []string{"LD_LIBRARY_PATH=" + s.at("2.17.1")}, want: "2.17.1"},
	} {
		t.Run(name, func(t *testing.T) {
			tt.python.Soname, tt.python.Needed = "libtorch_python.so", []string{"libtorch_cuda.so"}
			if tt.python.Rpath == "" && tt.python.Runpath == "" {
				tt.python.Rpath = "$ORIGIN"
			}
			tt.cuda.Soname, tt.cuda.Needed = "libtorch_cuda.so", []string{"libnccl.so.2"}
			s.lib("/site/torch/lib/libtorch_python.so", tt.python)
			s.lib("/site/torch/lib/libtorch_cuda.so", tt.cuda)
			env := append([]string{"HOME=/none", "PATH=/usr/bin:/bin", "PYTHONPATH=" + s.at("site")}, tt.env...)
			o := library.Options{Run: ldsotest.Run, Env: env, Dir: "/", Python: exe, Script: s.at("show.py")}
			mapped := runPython(t, env, "/", exe, o.Script)
			f, unknown := library.Gather(context.Background(), o)
			if f.NCCL == nil || !slices.Contains(mapped, f.NCCL.Path) || f.NCCL.Version != tt.want {
				t.Errorf("mapped %q; predicted %+v (%s), unknown %q, want %s", mapped, f.NCCL, f.NCCLError, unknown, tt.want)
			}
		})
	}
}
