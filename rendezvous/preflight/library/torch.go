package library

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/gorun/gorun/rendezvous/preflight/loader"
)

// preloaded are the libraries for whose lack torch/__init__.py loads every
// wheel of NVIDIA's itself, up to the first dot.
var preloaded = []string{
	"libcublas", "libcublasLt", "libcudnn", "libnvrtc", "libcudart", "libcupti", "libcufft", "libcurand", "libnvJitLink",
	"libcusparse", "libcusparseLt", "libcusolver", "libnccl", "libnvshmem_host", "libcufile", "libnvToolsExt",
}

func isNCCL(name string) bool { return strings.HasPrefix(name, "libnccl.so") }

// torch is the package in a site directory.
type torch struct {
	dir, version, cuda string
}

// findTorch is the package that "import torch" would take.
func (g *gatherer) findTorch(p *python) (torch, bool) {
	for _, s := range p.sites {
		dir := filepath.Join(s.dir, "torch")
		if s.names != nil && !slices.Contains(s.names, "torch") {
			continue
		}
		text, err := g.files.ReadFile(filepath.Join(dir, "version.py"), maxConfig)
		if err == nil {
			t := torch{dir: dir}
			t.version, t.cuda = parseTorch(string(text))
			return t, true
		}
		if g.files.IsFile(filepath.Join(dir, "__init__.py")) {
			g.miss("cannot read torch's version: " + err.Error())
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
	g.tryTorch(lib)
	if t.version != "" && t.cuda == "" && !g.files.IsFile(filepath.Join(lib, "libtorch_cuda.so")) {
		return // built without CUDA: nothing there asks for NCCL
	}
	proc, err := g.linker.Start(g.ctx, p.real, isNCCL)
	if err != nil { // a wrapper of the interpreter's, or none that can be read
		proc, err = g.linker.Start(g.ctx, "", isNCCL)
	}
	if err != nil {
		return // ctx has ended
	}
	deps := filepath.Join(lib, "libtorch_global_deps.so")
	hasDeps := g.files.IsFile(deps)
	var own *loader.Object // libnccl that torch itself puts into the process
	missing := ""
	if hasDeps {
		_, _ = proc.Open(g.ctx, deps)
		if missing = lacks(proc); missing != "" && proc.Watched == nil {
			if path := g.firstWheel(p); path != "" {
				own, _ = proc.Open(g.ctx, path)
			}
		}
	}
	for _, name := range []string{"libtorch_python.so", "libtorch_cuda.so"} {
		if path := filepath.Join(lib, name); g.files.IsFile(path) && proc.Watched == nil {
			if _, err := proc.Open(g.ctx, path); err != nil && g.ctx.Err() == nil {
				g.miss("cannot follow torch's libraries: " + err.Error())
			}
		}
	}
	switch {
	case proc.Watched != nil && proc.Watched.Got == nil && !hasDeps && g.firstWheel(p) != "":
		n := g.nccl(g.firstWheel(p), "torch preloads it, as the loader alone does not find it")
		g.facts.NCCL = &n
	case proc.Watched != nil:
		g.take(proc.Watched)
		if own != nil && own == proc.Watched.Got {
			g.facts.NCCL.Why = "torch preloads it, as " + missing + " is not found by the loader alone"
		}
	default:
		g.static(proc)
	}
}

// tryTorch opens torch's own libraries as the loader would: a copy that broke off,
// or modes that keep the user out, end the import.
func (g *gatherer) tryTorch(lib string) {
	for _, name := range []string{"libc10.so", "libc10_cuda.so", "libtorch.so", "libtorch_cpu.so", "libtorch_cuda.so", "libtorch_python.so"} {
		path := filepath.Join(lib, name)
		if _, _, err := g.files.Stat(path); err != nil {
			continue // other builds have other names
		}
		f, err := g.files.Open(path)
		if err == nil {
			_, err = loader.Read(f, f.Size())
			_ = f.Close()
		}
		if err != nil {
			g.facts.Broken = append(g.facts.Broken, path+": "+err.Error())
		}
	}
}

// static looks for NCCL inside libtorch_cuda, which does not ask for it.
func (g *gatherer) static(proc *loader.Process) {
	for _, o := range proc.Objects {
		if !strings.HasPrefix(filepath.Base(o.Path), "libtorch_cuda.so") {
			continue
		}
		n := NCCL{Path: o.Path, Static: true, Why: "linked statically into libtorch_cuda.so"}
		found, err := g.readVersion(&n, staticBound)
		if err != nil {
			g.miss("torch does not need libnccl.so; whether it holds NCCL itself is not known: " + err.Error())
		}
		if found {
			g.facts.NCCL = &n
		}
		return
	}
}

// lacks names a library of NVIDIA's that the process needs and does not find.
func lacks(proc *loader.Process) string {
	for _, m := range proc.Missing {
		stem, _, _ := strings.Cut(m.Name, ".")
		if slices.Contains(preloaded, stem) {
			return m.Name
		}
	}
	return ""
}

// firstWheel is the libnccl that torch's own preload takes; "" for none.
func (g *gatherer) firstWheel(p *python) string {
	for _, s := range p.sites {
		if path := g.wheelNCCL(s); path != "" {
			return path
		}
	}
	return ""
}

// take makes the outcome of a request for libnccl the prediction, and lists what
// the same search comes by later.
func (g *gatherer) take(w *loader.Request) {
	if w.Got == nil {
		g.facts.NCCLError = w.By.Path + " needs " + w.Err.Error()
	} else {
		n := g.nccl(w.Got.Path, w.Got.Why())
		g.facts.NCCL = &n
	}
	found, _ := g.linker.Find(w.Name, w.By)
	for _, p := range append([]loader.Place{found.Place}, found.Others...) {
		switch {
		case p.Path == "":
		case p.Err != nil:
			g.add(p.Path, p.Why()+"; the loader does not take it: "+p.Err.Error())
		case w.Got != nil:
			g.add(p.Path, p.Why()+": comes after "+w.Got.Why())
		default:
			g.add(p.Path, p.Why())
		}
	}
}

// predictProgram follows what an ELF program needs.
func (g *gatherer) predictProgram(path string) {
	g.facts.Worker = path
	proc, err := g.linker.Start(g.ctx, path, isNCCL)
	switch {
	case err != nil:
		g.miss("cannot follow what the program needs: " + err.Error())
	case proc.Watched != nil:
		g.take(proc.Watched)
	}
}

// predictAnything says what any program here would get, when there is none to
// run and no torch.
func (g *gatherer) predictAnything() {
	if g.torch || g.facts.NCCL != nil || g.facts.NCCLError != "" {
		return
	}
	if found, err := g.linker.Find("libnccl.so.2", nil); err == nil {
		n := g.nccl(found.Path, "what a program that needs libnccl.so.2 would get: "+found.Why())
		g.facts.NCCL = &n
	}
}
