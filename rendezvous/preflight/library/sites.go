package library

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gorun/gorun/internal/smallfile"
)

const (
	maxNames = 20000 // entries of one folder that are read
	maxPTH   = 64    // .pth files of one site directory
)

// site is a folder of sys.path that exists.
type site struct {
	dir    string
	names  []string // names in the folder; nil for folders that are not listed
	wheels []Wheel
}

// sites sets the folders of sys.path that may hold packages, in Python's order
// (Lib/site.py, and Debian's change of it).
func (g *gatherer) sites(p *python) {
	var seen []fs.FileInfo
	add := func(dir string, packages bool) {
		dir = g.absolute(dir)
		info, err := os.Stat(dir)
		if err != nil || !info.IsDir() || contains(seen, info) || len(p.sites) == maxSites {
			return
		}
		seen = append(seen, info)
		s := site{dir: filepath.Clean(dir)}
		if packages || isDir(filepath.Join(dir, "nvidia")) {
			s.names, _ = smallfile.Names(dir, maxNames)
			slices.Sort(s.names)
		}
		s.wheels = g.wheels(s)
		p.sites = append(p.sites, s)
	}
	if dir := g.scriptDir(p); dir != "" {
		add(dir, false)
	}
	if !p.flags.noEnv {
		for dir := range strings.SplitSeq(g.env.get("PYTHONPATH"), ":") {
			if dir != "" {
				add(dir, false)
			}
		}
	}
	if p.flags.noSite || p.version == "" {
		return
	}
	for _, dir := range g.siteDirs(p) {
		before := len(p.sites)
		add(dir, true)
		if len(p.sites) > before {
			for _, extra := range g.pathFiles(p.sites[before]) {
				add(extra, true)
			}
		}
	}
}

// scriptDir returns the folder that is first in sys.path; "" for none.
func (g *gatherer) scriptDir(p *python) string {
	script := p.flags.script
	switch {
	case p.flags.safePath || script == "" && !p.flags.here:
		return ""
	case p.flags.here:
		return g.Dir
	case !filepath.IsAbs(script):
		script = filepath.Join(g.Dir, script)
	}
	real, err := filepath.EvalSymlinks(script)
	switch {
	case err != nil: // the name of a module
		return g.Dir
	case isDir(real): // a folder with a __main__.py
		return real
	}
	return filepath.Dir(real)
}

// siteDirs returns the folders that module site would add, whether they exist
// or not.
func (g *gatherer) siteDirs(p *python) []string {
	var dirs []string
	lib := "python" + p.version
	libs := []string{"lib"} // sys.platlibdir comes first: lib64 on Red Hat and SUSE
	if isFile(filepath.Join(p.prefix, "lib64", lib, "os.py")) {
		libs = []string{"lib64", "lib"}
	}
	of := func(prefix string) {
		for _, name := range libs {
			dirs = append(dirs, filepath.Join(prefix, name, lib, "site-packages"))
		}
	}
	if p.venv != "" {
		of(p.venv)
		if !p.system {
			return dirs
		}
	}
	if base := g.userBase(p); base != "" {
		dirs = append(dirs, filepath.Join(base, "lib", lib, "site-packages"))
	}
	if p.prefix == "" {
		return dirs
	}
	if debian := filepath.Join(p.prefix, "lib/python3/dist-packages"); isDir(debian) {
		return append(dirs, filepath.Join(p.prefix, "local/lib", lib, "dist-packages"), debian, filepath.Join(p.prefix, "lib", lib, "dist-packages"))
	}
	if p.prefix == "/usr" { // as on Fedora
		of("/usr/local")
	}
	of(p.prefix)
	return dirs
}

// userBase returns the folder of the user's own packages, "" if they are off.
func (g *gatherer) userBase(p *python) string {
	if p.flags.noUser {
		return ""
	}
	if base := g.env.get("PYTHONUSERBASE"); base != "" && !p.flags.noEnv {
		return base
	}
	if home := g.env.get("HOME"); home != "" {
		return filepath.Join(home, ".local")
	}
	return ""
}

// pathFiles returns the folders that a site directory's .pth files name. It
// leaves out lines that are code.
func (g *gatherer) pathFiles(s site) []string {
	var dirs []string
	files := 0
	for _, name := range s.names {
		if !strings.HasSuffix(name, ".pth") || strings.HasPrefix(name, ".") {
			continue
		}
		if files++; files > maxPTH {
			break
		}
		text, err := readFile(filepath.Join(s.dir, name), maxConfig)
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(text)) {
			line = strings.TrimSpace(line)
			if line == "" || line[0] == '#' || strings.HasPrefix(line, "import ") || strings.HasPrefix(line, "import\t") || len(dirs) == maxSites {
				continue
			}
			if !filepath.IsAbs(line) {
				line = filepath.Join(s.dir, line)
			}
			dirs = append(dirs, line)
		}
	}
	return dirs
}

// wheels returns the packages of a site directory that own nvidia/nccl/lib.
func (g *gatherer) wheels(s site) []Wheel {
	var all []Wheel
	for _, entry := range s.names {
		stem, ok := strings.CutSuffix(entry, ".dist-info")
		if !ok || !strings.HasPrefix(stem, "nvidia_nccl_cu") || len(all) == maxCandidates {
			continue
		}
		name, version, _ := strings.Cut(stem, "-")
		all = append(all, Wheel{
			Name: strings.ReplaceAll(name, "_", "-"), Version: version, Site: s.dir,
			File: isFile(filepath.Join(s.dir, wheelLib, "libnccl.so.2")),
		})
	}
	return all
}

// wheelLib is the folder where nvidia-nccl-cu11, -cu12 and -cu13 alike put
// their library.
const wheelLib = "nvidia/nccl/lib"

// wheelNCCL returns the library that torch would preload from a site directory:
// nvidia/nccl/lib/libnccl.so.*[0-9]; "" for none.
func (g *gatherer) wheelNCCL(s site) string {
	dir := filepath.Join(s.dir, wheelLib)
	if usual := filepath.Join(dir, "libnccl.so.2"); isFile(usual) {
		return usual
	}
	names, _ := smallfile.Names(dir, maxNames)
	slices.Sort(names)
	for _, name := range names {
		if rest, ok := strings.CutPrefix(name, "libnccl.so."); ok && rest != "" && isNumber(rest[len(rest)-1:]) {
			return filepath.Join(dir, name)
		}
	}
	return ""
}
