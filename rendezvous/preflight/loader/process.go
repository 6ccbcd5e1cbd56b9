package loader

import (
	"context"
	"debug/elf"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gorun/gorun/rendezvous/preflight/loader/tree"
)

const (
	preloadPath = "/etc/ld.so.preload"
	maxPreload  = 64 << 10 // bytes
)

// Object is a file that is mapped.
type Object struct {
	Place
	By *Object // who loaded it; nil for the program

	names []string // it answers to, beside its SONAME
	from  string   // folder, for $ORIGIN
}

// folder is what $ORIGIN stands for; "" unknown.
func (o *Object) folder() string {
	if o == nil {
		return ""
	}
	return o.from
}

// main is the program at the end of the chain.
func (o *Object) main() *Object {
	for o != nil && o.By != nil {
		o = o.By
	}
	return o
}

func (o *Object) answers(name string) bool {
	return o.File.Soname == name || slices.Contains(o.names, name)
}

// Request is a library that an object asked for.
type Request struct {
	Name string
	By   *Object
	Got  *Object // nil when it was not found
	Err  error
}

// Process is a program with its libraries, as it would be after the loader.
type Process struct {
	Objects []*Object // in the order of loading; the program first if it could be read
	Missing []Request // needs that can't be met: the program would not start, or the dlopen fail
	Ignored []error   // of LD_PRELOAD: what can't be preloaded; the loader warns and goes on
	Watched *Request  // the first request for a name that watch accepted

	r     *Resolver
	main  *Object // nil: unknown
	watch func(name string) bool
}

// Start loads a program: what is preloaded, then what they need. Without a
// program ("") the process has what is preloaded only. The loading ends early
// at the first needed library whose name watch accepts, which is then resolved
// but not followed; nil watches nothing.
//
// The program's machine becomes that of the resolver.
func (r *Resolver) Start(ctx context.Context, program string, watch func(name string) bool) (*Process, error) {
	p := &Process{r: r, watch: watch}
	if program != "" {
		var err error
		if p.main, err = r.program(program); err != nil {
			return nil, err
		}
		p.Objects = append(p.Objects, p.main)
		if p.main.File.Interp == "" && len(p.main.File.Needed) == 0 {
			return p, nil // static: no loader, no preload
		}
	}
	for _, name := range r.preloads() {
		o, err := p.resolve(name, p.main)
		if err != nil {
			p.Ignored = append(p.Ignored, err)
			continue
		}
		o.Step = ByPreload
	}
	return p, p.follow(ctx, slices.Clone(p.Objects))
}

func (r *Resolver) program(path string) (*Object, error) {
	place, ok := r.probe(path, ByPath, "")
	switch {
	case !ok:
		return nil, fmt.Errorf("%s: %w", path, ErrNotFound)
	case place.File == nil:
		return nil, fmt.Errorf("%s: %w", path, place.Err)
	case place.File.Class != elf.ELFCLASS64:
		return nil, fmt.Errorf("%s: a 32-bit program", path)
	}
	if m := place.File.Machine; m != r.config.Machine {
		r.config.Machine, r.system = m, nil
		place.Err = nil
	}
	// The kernel names a program by its real place.
	real, err := r.files.Resolve(path)
	if err != nil {
		return nil, err
	}
	return &Object{Place: place, from: filepath.Dir(real)}, nil
}

// preloads are the names in LD_PRELOAD and /etc/ld.so.preload.
func (r *Resolver) preloads() []string {
	names := strings.FieldsFunc(r.config.Preload, func(c rune) bool { return c == ' ' || c == ':' })
	if text, err := r.files.ReadFile(preloadPath, maxPreload); err == nil {
		for line := range strings.Lines(string(text)) {
			line, _, _ = strings.Cut(line, "#")
			names = append(names, strings.FieldsFunc(line, func(c rune) bool { return strings.ContainsRune(": \t\n", c) })...)
		}
	}
	return names[:min(len(names), maxDirs)]
}

// Open is what dlopen(name) in the program does: the library and its needs.
func (p *Process) Open(ctx context.Context, name string) (*Object, error) {
	before := len(p.Objects)
	o, err := p.resolve(name, p.main)
	if err != nil || len(p.Objects) == before {
		return o, err
	}
	return o, p.follow(ctx, []*Object{o})
}

// Mapped is the object that answers to a name, or nil.
func (p *Process) Mapped(name string) *Object {
	for _, o := range p.Objects {
		if o.answers(name) {
			return o
		}
	}
	return nil
}

// follow loads what the objects need, breadth first.
func (p *Process) follow(ctx context.Context, queue []*Object) error {
	for ; len(queue) > 0 && p.Watched == nil; queue = queue[1:] {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("following what %s needs: %w", queue[0].Path, context.Cause(ctx))
		}
		by := queue[0]
		for _, name := range by.File.Needed {
			before := len(p.Objects)
			if before == maxLibraries {
				return fmt.Errorf("more than %d libraries", maxLibraries)
			}
			got, err := p.resolve(name, by)
			request := Request{Name: name, By: by, Got: got, Err: err}
			if p.watch != nil && p.watch(name) {
				p.Watched = &request
				return nil
			}
			switch {
			case err != nil:
				p.Missing = append(p.Missing, request)
			case len(p.Objects) > before:
				queue = append(queue, got)
			}
		}
	}
	return nil
}

// resolve maps one library without its needs, unless it is mapped already.
func (p *Process) resolve(name string, by *Object) (*Object, error) {
	if o := p.Mapped(name); o != nil {
		return o, nil
	}
	place, err := p.r.first(name, by)
	if err != nil {
		return nil, err
	}
	for _, o := range p.Objects {
		if o.id == place.id && place.id != (tree.ID{}) { // the same file by another name
			o.names = append(o.names, name)
			return o, nil
		}
	}
	from := filepath.Dir(place.Path)
	o := &Object{Place: place, By: by, names: []string{name}, from: from}
	p.Objects = append(p.Objects, o)
	return o, nil
}
