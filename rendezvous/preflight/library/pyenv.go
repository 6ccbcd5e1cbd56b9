package library

import (
	"path/filepath"
	"strings"
)

// resolveShim returns the interpreter behind pyenv's script of that name. It
// returns any other path as it is.
func (g *gatherer) resolveShim(path string) string {
	shims := filepath.Dir(path)
	root := filepath.Dir(shims)
	if filepath.Base(shims) != "shims" || !isDir(filepath.Join(root, "versions")) {
		return path
	}
	for _, version := range g.pyenvVersions(root) {
		exe := filepath.Join(root, "versions", version, "bin", filepath.Base(path))
		if version != "system" && filepath.IsLocal(version) && isFile(exe) {
			return exe
		}
	}
	return path
}

// pyenvVersions returns the versions that pyenv would try: those of
// PYENV_VERSION, else of .python-version above the working directory, else the
// global ones.
func (g *gatherer) pyenvVersions(root string) []string {
	if v := g.env.get("PYENV_VERSION"); v != "" {
		return split(v, ":")
	}
	for dir := g.Dir; filepath.IsAbs(dir); dir = filepath.Dir(dir) {
		if text, err := readFile(filepath.Join(dir, ".python-version"), maxConfig); err == nil {
			return strings.Fields(string(text))
		}
		if dir == "/" {
			break
		}
	}
	text, _ := readFile(filepath.Join(root, "version"), maxConfig)
	return strings.Fields(string(text))
}
