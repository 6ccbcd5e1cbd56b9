// Package dl opens shared libraries at run time and calls their functions, without cgo.
//
// Invariants: no function keeps memory of Go after it returns.
package dl

import (
	"fmt"
	"sync"
	"unsafe"

	"github.com/ebitengine/purego"
)

// Library is an open library. It is never closed, because the libraries that this is for
// do not end their threads.
type Library struct {
	handle uintptr
	name   string
	// arguments has room for the arguments of calls, which a call must not have on its stack.
	arguments sync.Pool
}

// Open opens a library by its path, or by a name that the loader finds.
func Open(name string) (*Library, error) {
	h, err := purego.Dlopen(name, purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil {
		return nil, err
	}
	l := &Library{handle: h, name: name}
	l.arguments.New = func() any { return new([maxArguments]uintptr) }
	return l, nil
}

// Func is a function of a library. The zero value is a function that the library lacks.
type Func struct {
	at uintptr
	l  *Library
}

// Exists reports whether the library has the function.
func (f Func) Exists() bool { return f.at != 0 }

// Find returns a function, which does not exist if the library does not have it.
func (l *Library) Find(name string) Func {
	f, err := purego.Dlsym(l.handle, name)
	if err != nil {
		return Func{}
	}
	return Func{f, l}
}

// Want is a function that a library must have.
type Want struct {
	To   *Func
	Name string
}

// FindAll sets what is wanted. The error names the first function that is missing.
func (l *Library) FindAll(wants ...Want) error {
	for _, w := range wants {
		if *w.To = l.Find(w.Name); !w.To.Exists() {
			return fmt.Errorf("%s has no function %s: it is another library, or too old", l.name, w.Name)
		}
	}
	return nil
}

// Call calls f, which returns an int, with integers and pointers. Memory whose address is
// computed in the call itself stays where it is until the call returns.
//
//go:uintptrescapes
func (f Func) Call(args ...uintptr) int32 {
	r, _, _ := purego.SyscallN(f.at, args...)
	return int32(uint32(r))
}

// Numbers is Call for arguments that are no memory of Go, or memory of the heap that the
// caller keeps. It allocates nothing.
func (f Func) Numbers(args ...uintptr) int32 {
	a := f.l.arguments.Get().(*[maxArguments]uintptr)
	n := copy(a[:], args)
	r, _, _ := purego.SyscallN(f.at, a[:n]...)
	f.l.arguments.Put(a)
	return int32(uint32(r))
}

// maxArguments is the most that a function takes.
const maxArguments = 10

// Text calls f, which returns a string of C. The result has at most 1000 bytes.
//
//go:uintptrescapes
func (f Func) Text(args ...uintptr) string {
	r, _, _ := purego.SyscallN(f.at, args...)
	return GoString(r)
}

// Register makes f callable as a Go function that target points to, for arguments that
// are structs. Such a call allocates.
func (f Func) Register(target any) { purego.RegisterFunc(target, f.at) }

// maxString bounds a string of C.
const maxString = 1000

// GoString returns a copy of a string of C.
func GoString(p uintptr) string {
	if p == 0 {
		return ""
	}
	var b []byte
	for i := range uintptr(maxString) {
		c := *(*byte)(at(p + i))
		if c == 0 {
			break
		}
		b = append(b, c)
	}
	return string(b)
}

// at returns a pointer to memory that is not Go's.
func at(p uintptr) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&p)) }

// File returns the file of the library that has f, "" if it is unknown.
func (f Func) File() string { return fileOf(f.at) }
