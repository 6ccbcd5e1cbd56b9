package library

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gorun/gorun/rendezvous/preflight/ldso"
)

// preloaded are libraries, named up to the first dot. If one of them is
// missing, torch/__init__.py loads every wheel of NVIDIA's itself.
var preloaded = []string{
	"libcublas", "libcublasLt", "libcudnn", "libnvrtc", "libcudart", "libcupti", "libcufft", "libcurand", "libnvJitLink",
	"libcusparse", "libcusparseLt", "libcusolver", "libnccl", "libnvshmem_host", "libcufile", "libnvToolsExt",
}

func isNCCL(name string) bool { return strings.HasPrefix(name, "libnccl.so") }

// torch is the package of that name in a site directory.
type torch struct {
	dir, version, cuda string
}

// findTorch returns the package that "import torch" would take.
func (g *gatherer) findTorch(p *python) (torch, bool) {
	for _, s := range p.sites {
		dir := filepath.Join(s.dir, "torch")
		if s.names != nil && !slices.Contains(s.names, "torch") {
			continue
		}
		text, err := readFile(filepath.Join(dir, "version.py"), maxConfig)
		if err == nil {
			t := torch{dir: dir}
			t.version, t.cuda = parseTorch(string(text))
			return t, true
		}
		if isFile(filepath.Join(dir, "__init__.py")) {
			g.addUnknown("cannot read torch's version: " + err.Error())
			return torch{dir: dir}, true
		}
	}
	return torch{}, false
}

// parseTorch reads torch/version.py: lines such as
//
//	__version__ = '2.6.0+cu124'
//	cuda: Optional[str] = '12.4'
func parseTorch(text string) (version, cuda string) {
	for line := range strings.Lines(text) {
		left, right, ok := strings.Cut(line, "=")
		if !ok {
			continue
		}
		name, _, _ := strings.Cut(left, ":")
		value := strings.TrimSpace(right)
		if len(value) < 2 || value[0] != '\'' && value[0] != '"' {
			continue
		}
		value, _, ok = strings.Cut(value[1:], value[:1])
		if !ok || len(value) > maxVersion {
			continue
		}
		switch strings.TrimSpace(name) {
		case "__version__":
			version = value
		case "cuda":
			cuda = value
		}
	}
	return version, cuda
}

// predictPython follows what "import torch" loads.
func (g *gatherer) predictPython(p *python) {
	t, ok := g.findTorch(p)
	if !ok {
		return
	}
	g.torch = true
	g.facts.Torch, g.facts.TorchCUDA = t.version, t.cuda
	lib := filepath.Join(t.dir, "lib")
	g.checkTorch(lib)
	if t.version != "" && t.cuda == "" && !isFile(filepath.Join(lib, "libtorch_cuda.so")) {
		return // a build without CUDA: it does not ask for NCCL
	}
	deps := filepath.Join(lib, "libtorch_global_deps.so")
	hasDeps := isFile(deps)
	var open []string // libraries that import torch opens, in this order
	if hasDeps {
		open = append(open, deps)
	}
	for _, name := range []string{"libtorch_python.so", "libtorch_cuda.so"} {
		if path := filepath.Join(lib, name); isFile(path) {
			open = append(open, path)
			break
		}
	}
	a, err := g.loader.List(g.ctx, p.real, open...)
	if errors.Is(err, ldso.ErrNotELF) || errors.Is(err, fs.ErrNotExist) { // the interpreter is a wrapper
		a, err = g.loader.List(g.ctx, "", open...)
	}
	if err != nil {
		g.addNoAnswer(err)
		return
	}
	wheel, request := g.firstWheelNCCL(p), a.First(isNCCL)
	missing, stopped := "", a.Stopped
	if hasDeps {
		missing = missingLibrary(a, lib, deps)
	}
	for _, r := range a.Requests {
		if r.Err != "" && slices.Contains(open, r.Name) && stopped == "" {
			stopped = r.Err
		}
	}
	switch {
	case wheel != "" && missing != "":
		n := g.nccl(wheel, "torch preloads it, as "+missing+" is not found by the loader alone")
		g.facts.NCCL = &n
	case wheel != "" && request != nil && request.Path == "" && !hasDeps:
		n := g.nccl(wheel, "torch preloads it, as the loader alone does not find it")
		g.facts.NCCL = &n
	case request != nil:
		g.usePrediction(request)
	case stopped != "":
		g.addUnknown("cannot follow torch's libraries: " + stopped)
	default:
		g.findStatic(a)
	}
}

// checkTorch opens torch's own libraries as the loader would. A copy that is
// cut off, or a file mode that denies the user access, ends the import.
func (g *gatherer) checkTorch(lib string) {
	for _, name := range []string{"libc10.so", "libc10_cuda.so", "libtorch.so", "libtorch_cpu.so", "libtorch_cuda.so", "libtorch_python.so"} {
		path := filepath.Join(lib, name)
		if _, err := os.Stat(path); err != nil {
			continue // other builds have other names
		}
		f, err := ldso.Open(path)
		if err == nil {
			_ = f.Close()
		}
		if err != nil {
			g.facts.Broken = append(g.facts.Broken, path+": "+err.Error())
		}
	}
}

// findStatic looks for an NCCL that is linked into libtorch_cuda, which then
// does not ask for libnccl.
func (g *gatherer) findStatic(a ldso.Answer) {
	for _, o := range a.Requests {
		if !strings.HasPrefix(filepath.Base(o.Path), "libtorch_cuda.so") {
			continue
		}
		n := NCCL{Path: o.Path, Static: true, Why: "linked statically into libtorch_cuda.so"}
		found, err := g.readVersion(&n, staticBound)
		if err != nil {
			g.addUnknown("torch does not need libnccl.so; whether it contains NCCL is not known: " + err.Error())
		}
		if found {
			g.facts.NCCL = &n
		}
		return
	}
}

// missingLibrary names a library of NVIDIA's that the loader does not find for
// libtorch_global_deps, before it comes to an NCCL; "" for none.
func missingLibrary(a ldso.Answer, lib, deps string) string {
	for _, r := range a.Requests {
		name := filepath.Base(r.Name)
		stem, _, _ := strings.Cut(name, ".")
		switch ofTorch := filepath.Dir(r.By) == lib && r.By != deps; {
		case isNCCL(name) && r.Path != "":
			return ""
		case r.Path == "" && !ofTorch && slices.Contains(preloaded, stem):
			return name
		}
	}
	return ""
}

// firstWheelNCCL returns the libnccl that torch's own preload takes; "" for
// none.
func (g *gatherer) firstWheelNCCL(p *python) string {
	for _, s := range p.sites {
		if path := g.wheelNCCL(s); path != "" {
			return path
		}
	}
	return ""
}

// usePrediction makes the outcome of a request for libnccl the prediction, and
// lists the files that the loader passed over.
func (g *gatherer) usePrediction(r *ldso.Request) {
	if r.Path == "" {
		g.facts.NCCLError = r.By + " needs " + r.Err
	} else {
		n := g.nccl(r.Path, r.Why)
		g.facts.NCCL, g.route = &n, r.Why
	}
	for _, p := range r.Rejected {
		g.addCandidate(p.Path, p.Why+"; the loader does not accept it: "+p.Err)
	}
}

// predictProgram follows what an ELF program needs.
func (g *gatherer) predictProgram(path string) {
	g.facts.Worker = path
	a, err := g.loader.List(g.ctx, path)
	switch request := a.First(isNCCL); {
	case err != nil:
		g.addNoAnswer(err)
	case request != nil:
		g.usePrediction(request)
	case a.Stopped != "":
		g.addUnknown("cannot follow what the program needs: " + a.Stopped)
	}
}

// predictAny predicts what any program here would get if there is no
// program to run and no torch.
func (g *gatherer) predictAny() {
	if g.torch || g.facts.NCCL != nil || g.facts.NCCLError != "" {
		return
	}
	if found := g.dlopen["libnccl.so.2"]; found.Path != "" {
		n := g.nccl(found.Path, "what a program that needs libnccl.so.2 would get: "+found.Why)
		g.facts.NCCL = &n
	}
}
