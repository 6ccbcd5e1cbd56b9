// Package caller finds the line of a program that called this module's worker library,
// fast enough to do it for each call: the return addresses on the stack are the key of a
// table, and only what is not in the table is looked up.
package caller

import (
	"math/bits"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
)

// depth is the number of frames in which the caller must be found.
const depth = 10

// library is the beginning of the names of the library's functions.
const library = "github.com/gorun/gorun/worker"

// slots bounds the table. A program has few call sites; recursion may make many keys.
const slots = 1024

// Table remembers the callers of a program. The zero value is empty. Any goroutine may
// use it.
type Table struct {
	// Number gives a place a number, the same each time; nil: places have none.
	Number func(place string) uint16

	known [slots]atomic.Pointer[known] // a stack lies in one of two slots: see slot
}

// stack is a goroutine's innermost return addresses.
type stack [depth]uintptr

// known is a stack and the place that it leads to.
type known struct {
	stack stack
	place Place
}

// Place is a line of the program.
type Place struct {
	Text   string // "train/main.go:88"; "": unknown
	Number uint16
}

// Find returns the place outside of the library from which this goroutine came into it.
func (t *Table) Find() Place {
	var s stack
	returnPCs(&s)
	i := s.slot()
	if k := t.known[i].Load(); k != nil && k.stack == s {
		return k.place
	}
	if k := t.known[i^1].Load(); k != nil && k.stack == s {
		return k.place
	}
	var pcs [2 * depth]uintptr
	p := Place{Text: outside(pcs[:runtime.Callers(2, pcs[:])])}
	if t.Number != nil {
		p.Number = t.Number(p.Text)
	}
	if s[0] == 0 { // no frame pointers here
		return p
	}
	if t.known[i].Load() != nil {
		i ^= 1
	}
	t.known[i].Store(&known{s, p})
	return p
}

// slot returns the number of a slot for s; the other one is next to it.
func (s *stack) slot() uint64 {
	h := uint64(0)
	for _, pc := range s {
		h = bits.RotateLeft64(h, 5) ^ uint64(pc)
	}
	return h * 0x9E3779B97F4A7C15 >> 32 % slots
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
