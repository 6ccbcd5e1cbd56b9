package library_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gorun/gorun/rendezvous/preflight/ldso/ldsotest"
	"github.com/gorun/gorun/rendezvous/preflight/library"
)

const (
	venvSite = "/venv/lib/python3.11/site-packages"
	userSite = "/home/u/.local/lib/python3.11/site-packages"
	python   = "/venv/bin/python3"
)

// venv creates a virtual environment as python3 -m venv does.
func (s *scene) venv(system string) {
	s.t.Helper()
	s.link("/usr/bin/python3", python)
	s.write("/venv/pyvenv.cfg", "home = /usr/bin\ninclude-system-site-packages = "+system+"\nversion = 3.11.2\n")
	s.write(venvSite+"/pip/__init__.py", "")
}

// TestGoNCCL checks which libnccl a Go worker is given: that of the loader, else a wheel's,
// and none where there is none, which is no fact that a rule sees.
func TestGoNCCL(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	system := func(s *scene) { s.system("2.27.3", "12.9") }
	wheel := func(s *scene) {
		s.venv("false")
		s.wheel(venvSite, "nvidia-nccl-cu12", "2.26.2", "12.4")
		s.env = append(s.env, "PATH="+s.at("/venv/bin"))
	}
	for name, tt := range map[string]struct {
		install func(s *scene)
		program string
		brief   bool
		want    string
	}{
		"source, the loader's":    {func(s *scene) { wheel(s); system(s) }, "/job/main.go", false, "2.27.3"},
		"a folder, a wheel":       {wheel, "/job", false, "2.26.2"},
		"a program, the loader's": {system, "/job/program", false, "2.27.3"},
		"no NCCL":                 {func(*scene) {}, "/job/main.go", false, ""},
		"no GPU":                  {system, "/job/main.go", true, ""},
		"not in Go":               {system, "/usr/bin/other", false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			s.write("/job/main.go", "package main")
			s.lib("/usr/bin/other", ldsotest.Library{Program: true})
			if err := os.Symlink(exe, s.at("/job/program")); err != nil {
				t.Fatal(err)
			}
			tt.install(s)
			f, unknown := s.gather(library.Options{Program: tt.program, Brief: tt.brief})
			got := ""
			if f.GoNCCL != nil {
				got = f.GoNCCL.Version
			}
			if got != tt.want || f.NCCL != nil || f.NCCLError != "" || len(unknown) > 0 {
				t.Errorf("NCCL %q, want %q; for all programs %+v, %q; unknown %q", got, tt.want, f.NCCL, f.NCCLError, unknown)
			}
		})
	}
}

// TestTorchWheelBesideSystem checks that the wheel's library is loaded through
// torch's RPATH, before the system's library and the one in LD_LIBRARY_PATH.
// LD_PRELOAD comes before all of them.
func TestTorchWheelBesideSystem(t *testing.T) {
	s := newScene(t)
	s.venv("false")
	s.system("2.17.1", "12.1")
	s.wheel(venvSite, "nvidia-nccl-cu12", "2.19.3", "12.3")
	s.torch(venvSite, ldsotest.Library{Needed: []string{"libnccl.so.2"}, Rpath: ncclRPATH})
	s.lib("/opt/nccl/build/lib/libnccl.so.2", ldsotest.Library{Soname: "libnccl.so.2", Text: ldsotest.NCCL("2.14.3", "11.8")})
	s.env = append(s.env, "LD_LIBRARY_PATH="+s.at("/opt/nccl/build/lib")+":"+s.at("/usr/lib/x86_64-linux-gnu"))

	f, unknown := s.gather(library.Options{Program: python, Python: python, Args: []string{"-u", "train.py"}, Script: "train.py"})
	const wheel = venvSite + "/nvidia/nccl/lib/libnccl.so.2"
	s.expectLoaded(f, wheel, "2.19.3", "RPATH of "+s.at(venvSite)+"/torch/lib/libtorch_cuda.so")
	s.expectCandidate(f, "/opt/nccl/build/lib/libnccl.so.2", "2.14.3", "LD_LIBRARY_PATH: comes after RPATH of")
	s.expectCandidate(f, "/usr/lib/x86_64-linux-gnu/libnccl.so.2", "2.17.1", "LD_LIBRARY_PATH: comes after RPATH of")
	if len(f.Candidates) != 2 || len(unknown) != 0 {
		t.Errorf("candidates %+v, unknown %q", f.Candidates, unknown)
	}
	if f.NCCL.Code != 21903 || f.NCCL.CUDA != "12.3" || f.Torch != "2.1.2+cu121" || f.TorchCUDA != "12.1" || f.Python != "3.11" {
		t.Errorf("facts %+v, NCCL %+v", f, f.NCCL)
	}
	if want := []library.Wheel{{Name: "nvidia-nccl-cu12", Version: "2.19.3", Site: s.at(venvSite), File: true}}; !slices.Equal(f.Wheels, want) {
		t.Errorf("wheels %+v", f.Wheels)
	}
	if !slices.Equal(f.Sites, []string{s.at("/job"), s.at(venvSite)}) || len(f.LDPath) != 2 || f.LDPath[0] != s.at("/opt/nccl/build/lib") {
		t.Errorf("sites %q, LD_LIBRARY_PATH %q", f.Sites, f.LDPath)
	}

	f, _ = s.gather(library.Options{Python: python, Env: []string{"LD_PRELOAD=" + s.at("/opt/nccl/build/lib/libnccl.so.2")}})
	s.expectLoaded(f, "/opt/nccl/build/lib/libnccl.so.2", "2.14.3", "LD_PRELOAD")
	s.expectCandidate(f, wheel, "2.19.3", "the worker gets "+s.at("/opt/nccl"))
	if !slices.Equal(f.Preload, []string{s.at("/opt/nccl/build/lib/libnccl.so.2")}) {
		t.Errorf("LD_PRELOAD %q", f.Preload)
	}
}

// TestTorchWithRunpath checks that LD_LIBRARY_PATH comes before a RUNPATH.
func TestTorchWithRunpath(t *testing.T) {
	s := newScene(t)
	s.venv("false")
	s.wheel(venvSite, "nvidia-nccl-cu12", "2.19.3", "12.3")
	s.torch(venvSite, ldsotest.Library{Needed: []string{"libnccl.so.2"}, Runpath: ncclRPATH})
	s.lib("/opt/lib/libnccl.so.2", ldsotest.Library{Soname: "libnccl.so.2", Text: ldsotest.NCCL("2.14.3", "11.8")})
	f, _ := s.gather(library.Options{Python: python, Env: []string{"LD_LIBRARY_PATH=" + s.at("/opt/lib")}})
	s.expectLoaded(f, "/opt/lib/libnccl.so.2", "2.14.3", "LD_LIBRARY_PATH")
	s.expectCandidate(f, venvSite+"/nvidia/nccl/lib/libnccl.so.2", "2.19.3", "wheel in "+s.at(venvSite))
}

func TestTwoWheelsAndAMissingFile(t *testing.T) {
	s := newScene(t)
	s.venv("false")
	s.wheel(venvSite, "nvidia-nccl-cu12", "2.19.3", "12.3")
	s.wheel(venvSite, "nvidia-nccl-cu11", "2.14.3", "11.7")
	f, unknown := s.gather(library.Options{Python: python})
	if f.NCCL != nil || len(unknown) != 1 || !strings.Contains(unknown[0], "no torch in the site directories") {
		t.Errorf("without torch: %+v, unknown %q", f.NCCL, unknown)
	}
	if len(f.Wheels) != 2 || f.Wheels[0].Name != "nvidia-nccl-cu11" || f.Wheels[1].Version != "2.19.3" || !f.Wheels[1].File {
		t.Errorf("wheels %+v", f.Wheels)
	}
	if err := syscall.Unlink(s.at(venvSite + "/nvidia/nccl/lib/libnccl.so.2")); err != nil {
		t.Fatal(err)
	}
	s.torch(venvSite, ldsotest.Library{Needed: []string{"libnccl.so.2"}, Rpath: ncclRPATH})
	f, _ = s.gather(library.Options{Python: python})
	if f.NCCL != nil || !strings.Contains(f.NCCLError, "libtorch_cuda.so needs libnccl.so.2: not found (searched: RPATH of ") || f.Wheels[0].File {
		t.Errorf("error %q, NCCL %+v, wheels %+v", f.NCCLError, f.NCCL, f.Wheels)
	}
}

func TestStaticTorch(t *testing.T) {
	s := newScene(t)
	s.venv("false")
	s.system("2.17.1", "12.1")
	s.torch(venvSite, ldsotest.Library{Text: strings.Repeat("NCCL version of nothing\x00", 20000) + ldsotest.NCCL("2.14.3", "11.7")})
	f, unknown := s.gather(library.Options{Python: python})
	s.expectLoaded(f, venvSite+"/torch/lib/libtorch_cuda.so", "2.14.3", "statically")
	s.expectCandidate(f, "/usr/lib/x86_64-linux-gnu/libnccl.so.2", "2.17.1", "the worker gets "+s.at(venvSite))
	if !f.NCCL.Static || len(unknown) != 0 {
		t.Errorf("%+v, unknown %q", f.NCCL, unknown)
	}
	s.torch(venvSite, ldsotest.Library{Text: "built without NCCL"})
	if f, unknown := s.gather(library.Options{Python: python}); f.NCCL != nil || len(unknown) != 0 {
		t.Errorf("torch without NCCL: %+v, unknown %q", f.NCCL, unknown)
	}
	s.write(venvSite+"/torch/lib/libtorch_cuda.so", "not a library")
	if f, unknown := s.gather(library.Options{Python: python}); f.NCCL != nil || len(unknown) != 1 || f.Torch == "" {
		t.Errorf("a broken libtorch_cuda: %+v, unknown %q", f.NCCL, unknown)
	}
}

// TestTorchPreloads checks that torch loads NVIDIA's wheels itself if the
// loader alone fails.
func TestTorchPreloads(t *testing.T) {
	s := newScene(t)
	s.venv("true")
	s.wheel(userSite, "nvidia-nccl-cu12", "2.19.3", "12.3")
	s.system("2.17.1", "12.1")
	s.torch(venvSite, ldsotest.Library{Needed: []string{"libnccl.so.2"}, Rpath: ncclRPATH})
	deps := func(needed ...string) {
		s.lib(venvSite+"/torch/lib/libtorch_global_deps.so", ldsotest.Library{Soname: "libtorch_global_deps.so", Needed: needed, Rpath: ncclRPATH})
	}
	deps()
	f, _ := s.gather(library.Options{Python: python})
	s.expectLoaded(f, "/usr/lib/x86_64-linux-gnu/libnccl.so.2", "2.17.1", "LD_LIBRARY_PATH")
	deps("libcublas.so.12")
	f, _ = s.gather(library.Options{Python: python})
	s.expectLoaded(f, userSite+"/nvidia/nccl/lib/libnccl.so.2", "2.19.3", "torch preloads it, as libcublas.so.12 is not found")
}

func TestUserSite(t *testing.T) {
	s := newScene(t)
	s.wheel(userSite, "nvidia-nccl-cu12", "2.19.3", "12.3")
	s.torch(userSite, ldsotest.Library{Needed: []string{"libnccl.so.2"}, Rpath: ncclRPATH})
	s.write("/usr/lib/python3/dist-packages/apt_pkg.py", "")
	for _, tt := range []struct {
		name  string
		o     library.Options
		found bool
	}{
		{"plain", library.Options{Program: "/usr/bin/python3", Args: []string{"x.py"}}, true},
		{"-s", library.Options{Program: "/usr/bin/python3", Args: []string{"-us", "x.py"}}, false},
		{"-I", library.Options{Program: "/usr/bin/python3", Args: []string{"-W", "error", "-I", "x.py"}}, false},
		{"-S", library.Options{Program: "/usr/bin/python3", Args: []string{"-X", "dev", "-S", "x.py"}}, false},
		{"-s of the user's", library.Options{Program: "/usr/bin/python3", Python: "/usr/bin/python3", Script: "x.py", Args: []string{"-s"}}, true},
		{"-s before the script", library.Options{Program: "/usr/bin/python3", Python: "/usr/bin/python3", Script: "x.py", Args: []string{"-s", "x.py"}}, false},
		{"-s of the script", library.Options{Program: "/usr/bin/python3", Args: []string{"x.py", "-s"}}, true},
		{"PYTHONNOUSERSITE", library.Options{Python: "/usr/bin/python3", Env: []string{"PYTHONNOUSERSITE=1"}}, false},
		{"PYTHONNOUSERSITE and -E", library.Options{Program: "/usr/bin/python3", Args: []string{"-E", "x.py"}, Env: []string{"PYTHONNOUSERSITE=1"}}, true},
		{"PYTHONUSERBASE", library.Options{Python: "/usr/bin/python3", Env: []string{"PYTHONUSERBASE=/elsewhere"}}, false},
		{"PYTHONPATH", library.Options{Python: "/usr/bin/python3", Env: []string{"PYTHONNOUSERSITE=1", "PYTHONPATH=/none::" + s.at(userSite)}}, true},
		{"venv", library.Options{Python: python}, false},
	} {
		if tt.name == "venv" {
			s.venv("false")
		}
		f, _ := s.gather(tt.o)
		if found := f.Torch != "" && f.NCCL != nil; found != tt.found {
			t.Errorf("%s: found %v, sites %q", tt.name, found, f.Sites)
		}
	}
}

func TestWorkers(t *testing.T) {
	s := newScene(t)
	s.venv("false")
	s.system("2.17.1", "12.1")
	s.wheel(venvSite, "nvidia-nccl-cu12", "2.19.3", "12.3")
	s.torch(venvSite, ldsotest.Library{Needed: []string{"libnccl.so.2"}, Rpath: ncclRPATH})
	s.lib("/job/all_reduce_perf", ldsotest.Library{Needed: []string{"libnccl.so.2"}, Program: true})
	s.lib("/job/plain", ldsotest.Library{Program: true})
	s.lib("/bin/bash", ldsotest.Library{Program: true})
	s.write("/job/main.go", "package main")
	s.write("/job/data.txt", "no program")
	for name, line := range map[string]string{"direct": "#!" + s.at(python), "env": "#!/usr/bin/env python3", "split": "#!/usr/bin/env -S X=1 python3 -s", "shell": "#!" + s.at("/bin/bash") + " -e", "gone": "#!/usr/bin/env python9", "ring": "#! " + s.at("/job/ring")} {
		s.write("/job/"+name, line+"\nimport torch\n")
	}
	path := library.Options{Env: []string{"PATH=" + s.at("/venv/bin") + ":" + s.at("/usr/bin")}}
	const wheel, system = venvSite + "/nvidia/nccl/lib/libnccl.so.2", "/usr/lib/x86_64-linux-gnu/libnccl.so.2"
	for program, want := range map[string]struct{ nccl, unknown string }{
		"/job/direct": {nccl: wheel}, "/job/env": {nccl: wheel}, "/job/split": {nccl: wheel}, "/venv/bin/python3": {nccl: wheel},
		"":                     {nccl: wheel}, // no program to run: what python3 here would load
		"/job/all_reduce_perf": {nccl: system},
		"/job/plain":           {}, "/job/main.go": {}, "/job": {},
		"/job/shell": {unknown: "what bash starts is not known"}, "/bin/bash": {unknown: "what bash starts is not known"},
		"/job/gone": {unknown: "the interpreter of " + s.at("/job/gone") + " is not found"}, "/job/ring": {unknown: "too many scripts"},
		"/job/data.txt": {unknown: "neither an ELF file nor a script"}, "/job/none": {unknown: "no such file"},
	} {
		o := path
		o.Program = program
		f, unknown := s.gather(o)
		got := ""
		if f.NCCL != nil {
			got = f.NCCL.Path
		}
		if want.nccl != "" {
			want.nccl = s.at(want.nccl)
		}
		if got != want.nccl || !strings.Contains(strings.Join(unknown, "\n"), want.unknown) || (want.unknown == "") != (len(unknown) == 0) {
			t.Errorf("%q: got %s, unknown %q, want %+v", program, got, unknown, want)
		}
		isGo := program == "/job/main.go" || program == "/job"
		if isGo != (f.GoNCCL != nil) || isGo && f.GoNCCL.Path != s.at(system) {
			t.Errorf("%q: a Go worker would open %+v", program, f.GoNCCL)
		}
		if want.nccl == "" && !isGo {
			s.expectCandidate(f, system, "2.17.1", "the worker does not ask the loader for libnccl")
		}
		if (f.Worker != "") != (program == "/job/all_reduce_perf" || program == "/job/plain") {
			t.Errorf("%q: worker %q", program, f.Worker)
		}
	}
	// Without Python and torch, Gather predicts what a program here would get.
	f, _ := s.gather(library.Options{Env: []string{"PATH=/none"}})
	s.expectLoaded(f, system, "2.17.1", "what a program that needs libnccl.so.2 would get: LD_LIBRARY_PATH")
}

// TestHostileFiles checks that Gather ends and returns something, whatever
// files it reads.
func TestHostileFiles(t *testing.T) {
	s := newScene(t)
	s.venv("false")
	s.torch(venvSite, ldsotest.Library{Needed: []string{"libnccl.so.2"}, Rpath: ncclRPATH})
	if err := syscall.Mkfifo(s.at(venvSite+"/nvidia"), 0o644); err != nil {
		t.Fatal(err)
	}
	s.write(venvSite+"/torch/version.py", strings.Repeat("x", 1<<20))
	s.write(venvSite+"/loop.pth", s.at(venvSite)+"\n"+strings.Repeat("/\n", 1000)+"import os; os.exit()\n")
	s.write("/opt/lib/libnccl.so.2", strings.Repeat("no library ", 1000))
	s.link("/venv", "/venv/venv")
	f, unknown := s.gather(library.Options{Python: python, Env: []string{"LD_LIBRARY_PATH=" + s.at("/opt/lib")}})
	if f.NCCL != nil || !strings.Contains(f.NCCLError, "the loader gives up at "+s.at("/opt/lib/libnccl.so.2")+" (LD_LIBRARY_PATH)") {
		t.Errorf("NCCL %+v, error %q", f.NCCL, f.NCCLError)
	}
	if all := strings.Join(unknown, "\n"); !strings.Contains(all, "cannot read torch's version") {
		t.Errorf("unknown %q", unknown)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("the test is over"))
	if _, unknown := library.Gather(ctx, library.Options{Run: s.run, Root: s.root, Python: s.at(python), Dir: "/"}); !strings.Contains(strings.Join(unknown, "\n"), "ended early: the test is over") {
		t.Errorf("a context that has ended: unknown %q", unknown)
	}
	ctx, stop := context.WithTimeout(t.Context(), time.Nanosecond)
	defer stop()
	if f, _ := library.Gather(ctx, library.Options{Run: s.run, Root: s.root, Dir: "/"}); f.NCCL != nil {
		t.Errorf("without time: %+v", f.NCCL)
	}
}

func BenchmarkGather(b *testing.B) {
	for _, o := range []library.Options{{Program: "/usr/bin/python3", Args: []string{"train.py"}}, {Program: "/bin/ls"}, {Program: "/usr"}} {
		o.Dir, o.Env = "/", []string{"HOME=/root", "PATH=/usr/bin:/bin"}
		b.Run(o.Program, func(b *testing.B) {
			for b.Loop() {
				o.Run = ldsotest.Run
				library.Gather(b.Context(), o)
			}
		})
	}
}

// TestBrokenNCCL checks that a library which workers may not read, or which
// would crash them, counts as a library that cannot be loaded. A library that lacks
// only its tail counts, too, because it was copied badly.
func TestBrokenNCCL(t *testing.T) {
	const wheel = venvSite + "/nvidia/nccl/lib/libnccl.so.2"
	whole := ldsotest.Bytes(t, ldsotest.Library{Soname: "libnccl.so.2", Text: ldsotest.NCCL("2.19.3", "12.3") + strings.Repeat("\x00x", 3*4096)})
	for name, c := range map[string]struct{ text, want string }{
		"whole":               {string(whole), ""},
		"without its tail":    {string(whole[:len(whole)-1]), "the file is cut off after"},
		"cut in the middle":   {string(whole[:6000]), "the file is cut off after 6000 bytes"},
		"cut in the header":   {string(whole[:40]), "the file is cut off after 40 bytes"},
		"empty":               {"", "not an ELF file"},
		"a pointer to a file": {"version https://git-lfs.github.com/spec/v1\n", "not an ELF file"},
	} {
		for _, rpath := range []string{"", ncclRPATH} { // torch preloads the wheel's, or the loader finds it
			s := newScene(t)
			s.venv("false")
			s.wheel(venvSite, "nvidia-nccl-cu12", "2.19.3", "12.3")
			s.torch(venvSite, ldsotest.Library{Needed: []string{"libnccl.so.2"}, Rpath: rpath})
			s.write(wheel, c.text)
			f, _ := s.gather(library.Options{Program: python, Python: python})
			got := f.NCCLError
			if f.NCCL != nil {
				got = f.NCCL.Error
			}
			if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
				t.Errorf("%s, RPATH %q: %q, want %q", name, rpath, got, c.want)
			}
		}
	}
}

// TestLoaderWithoutAnswer checks that a loader without an answer, such as
// musl's, gives one note, and that the other facts are known.
func TestLoaderWithoutAnswer(t *testing.T) {
	s := newScene(t)
	s.venv("false")
	s.wheel(venvSite, "nvidia-nccl-cu12", "2.19.3", "12.3")
	s.torch(venvSite, ldsotest.Library{Needed: []string{"libnccl.so.2"}, Rpath: ncclRPATH})
	s.lib("/job/program", ldsotest.Library{Program: true, Needed: []string{"libnccl.so.2"}})
	s.run = func(context.Context, string, []string, []string, string) ([]byte, int, error) {
		return []byte("ld.so: unrecognized option: --list\n"), 1, nil
	}
	for _, o := range []library.Options{{Program: python, Python: python}, {Program: "/job/program"}, {}} {
		f, unknown := s.gather(o)
		if len(unknown) != 1 || !strings.HasPrefix(unknown[0], "which libraries the workers load is not known: ") || f.NCCL != nil || f.NCCLError != "" {
			t.Errorf("%+v: NCCL %+v, error %q, unknown %q", o, f.NCCL, f.NCCLError, unknown)
		}
		if o.Python != "" && (f.Torch == "" || len(f.Wheels) != 1 || len(f.Candidates) != 1 || f.Candidates[0].Code != 21903) {
			t.Errorf("%+v: torch %q, wheels %+v, candidates %+v", o, f.Torch, f.Wheels, f.Candidates)
		}
	}
}

func TestBrokenTorch(t *testing.T) {
	s := newScene(t)
	s.venv("false")
	s.torch(venvSite, ldsotest.Library{})
	if f, _ := s.gather(library.Options{Program: python, Python: python}); f.Broken != nil {
		t.Errorf("whole libraries: %q", f.Broken)
	}
	const path = venvSite + "/torch/lib/libtorch_python.so"
	s.write(path, "half")
	if f, _ := s.gather(library.Options{Program: python, Python: python}); len(f.Broken) != 1 || !strings.HasPrefix(f.Broken[0], s.at(path)+": ") {
		t.Errorf("a broken one: %q", f.Broken)
	}
}

// TestUnreadableNCCL reads files as the workers' user does. A libnccl that
// exists but may not be read must not count as an older or newer one.
func TestUnreadableNCCL(t *testing.T) {
	need(t, os.Geteuid() == 0, "root, which alone may become another user")
	for _, rpath := range []string{"", ncclRPATH} { // torch preloads the wheel's, or the loader looks for it
		t.Run(fmt.Sprint("RPATH ", rpath != ""), func(t *testing.T) {
			s := newScene(t)
			s.venv("false")
			s.wheel(venvSite, "nvidia-nccl-cu12", "2.19.3", "12.3")
			s.torch(venvSite, ldsotest.Library{Needed: []string{"libnccl.so.2"}, Rpath: rpath})
			for path, mode := range map[string]os.FileMode{s.at(venvSite + "/nvidia/nccl/lib/libnccl.so.2"): 0o600, s.root: 0o755, filepath.Dir(s.root): 0o755} {
				if err := os.Chmod(path, mode); err != nil {
					t.Fatal(err)
				}
			}
			s.run = func(ctx context.Context, path string, argv, env []string, dir string) ([]byte, int, error) {
				cmd := exec.CommandContext(ctx, path)
				cmd.Args, cmd.Env, cmd.Dir = argv, env, dir
				cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
				out, _ := cmd.CombinedOutput()
				return out, cmd.ProcessState.ExitCode(), ctx.Err()
			}
			runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
			if err := syscall.Setfsuid(65534); err != nil {
				t.Fatal(err)
			}
			defer func() { _ = syscall.Setfsuid(0) }() // root removes the files
			f, unknown := s.gather(library.Options{Program: python, Python: python})
			got := f.NCCLError
			if f.NCCL != nil {
				got = f.NCCL.Error
			}
			if !strings.Contains(got, "permission denied") {
				t.Errorf("%q, NCCL %+v, unknown %q", got, f.NCCL, unknown)
			}
		})
	}
}
