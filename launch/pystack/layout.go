package pystack

import (
	"encoding/binary"
	"fmt"
)

// layout says where a version of CPython keeps what a stack consists of, in bytes from
// the beginning of each structure.
type layout struct {
	interpreters uint64 // of _PyRuntime: the newest interpreter
	interpreter  interpreterLayout
	thread       threadLayout
	frame        frameLayout
	code         codeLayout
	text         textLayout
	object       uint64 // of PyObject: its type
	bytesSize    uint64 // of PyBytesObject
	bytesData    uint64
}

type interpreterLayout struct{ next, threads uint64 }

type threadLayout struct {
	next, frame uint64
	// indirect means that frame points to a structure whose pointer at innermost is the
	// frame.
	indirect  bool
	innermost uint64
}

type frameLayout struct {
	previous, code, instruction uint64
	// owner is the byte that says what a frame belongs to. Frames with ownedByC or more
	// are no frames of Python. 0: there is no such byte.
	owner  uint64
	tagged bool // the lowest bits of the pointer to the code are no part of it
}

type codeLayout struct {
	file, name, firstLine, lines uint64
	bytecode                     uint64 // 0: the frame has the index of its instruction, not its address
	format                       lineFormat
}

type textLayout struct {
	length, state uint64
	kindBit       uint // the first bit of the kind in the state
	ascii         uint64
	compact       uint64 // size of the structure before text that is not ASCII
}

// ownedByC is the owner of frames that stand for C code (FRAME_OWNED_BY_CSTACK in 3.12
// and 3.13; FRAME_OWNED_BY_INTERPRETER and more since 3.14).
const ownedByC = 3

// lineFormat is the format of a table of lines.
type lineFormat int

const (
	lnotab    lineFormat = iota // to 3.9
	linetable                   // 3.10
	locations                   // since 3.11
)

// layouts has the versions that do not describe themselves, by minor version.
func layouts() map[int]layout {
	oldText := textLayout{length: 16, state: 32, kindBit: 2, ascii: 48, compact: 72}
	l37 := layout{
		interpreters: 24,
		interpreter:  interpreterLayout{next: 0, threads: 8},
		thread:       threadLayout{next: 8, frame: 24},
		frame:        frameLayout{previous: 24, code: 32, instruction: 104},
		code:         codeLayout{file: 96, name: 104, firstLine: 36, lines: 112, format: lnotab},
		text:         oldText, object: 8, bytesSize: 16, bytesData: 32,
	}
	l38 := l37
	l38.interpreters = 32
	l38.code = codeLayout{file: 104, name: 112, firstLine: 40, lines: 120, format: lnotab}
	l310 := l38
	l310.frame.instruction, l310.code.format = 96, linetable
	l311 := layout{
		interpreters: 40,
		interpreter:  interpreterLayout{next: 0, threads: 16},
		thread:       threadLayout{next: 8, frame: 56, indirect: true, innermost: 8},
		frame:        frameLayout{previous: 48, code: 32, instruction: 56},
		code:         codeLayout{file: 112, name: 120, firstLine: 72, lines: 136, bytecode: 184, format: locations},
		text:         oldText, object: 8, bytesSize: 16, bytesData: 32,
	}
	l312 := l311
	l312.interpreter.threads = 72
	l312.thread.innermost = 0
	l312.frame = frameLayout{previous: 8, code: 0, instruction: 56, owner: 70}
	l312.code.firstLine, l312.code.bytecode = 68, 192
	l312.text.ascii, l312.text.compact = 40, 56
	return map[int]layout{7: l37, 8: l38, 9: l38, 10: l310, 11: l311, 12: l312}
}

// The minor versions that describe themselves in a way known here.
const (
	oldestDescribed = 13
	newestDescribed = 14
)

// cookie begins _PyRuntime of a version that describes itself.
const cookie = "xdebugpy"

// parts lists, in their order, the parts of _Py_DebugOffsets up to unicode_object with
// the number of their fields. The layout of 3.14 has a part and some fields more.
func parts(minor int) (names []string, fields []int) {
	names = []string{
		"runtime", "interpreter", "thread", "frame", "code", "object", "type", "tuple", "list", "set", "dict", "float",
		"long", "bytes", "unicode",
	}
	if minor < 14 {
		return names, []int{3, 13, 9, 6, 10, 2, 4, 3, 3, 0, 3, 2, 3, 3, 4}
	}
	return names, []int{3, 16, 9, 8, 11, 2, 4, 3, 3, 4, 3, 2, 3, 3, 4}
}

// describedSize is the number of bytes that parseDescribed reads at most.
const describedSize = 1 << 10

// parseDescribed returns the layout that a version describes at the beginning of
// _PyRuntime.
func parseDescribed(b []byte, minor int) (layout, error) {
	if len(b) < describedSize || string(b[:len(cookie)]) != cookie {
		return layout{}, fmt.Errorf("its Python 3.%d does not describe its structures", minor)
	}
	word := func(i int) uint64 { return binary.LittleEndian.Uint64(b[8*i:]) }
	at, next := map[string]int{}, 3 // cookie, version, free_threaded
	names, fields := parts(minor)
	for i, name := range names {
		at[name] = next
		next += fields[i]
	}
	field := func(part string, i int) uint64 { return word(at[part] + i) }
	l := layout{
		interpreters: field("runtime", 2),
		interpreter:  interpreterLayout{next: field("interpreter", 2), threads: field("interpreter", 3)},
		thread:       threadLayout{next: field("thread", 2), frame: field("thread", 4)},
		frame: frameLayout{
			previous: field("frame", 1), code: field("frame", 2), instruction: field("frame", 3), owner: field("frame", 5),
			tagged: minor >= 14,
		},
		code: codeLayout{
			file: field("code", 1), name: field("code", 2), lines: field("code", 4), firstLine: field("code", 5), bytecode: field("code", 9),
			format: locations,
		},
		text:   textLayout{state: field("unicode", 1), length: field("unicode", 2), kindBit: 2, ascii: field("unicode", 3), compact: field("unicode", 3) + 16},
		object: field("object", 1), bytesSize: field("bytes", 1), bytesData: field("bytes", 2),
	}
	if freeThreaded := word(2) != 0; freeThreaded && minor >= 14 {
		l.text.kindBit = 8
	}
	return l, l.check()
}

// maxOffset bounds the places that a version describes. The largest known is that of
// the threads in the interpreter, some thousands of bytes.
const maxOffset = 4 << 20

// check returns an error for a layout that cannot be right.
func (l *layout) check() error {
	for _, at := range []uint64{
		l.interpreters, l.interpreter.next, l.interpreter.threads, l.thread.next, l.thread.frame, l.frame.previous, l.frame.code,
		l.frame.instruction, l.frame.owner, l.code.file, l.code.name, l.code.firstLine, l.code.lines, l.code.bytecode,
		l.text.length, l.text.state, l.text.ascii, l.object, l.bytesSize, l.bytesData,
	} {
		if at > maxOffset {
			return fmt.Errorf("its Python describes its structures wrongly: a field at byte %d", at)
		}
	}
	return nil
}
