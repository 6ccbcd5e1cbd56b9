package loader

import (
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gorun/gorun/rendezvous/preflight/loader/tree"
)

// search yields the files of that name in the loader's order.
func (r *Resolver) search(name string, by *Object) iter.Seq[Place] {
	return func(yield func(Place) bool) {
		if name == "" || len(name) > maxName {
			return
		}
		if strings.Contains(name, "/") {
			if path, ok := r.sys().expand(name, by.folder()); ok {
				if p, ok := r.probe(r.abs(path), ByPath, ""); ok {
					yield(p)
				}
			}
			return
		}
		for s := range r.stages(by) {
			for _, dir := range s.dirs {
				if !r.isDir(dir) {
					continue
				}
				if p, ok := r.probe(dir+"/"+name, s.step, s.of); ok && !yield(p) {
					return
				}
			}
			for _, path := range s.cached(name) {
				if p, ok := r.probe(path, ByCache, ""); ok && !yield(p) {
					return
				}
			}
		}
	}
}

// stage is a path list, or the cache.
type stage struct {
	step   Step
	of     string
	dirs   []string
	lookup func(name string) []string
}

func (s stage) cached(name string) []string {
	if s.lookup == nil {
		return nil
	}
	return s.lookup(name)
}

// stages are what is searched for an object's needs, in order.
func (r *Resolver) stages(by *Object) iter.Seq[stage] {
	return func(yield func(stage) bool) {
		if by == nil || !by.File.HasRunpath {
			for o := by; o != nil; o = o.By {
				if o.File.Rpath != "" && !yield(stage{step: ByRpath, of: o.Path, dirs: r.list(o.File.Rpath, ":", o)}) {
					return
				}
			}
		}
		if r.config.LibraryPath != "" && !yield(stage{step: ByLibPath, dirs: r.list(r.config.LibraryPath, ":;", by.main())}) {
			return
		}
		if by != nil && by.File.Runpath != "" && !yield(stage{step: ByRunpath, of: by.Path, dirs: r.list(by.File.Runpath, ":", by)}) {
			return
		}
		plain := by == nil || !by.File.NoDefaultLib
		if !yield(stage{step: ByCache, lookup: func(name string) []string { return r.cached(name, plain) }}) || !plain {
			return
		}
		yield(stage{step: ByDefault, dirs: r.sys().dirs})
	}
}

// searched names the stages for an error.
func (r *Resolver) searched(name string, by *Object) string {
	if strings.Contains(name, "/") {
		return "this path alone"
	}
	var names []string
	for s := range r.stages(by) {
		p := Place{Step: s.step, Of: s.of}
		if s.step == ByDefault {
			names = append(names, strings.Join(s.dirs, ", "))
		} else {
			names = append(names, p.Why())
		}
	}
	return strings.Join(names, ", ")
}

// list splits a path list and replaces what the object's folder stands for.
func (r *Resolver) list(text, separators string, of *Object) []string {
	var dirs []string
	for dir := range strings.FieldsFuncSeq(guard(text, separators), func(c rune) bool { return strings.ContainsRune(separators, c) }) {
		if len(dirs) == maxDirs {
			break
		}
		if dir, ok := r.sys().expand(dir, of.folder()); ok {
			dirs = append(dirs, r.abs(dir))
		}
	}
	return dirs
}

// guard writes "." where an element is empty, which is what it means.
func guard(text, separators string) string {
	if text == "" {
		return ""
	}
	var b strings.Builder
	empty := true
	for i := range len(text) {
		sep := strings.IndexByte(separators, text[i]) >= 0
		if sep && empty {
			b.WriteByte('.')
		}
		empty = sep
		b.WriteByte(text[i])
	}
	if empty {
		b.WriteByte('.')
	}
	return b.String()
}

func (r *Resolver) abs(path string) string {
	if strings.HasPrefix(path, "/") {
		return path
	}
	return r.config.Dir + "/" + path // not cleaned: ".." after a link is the kernel's to follow
}

// probe looks at one file; ok is false where there is none.
func (r *Resolver) probe(path string, step Step, of string) (p Place, ok bool) {
	f, err := r.files.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return p, false
	}
	p = Place{Path: path, Step: step, Of: of}
	if err != nil {
		p.Path, p.Err, p.stop = filepath.Clean(path), err, errors.Is(err, tree.ErrIrregular)
		return p, p.stop || errors.Is(err, fs.ErrPermission)
	}
	defer f.Close()
	p.id = f.ID()
	p.Path = r.tidy(path, p.id)
	p.File, p.Err = Read(f, f.Size())
	switch {
	case p.Err != nil:
		p.stop = true
	case !p.File.Fits(r.config.Machine):
		p.Err = fmt.Errorf("it is built for %s, %s", p.File.Machine, p.File.Class)
	}
	return p, true
}

// tidy is the path without "..", where that leads to the same file.
func (r *Resolver) tidy(path string, id tree.ID) string {
	clean := filepath.Clean(path)
	if clean == path || !strings.Contains(path, "..") {
		return clean
	}
	if other, _, err := r.files.Stat(clean); err == nil && other == id {
		return clean
	}
	if real, err := r.files.Resolve(path); err == nil {
		return real
	}
	return path
}

func (r *Resolver) isDir(dir string) bool {
	is, known := r.exists[dir]
	if !known {
		is = r.files.IsDir(dir)
		r.exists[dir] = is
	}
	return is
}

func (r *Resolver) sys() system {
	if r.system == nil {
		s := systemOf(r.files, r.config.Machine)
		r.system = &s
	}
	return *r.system
}

// cached asks ld.so.cache; without plain, what lies in a default folder does not count.
func (r *Resolver) cached(name string, plain bool) []string {
	if r.cache == nil {
		r.cache = &Cache{}
		data, err := r.files.ReadFile(cachePath, maxCache)
		if err == nil {
			var c *Cache
			if c, err = ParseCache(data); err == nil {
				r.cache = c
			}
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			r.CacheError = fmt.Errorf("cannot use %s: %w", cachePath, err)
		}
	}
	paths := r.cache.Lookup(name, r.config.Machine)
	if plain {
		return paths
	}
	return slices.DeleteFunc(paths, func(path string) bool {
		return slices.Contains(r.sys().dirs, filepath.Dir(path))
	})
}
