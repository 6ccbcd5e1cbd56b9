package loader

import (
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/gorun/gorun/rendezvous/preflight/loader/tree"
)

const (
	cachePath    = "/etc/ld.so.cache"
	maxCache     = 16 << 20 // bytes
	maxDirs      = 1024     // elements of one path list
	maxLibraries = 4096     // of one process
)

// Config is the surroundings of the process that would load.
type Config struct {
	Root        string      // stands for "/"; "" for the machine itself
	Dir         string      // working directory, absolute: relative elements of path lists count from it
	LibraryPath string      // LD_LIBRARY_PATH
	Preload     string      // LD_PRELOAD
	Machine     elf.Machine // 0: the machine that this program was built for
}

// Resolver finds libraries as ld.so would. It reads what it needs when it needs
// it, remembers folders and ld.so.cache, and is not for concurrent use.
type Resolver struct {
	config Config
	files  tree.Tree
	system *system
	cache  *Cache
	exists map[string]bool // folders

	CacheError error // why ld.so.cache was not used, once it was needed
}

// New gives a resolver; it reads nothing yet.
func New(c Config) *Resolver {
	if c.Machine == elf.EM_NONE {
		c.Machine = HostMachine()
	}
	return &Resolver{config: c, files: tree.New(c.Root), exists: map[string]bool{}}
}

// Files is the tree that the resolver reads.
func (r *Resolver) Files() tree.Tree { return r.files }

// Step is a stage of the loader's search.
type Step int

const (
	ByPath    Step = iota // the name has a slash: no search
	ByPreload             // LD_PRELOAD or /etc/ld.so.preload
	ByRpath               // DT_RPATH of the requester or of one that loaded it
	ByLibPath             // LD_LIBRARY_PATH
	ByRunpath             // DT_RUNPATH of the requester
	ByCache               // ld.so.cache
	ByDefault             // default folders
)

// Place is a file that the search comes by.
type Place struct {
	Path string // without "..", but with the links by which it is reached
	Step Step
	Of   string // the ELF file that holds the RPATH or RUNPATH
	File *File  // nil when it can't be read as ELF
	Err  error  // why the loader does not take it
	id   tree.ID
	stop bool // the loader gives up here
}

// Why is how the loader gets to the place: "RPATH of /.../libtorch_cuda.so".
func (p Place) Why() string {
	switch p.Step {
	case ByPath:
		return "named by its path"
	case ByPreload:
		return "LD_PRELOAD"
	case ByRpath:
		return "RPATH of " + p.Of
	case ByLibPath:
		return "LD_LIBRARY_PATH"
	case ByRunpath:
		return "RUNPATH of " + p.Of
	case ByCache:
		return "ld.so.cache"
	}
	return "default folder " + filepath.Dir(p.Path)
}

// Found is the outcome of a search.
type Found struct {
	Place
	Others []Place // further files of that name on the way: those passed over, and those that come later
}

// ErrNotFound is for a library that the search does not come by.
var ErrNotFound = errors.New("not found")

// Find searches a library for the object that needs it, nil for a dlopen by a
// program of which nothing is known. What is already mapped or preloaded is
// Process's concern. The error wraps ErrNotFound, or says which file ends the
// search; Others is given with an error too.
func (r *Resolver) Find(name string, by *Object) (Found, error) {
	var found Found
	var broken, denied error
	seen := map[tree.ID]bool{}
	for p := range r.search(name, by) {
		switch {
		case p.denied():
			denied = p.Err
			found.Others = append(found.Others, p)
			continue
		case seen[p.id]:
		case p.Err == nil && found.Path == "" && broken == nil:
			found.Place = p
		default:
			if p.stop && found.Path == "" && broken == nil {
				broken = fmt.Errorf("%s: the loader gives up at %s (%s): %w", name, p.Path, p.Why(), p.Err)
			}
			found.Others = append(found.Others, p)
		}
		seen[p.id] = true
	}
	if found.Path == "" && broken == nil {
		broken = r.nowhere(name, by, denied)
	}
	return found, broken
}

// first is Find without what comes after the winner.
func (r *Resolver) first(name string, by *Object) (Place, error) {
	var denied error
	for p := range r.search(name, by) {
		switch {
		case p.Err == nil:
			return p, nil
		case p.stop:
			return p, fmt.Errorf("%s: the loader gives up at %s (%s): %w", name, p.Path, p.Why(), p.Err)
		case p.denied():
			denied = p.Err
		}
	}
	return Place{}, r.nowhere(name, by, denied)
}

// denied reports whether the file is there and may not be read, which the loader
// passes over.
func (p Place) denied() bool { return p.Err != nil && errors.Is(p.Err, fs.ErrPermission) }

// nowhere is the error of a search without an outcome; denied is that of a file
// that it passed over.
func (r *Resolver) nowhere(name string, by *Object, denied error) error {
	if denied != nil {
		return fmt.Errorf("%s: %w (%w; searched: %s)", name, ErrNotFound, denied, r.searched(name, by))
	}
	return fmt.Errorf("%s: %w (searched: %s)", name, ErrNotFound, r.searched(name, by))
}
