package library

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/gorun/gorun/internal/smallfile"
	"github.com/gorun/gorun/rendezvous/preflight/ldso"
)

// nccl describes a libnccl.
func (g *gatherer) nccl(path, why string) NCCL {
	n := NCCL{Path: path, Why: why}
	found, err := g.readVersion(&n, libraryBound)
	if !found {
		g.guessVersion(&n)
	}
	if err != nil && n.Version == "" && n.Error == "" {
		g.addUnknown(fmt.Sprintf("cannot read the NCCL version of %s: %v", path, err))
	}
	return n
}

// readVersion sets the version that the file contains, and why the file cannot
// be loaded.
func (g *gatherer) readVersion(n *NCCL, limit bound) (found bool, err error) {
	if info, err := os.Stat(n.Path); err == nil {
		g.seen = append(g.seen, info)
	}
	f, err := ldso.Open(n.Path)
	if err != nil {
		n.Error = err.Error()
		return false, err
	}
	defer f.Close()
	v, found, err := scanVersion(g.ctx, f.Constants(), limit)
	n.Version, n.Code, n.CUDA = v.text, v.code, v.cuda
	return found, err
}

// guessVersion takes the version from the name of the file behind the links, or
// from the wheel that owns it.
func (g *gatherer) guessVersion(n *NCCL) {
	real, err := filepath.EvalSymlinks(n.Path)
	if err != nil {
		return
	}
	from := "the file's name"
	text, ok := strings.CutPrefix(filepath.Base(real), "libnccl.so.")
	if _, _, is := parseRelease(text); !ok || !is {
		if text = g.wheelVersion(n.Path); text == "" {
			return
		}
		from = "the wheel's name"
	}
	var is bool
	if n.Version, n.Code, is = parseRelease(text); is {
		n.Why += "; version from " + from
	}
}

// wheelVersion returns the version of the wheel that owns the file, "" unless
// exactly one wheel does.
func (g *gatherer) wheelVersion(path string) string {
	siteDir, ok := strings.CutSuffix(filepath.Dir(path), "/"+wheelLib)
	if !ok {
		return ""
	}
	names, _ := smallfile.Names(siteDir, maxNames)
	wheels := g.wheels(site{dir: siteDir, names: names})
	if len(wheels) != 1 {
		return ""
	}
	return wheels[0].Version
}

// versionInName returns the version in the name of the file behind the links:
// "550.54.15" of libcuda.so.550.54.15. The plain ".1" is no version.
func versionInName(path, prefix string) string {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return ""
	}
	v, ok := strings.CutPrefix(filepath.Base(real), prefix)
	if !ok || !isDriverVersion(v) {
		return ""
	}
	return v
}

// isDriverVersion accepts "550.54.15" and "470.57.02".
func isDriverVersion(s string) bool {
	parts := strings.Split(s, ".")
	if len(parts) < 2 || len(parts) > 4 || len(parts[0]) < 3 {
		return false
	}
	for _, p := range parts {
		if !isNumber(p) {
			return false
		}
	}
	return true
}
