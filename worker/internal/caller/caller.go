// Package caller finds the line of a program that called this module's worker library,
// fast enough to do it for each call: the frame pointers of the stack are the key of a
// table, and only what is not in the table is looked up.
package caller

import (
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
)

// depth is the number of frames in which the caller must be found.
const depth = 10

// library is the beginning of the names of the library's functions.
const library = "github.com/gorun/gorun/worker"

// maxKnown bounds the table. A program has few call sites; recursion may make many keys.
const maxKnown = 4096

// Table remembers the callers of a program. The zero value is empty. Any goroutine may
// use it.
type Table struct {
	// Number gives a place a number, once; nil: places have none.
	Number func(place string) uint16

	mu    sync.RWMutex
	known map[[depth]uintptr]Place
}

// Place is a line of the program.
type Place struct {
	Text   string // "train/main.go:88"; "": unknown
	Number uint16
}

// Find returns the place outside of the library from which this goroutine came into it.
func (t *Table) Find() Place {
	var key [depth]uintptr
	returnPCs(&key)
	t.mu.RLock()
	p, ok := t.known[key]
	t.mu.RUnlock()
	if ok {
		return p
	}
	var pcs [2 * depth]uintptr
	p.Text = outside(pcs[:runtime.Callers(2, pcs[:])])
	if t.Number != nil {
		p.Number = t.Number(p.Text)
	}
	if key[0] == 0 { // no frame pointers here
		return p
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.known == nil {
		t.known = map[[depth]uintptr]Place{}
	}
	if len(t.known) < maxKnown {
		t.known[key] = p
	}
	return p
}

// outside returns the first place that is not in the library. Tests count as outside.
func outside(pcs []uintptr) string {
	frames := runtime.CallersFrames(pcs)
	for {
		f, more := frames.Next()
		rest, inside := strings.CutPrefix(f.Function, library)
		inside = inside && (strings.HasPrefix(rest, ".") || strings.HasPrefix(rest, "/"))
		if f.File != "" && (!inside || strings.HasSuffix(f.File, "_test.go")) {
			return filepath.Join(filepath.Base(filepath.Dir(f.File)), filepath.Base(f.File)) + ":" + strconv.Itoa(f.Line)
		}
		if !more {
			return ""
		}
	}
}
