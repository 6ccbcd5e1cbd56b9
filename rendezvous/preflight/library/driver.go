package library

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gorun/gorun/internal/smallfile"
)

// maxProc bounds how much is read of each of the driver's files in /proc and
// /sys, in bytes.
const maxProc = 4096

// driver reads the kernel module's version and finds the driver's libraries.
func (g *gatherer) driver() {
	for _, name := range []string{"/proc/driver/nvidia/version", "/sys/module/nvidia/version"} {
		if text, _, err := smallfile.Read(g.Root+name, maxProc); err == nil && g.facts.Driver == "" {
			g.facts.Driver = parseDriver(string(text))
		}
	}
	if found := g.dlopen["libnvidia-ml.so.1"]; found.Path != "" {
		g.facts.NVML = versionInName(found.Path, "libnvidia-ml.so.")
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

// cuda lists the libcuda.so.1 that dlopen returns, and others.
func (g *gatherer) cuda() {
	var seen []fs.FileInfo
	add := func(path, why string, loaded bool) {
		info, err := os.Stat(path)
		if err != nil || !info.Mode().IsRegular() || contains(seen, info) || len(g.facts.CUDA) == maxCandidates {
			return
		}
		seen = append(seen, info)
		g.facts.CUDA = append(g.facts.CUDA, CUDA{
			Path: path, Version: versionInName(path, "libcuda.so."), Stub: isStub(path), Why: why, Loaded: loaded,
		})
	}
	found := g.dlopen["libcuda.so.1"]
	if found.Path != "" {
		add(found.Path, found.Why, true)
	}
	for _, p := range found.Rejected {
		add(p.Path, p.Why+"; the loader does not accept it: "+p.Err, false)
	}
	for _, dir := range g.facts.LDPath {
		if isStubs(dir) {
			add(filepath.Join(dir, "libcuda.so"), "stubs folder in LD_LIBRARY_PATH: taken by programs that open libcuda.so", false)
		}
	}
	for _, path := range g.glob(g.Root + "/usr/local/cuda*/compat/libcuda.so.1") {
		add(path, "forward compatibility, not searched", false)
	}
	add(g.Root+"/usr/lib/wsl/lib/libcuda.so.1", "WSL's, not searched", false)
}

// isStub reports whether the file, or the one behind its links, is a toolkit's
// stub.
func isStub(path string) bool {
	real, _ := filepath.EvalSymlinks(path)
	return isStubs(filepath.Dir(path)) || isStubs(filepath.Dir(real))
}

func isStubs(dir string) bool { return slices.Contains(strings.Split(dir, "/"), "stubs") }
