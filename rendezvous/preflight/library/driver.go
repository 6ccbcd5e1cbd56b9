package library

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/gorun/gorun/rendezvous/preflight/loader/tree"
)

// maxProc bounds what is read of the driver's files in /proc and /sys, in bytes.
const maxProc = 4096

// driver reads the kernel module's version and finds the driver's libraries.
func (g *gatherer) driver() {
	if text, _, err := g.files.ReadHead("/proc/driver/nvidia/version", maxProc); err == nil {
		g.facts.Driver = parseDriver(string(text))
	}
	if text, _, err := g.files.ReadHead("/sys/module/nvidia/version", maxProc); err == nil && g.facts.Driver == "" {
		g.facts.Driver = parseDriver(string(text))
	}
	if found, err := g.linker.Find("libnvidia-ml.so.1", nil); err == nil {
		g.facts.NVML = numberAfter(g.files, found.Path, "libnvidia-ml.so.")
	}
	g.cuda()
}

// parseDriver finds the version in the first line: "NVRM version: NVIDIA UNIX
// x86_64 Kernel Module  550.54.15  Tue Mar ..." or the version alone.
func parseDriver(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	for word := range strings.FieldsSeq(line) {
		if isDriverVersion(word) {
			return word
		}
	}
	return ""
}

// cuda lists the libcuda.so.1 that dlopen gives, and others.
func (g *gatherer) cuda() {
	seen := map[tree.ID]bool{}
	add := func(path, why string, wins bool) {
		id, mode, err := g.files.Stat(path)
		if err != nil || !mode.IsRegular() || seen[id] || len(g.facts.CUDA) == maxCandidates {
			return
		}
		seen[id] = true
		g.facts.CUDA = append(g.facts.CUDA, CUDA{
			Path: path, Version: numberAfter(g.files, path, "libcuda.so."), Stub: g.isStub(path), Why: why, Wins: wins,
		})
	}
	found, err := g.linker.Find("libcuda.so.1", nil)
	if err == nil {
		add(found.Path, found.Why(), true)
	}
	for _, o := range found.Others {
		why := o.Why() + ": searched later"
		if o.Err != nil {
			why = o.Why() + "; the loader does not take it: " + o.Err.Error()
		}
		add(o.Path, why, false)
	}
	for _, dir := range g.facts.LDPath {
		if isStubs(dir) {
			add(filepath.Join(dir, "libcuda.so"), "stubs folder in LD_LIBRARY_PATH: taken by programs that open libcuda.so", false)
		}
	}
	for _, path := range g.glob("/usr/local/cuda*/compat/libcuda.so.1") {
		add(path, "forward compatibility, not searched", false)
	}
	add("/usr/lib/wsl/lib/libcuda.so.1", "WSL's, not searched", false)
}

// isStub says whether the file, or the one behind its links, is a toolkit's stub.
func (g *gatherer) isStub(path string) bool {
	real, _ := g.files.Resolve(path)
	return isStubs(filepath.Dir(path)) || isStubs(filepath.Dir(real))
}

func isStubs(dir string) bool { return slices.Contains(strings.Split(dir, "/"), "stubs") }
