package library

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gorun/gorun/internal/smallfile"
)

// maxGlob bounds the matches of one pattern, and the folders that are read for
// it.
const maxGlob = 64

// addCandidates lists every other libnccl on the node.
func (g *gatherer) addCandidates(p *python) {
	reason := "the worker does not ask the loader for libnccl"
	if n := g.facts.NCCL; n != nil {
		reason = "the worker gets " + n.Path
	} else if g.facts.NCCLError != "" {
		reason = "the loader does not come to it"
	}
	// First come those that a program without RPATH would get, in the loader's
	// order.
	later := "; " + reason
	if g.route != "" {
		later = ": comes after " + g.route
	}
	if found := g.dlopen["libnccl.so.2"]; found.Path != "" {
		g.addCandidate(found.Path, found.Why+later)
	}
	for _, dir := range g.facts.LDPath {
		g.addCandidate(g.absolute(filepath.Join(dir, "libnccl.so.2")), "LD_LIBRARY_PATH"+later)
	}
	for _, pattern := range []string{"/usr/lib/*/libnccl.so.2", "/usr/lib/libnccl.so.2", "/usr/lib64/libnccl.so.2", "/usr/local/lib/libnccl.so.2"} {
		for _, path := range g.glob(g.Root + pattern) {
			g.addCandidate(path, "folder of the system; "+reason)
		}
	}
	if p != nil {
		for _, s := range p.sites {
			if path := g.wheelNCCL(s); path != "" {
				g.addCandidate(path, "wheel in "+s.dir+"; "+reason)
			}
		}
		if p.prefix != "" && p.prefix != "/usr" {
			g.addCandidate(filepath.Join(p.prefix, "lib/libnccl.so.2"), "Python's prefix "+p.prefix+"; "+reason)
		}
	}
	if conda := g.env.get("CONDA_PREFIX"); filepath.IsAbs(conda) {
		g.addCandidate(filepath.Join(conda, "lib/libnccl.so.2"), "CONDA_PREFIX; "+reason)
	}
	for _, pattern := range []string{
		"/usr/local/cuda*/lib64/libnccl.so.2", "/usr/local/nccl*/lib/libnccl.so.2", "/opt/nccl/build/lib/libnccl.so.2",
		"/opt/nvidia/hpc_sdk/*/*/comm_libs/nccl/lib/libnccl.so.2", "/opt/nvidia/hpc_sdk/*/*/comm_libs/*/nccl/lib/libnccl.so.2",
	} {
		for _, path := range g.glob(g.Root + pattern) {
			g.addCandidate(path, "on no path that the loader searches; "+reason)
		}
	}
	g.addPackageLibraries(reason)
}

// addPackageLibraries lists libraries that a Python package opens itself.
func (g *gatherer) addPackageLibraries(reason string) {
	const second = ": a second NCCL in the process, if "
	home := g.env.get("HOME")
	cupy := g.env.get("CUPY_CUDA_LIB_PATH")
	if cupy == "" && filepath.IsAbs(home) {
		cupy = filepath.Join(home, ".cupy/cuda_lib")
	}
	if filepath.IsAbs(cupy) {
		for _, path := range g.glob(cupy + "/*/nccl/*/lib/libnccl.so.*") {
			g.addCandidate(path, "CuPy's library folder: it is loaded if CuPy is imported before torch; "+reason)
		}
	}
	if path := g.env.get("VLLM_NCCL_SO_PATH"); path != "" {
		g.addCandidate(g.absolute(path), "VLLM_NCCL_SO_PATH"+second+"vLLM runs in it; "+reason)
	}
	if filepath.IsAbs(home) {
		for _, path := range g.glob(home + "/.config/vllm/nccl/*/libnccl.so.*") {
			g.addCandidate(path, "vllm-nccl's folder"+second+"an old vLLM runs in it; "+reason)
		}
	}
}

// addCandidate lists a libnccl that the facts do not have under another name.
func (g *gatherer) addCandidate(path, why string) {
	if len(g.facts.Candidates) == maxCandidates || g.ctx.Err() != nil {
		return
	}
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() || contains(g.seen, info) {
		return
	}
	g.facts.Candidates = append(g.facts.Candidates, g.nccl(path, why))
}

// contains reports whether a file is among others, whatever its name.
func contains(files []fs.FileInfo, file fs.FileInfo) bool {
	return slices.ContainsFunc(files, func(f fs.FileInfo) bool { return os.SameFile(f, file) })
}

func (g *gatherer) absolute(path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(g.Dir, path)
}

// glob works as filepath.Glob within bounds. It reads a path only as far as its
// patterns need.
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
			names, err := smallfile.Names(dir+"/", maxNames)
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
