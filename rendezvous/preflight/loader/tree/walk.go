package tree

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Resolve gives the path without links and "..", in the tree's own terms.
func (t Tree) Resolve(path string) (string, error) {
	if t.root == "" {
		return filepath.EvalSymlinks(path)
	}
	return t.walk(path)
}

// outside is the path as this process must name it.
func (t Tree) outside(path string) (string, error) {
	if t.root == "" {
		return path, nil
	}
	inside, err := t.walk(path)
	return t.root + inside, err
}

// walk follows links inside the tree. What does not exist is kept as it is
// named, so that whoever opens it gets the kernel's own error.
func (t Tree) walk(path string) (string, error) {
	at, rest, links := "", strings.Trim(path, "/"), 0
	for rest != "" {
		var name string
		name, rest, _ = strings.Cut(rest, "/")
		switch name {
		case "", ".":
			continue
		case "..":
			at = at[:max(strings.LastIndexByte(at, '/'), 0)]
			continue
		}
		next := at + "/" + name
		target, err := os.Readlink(t.root + next)
		if err != nil {
			at = next
			continue
		}
		if links++; links > maxLinks {
			return "", &fs.PathError{Op: "open", Path: path, Err: unix.ELOOP}
		}
		if strings.HasPrefix(target, "/") {
			at = ""
		}
		rest = target + "/" + rest
	}
	if at == "" {
		at = "/"
	}
	return at, nil
}
