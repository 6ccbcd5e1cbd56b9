package gather

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"unicode"

	"github.com/gorun/gorun/rendezvous/preflight"
)

// These bound the modules of a script; docs/checks.md names the bounds at R03.
// Nodes with the same files select the same modules.
const (
	maxModules       = 256      // files
	maxModuleBytes   = 64 << 10 // bytes of one file that are hashed
	maxModuleFolders = 64
	maxModuleDepth   = 4   // nesting of folders
	maxModuleEntries = 512 // entries of a folder; a folder with more is left out
)

// modules returns the Python files in the folder of a program and in folders
// below it, within the bounds. more says that there are others. It does not
// follow links. It leaves out virtual environments and folders from which
// nothing can be imported.
func modules(ctx context.Context, root string, p preflight.Program) (list []preflight.Module, more bool, err error) {
	dir, own := folder(root, p)
	if dir == "" {
		return nil, false, nil
	}
	top, err := os.OpenRoot(dir)
	if err != nil {
		return nil, false, fmt.Errorf("the program's folder: %w", err)
	}
	defer top.Close()
	for folders := []string{"."}; len(folders) > 0; folders = folders[1:] {
		if ctx.Err() != nil {
			return nil, false, fmt.Errorf("the program's folder: %w", context.Cause(ctx))
		}
		entries, whole := listFolder(top, folders[0])
		more = more || !whole
		if folders[0] != "." && slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return e.Name() == "pyvenv.cfg" }) {
			continue
		}
		for _, e := range entries {
			name := path.Join(folders[0], e.Name())
			switch {
			case name == own, strings.HasPrefix(e.Name(), "."):
			case e.IsDir() && !isImportable(e.Name()):
			case e.IsDir() && (len(folders) == maxModuleFolders || strings.Count(name, "/") == maxModuleDepth-1):
				more = true
			case e.IsDir():
				folders = append(folders, name)
			case !strings.HasSuffix(name, ".py") || !e.Type().IsRegular():
			case len(list) == maxModules:
				return list, true, nil
			default:
				list = append(list, preflight.Module{Path: name, Hash: moduleHash(top, name)})
			}
		}
	}
	slices.SortFunc(list, func(a, b preflight.Module) int { return strings.Compare(a.Path, b.Path) })
	return list, more, nil
}

// folder returns the folder from which a program's modules are imported first,
// and the program's own file in it. It is the folder of a script, or the
// working directory for a module in it (-m); "" for none.
func folder(root string, p preflight.Program) (dir, own string) {
	if p.Python == "" {
		return "", ""
	}
	if p.Script == "" {
		dir = filepath.Join("/", root, p.Dir)
		first, _, _ := strings.Cut(p.Title, ".")
		for _, name := range []string{first, first + ".py"} {
			if _, err := os.Lstat(filepath.Join(dir, name)); err == nil && first != "" {
				return dir, ""
			}
		}
		return "", ""
	}
	script, err := filepath.EvalSymlinks(filepath.Join("/", root, p.Script)) // as Python does
	if err != nil {
		return "", "" // the agent itself reports this
	}
	if info, err := os.Stat(script); err == nil && info.IsDir() {
		return script, ""
	}
	dir, own = filepath.Split(script)
	return dir, own
}

// isImportable reports whether Python could import from a folder of this name,
// that is, whether the name is an identifier. So site-packages is left out, and
// so is a run's output in a folder named after its date.
func isImportable(name string) bool {
	if slices.Contains([]string{"node_modules", "__pycache__"}, name) || name[0] >= '0' && name[0] <= '9' {
		return false
	}
	return !strings.ContainsFunc(name, func(r rune) bool { return r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r) })
}

// listFolder lists a folder by name. whole is false if the folder has too many
// entries or cannot be read.
func listFolder(top *os.Root, dir string) (entries []fs.DirEntry, whole bool) {
	f, err := top.OpenFile(dir, os.O_RDONLY|syscall.O_DIRECTORY, 0)
	if err != nil {
		return nil, false
	}
	defer f.Close()
	entries, err = f.ReadDir(maxModuleEntries + 1)
	if len(entries) > maxModuleEntries || err != nil && err != io.EOF {
		return nil, false
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return entries, true
}

// moduleHash returns a hash of a file's size and its beginning, which shows
// whether two files are alike. It never blocks, whatever kind of file the name
// is by now.
func moduleHash(top *os.Root, name string) string {
	f, err := top.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return "unreadable"
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return "unreadable"
	}
	h := sha256.New()
	fmt.Fprintln(h, info.Size())
	if _, err := io.Copy(h, io.LimitReader(f, maxModuleBytes)); err != nil {
		return "unreadable"
	}
	return hex.EncodeToString(h.Sum(nil)[:6])
}
