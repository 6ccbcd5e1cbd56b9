package library

import (
	"path"
	"path/filepath"
	"strings"
)

// maxGlob bounds the matches of one pattern, and the folders that are read for it.
const maxGlob = 64

// candidates lists every other libnccl that lies around.
func (g *gatherer) candidates(p *python) {
	loses := "the worker does not ask the loader for libnccl"
	if n := g.facts.NCCL; n != nil {
		loses = "the worker gets " + n.Path
	} else if g.facts.NCCLError != "" {
		loses = "not on the worker's way"
	}
	// Those that a program without RPATH would get.
	found, err := g.linker.Find("libnccl.so.2", nil)
	if err == nil {
		g.add(found.Path, found.Why()+"; "+loses)
	}
	for _, o := range found.Others {
		g.add(o.Path, o.Why()+"; "+loses)
	}
	if p != nil {
		for _, s := range p.sites {
			if path := g.wheelNCCL(s); path != "" {
				g.add(path, "wheel in "+s.dir+"; "+loses)
			}
		}
		if p.prefix != "" && p.prefix != "/usr" {
			g.add(filepath.Join(p.prefix, "lib/libnccl.so.2"), "Python's prefix "+p.prefix+"; "+loses)
		}
	}
	if conda := g.env.get("CONDA_PREFIX"); filepath.IsAbs(conda) {
		g.add(filepath.Join(conda, "lib/libnccl.so.2"), "CONDA_PREFIX; "+loses)
	}
	for _, pattern := range []string{
		"/usr/local/cuda*/lib64/libnccl.so.2", "/usr/local/nccl*/lib/libnccl.so.2", "/opt/nccl/build/lib/libnccl.so.2",
		"/opt/nvidia/hpc_sdk/*/*/comm_libs/nccl/lib/libnccl.so.2", "/opt/nvidia/hpc_sdk/*/*/comm_libs/*/nccl/lib/libnccl.so.2",
	} {
		for _, path := range g.glob(pattern) {
			g.add(path, "on no path that the loader searches; "+loses)
		}
	}
	g.others(loses)
}

// others are libraries that a Python package opens itself.
func (g *gatherer) others(loses string) {
	const second = ": a second NCCL in the process, if "
	home := g.env.get("HOME")
	cupy := g.env.get("CUPY_CUDA_LIB_PATH")
	if cupy == "" && filepath.IsAbs(home) {
		cupy = filepath.Join(home, ".cupy/cuda_lib")
	}
	if filepath.IsAbs(cupy) {
		for _, path := range g.glob(cupy + "/*/nccl/*/lib/libnccl.so.*") {
			g.add(path, "CuPy's library folder: it wins where CuPy is imported before torch; "+loses)
		}
	}
	if path := g.env.get("VLLM_NCCL_SO_PATH"); path != "" {
		if !filepath.IsAbs(path) {
			path = filepath.Join(g.Dir, path)
		}
		g.add(path, "VLLM_NCCL_SO_PATH"+second+"vLLM runs in it; "+loses)
	}
	if filepath.IsAbs(home) {
		for _, path := range g.glob(home + "/.config/vllm/nccl/*/libnccl.so.*") {
			g.add(path, "vllm-nccl's folder"+second+"an old vLLM runs in it; "+loses)
		}
	}
}

// add lists a libnccl that is in the facts under no other name yet.
func (g *gatherer) add(path, why string) {
	if len(g.facts.Candidates) == maxCandidates || g.ctx.Err() != nil {
		return
	}
	id, mode, err := g.files.Stat(path)
	if err != nil || !mode.IsRegular() || g.seen[id] {
		return
	}
	g.seen[id] = true
	g.facts.Candidates = append(g.facts.Candidates, g.nccl(path, why))
}

// glob is filepath.Glob within the tree and bounds; a path is read as far as
// its patterns need.
func (g *gatherer) glob(pattern string) []string {
	found := []string{""}
	read := 0
	for part := range strings.SplitSeq(strings.TrimPrefix(pattern, "/"), "/") {
		var next []string
		for _, dir := range found {
			if !strings.Contains(part, "*") {
				next = append(next, dir+"/"+part)
				continue
			}
			if read++; read > maxGlob {
				break
			}
			names, err := g.files.ReadDir(dir+"/", maxNames)
			if err != nil {
				continue
			}
			for _, name := range names {
				if ok, _ := path.Match(part, name); ok && len(next) < maxGlob {
					next = append(next, dir+"/"+name)
				}
			}
		}
		found = next
	}
	return found
}
