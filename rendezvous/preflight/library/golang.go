package library

import "debug/buildinfo"

// isGo reports whether an ELF file is a Go program.
func isGo(path string) bool {
	_, err := buildinfo.ReadFile(path)
	return err == nil
}

// predictGo finds the libnccl that a Go worker opens if it computes on GPUs (package
// worker/cuda): the loader's, else that of a Python environment. Whether it does so is not
// visible from files, so the rules about NCCL do not ask for it.
func (g *gatherer) predictGo() {
	if g.Brief || g.facts.NCCL != nil {
		return
	}
	concern := len(g.unknown)
	defer func() { g.unknown = g.unknown[:concern] }() // no rule needs what stays unknown here
	found := g.dlopen["libnccl.so.2"]
	path, why := found.Path, "what a Go worker opens: "+found.Why
	if path == "" {
		if p := g.defaultPython(); p != nil {
			path, why = g.firstWheelNCCL(p), "the wheel of "+p.exe
		}
	}
	if path == "" {
		return
	}
	n := g.nccl(path, why)
	g.facts.GoNCCL = &n
}
