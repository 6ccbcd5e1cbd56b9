package pystack

import (
	"encoding/binary"
	"errors"
	"fmt"
	"unicode/utf16"
)

// Frame is a call of a Python function.
type Frame struct {
	Func string
	File string // as the program's compiler knew it; may be relative
	Line int    // 0: not known
}

// Thread is the stack of one thread, the innermost frame first.
type Thread []Frame

// Bounds of one process.
const (
	maxReads        = 32 << 10
	maxThreads      = 256
	maxInterpreters = 64
	maxFrames       = 256 // of a thread; deeper ones are left out
	maxSkipped      = 64  // frames of C between two of Python
	maxText         = 1 << 10
	maxTable        = 256 << 10
)

// memory reads a process.
type memory interface {
	// read fills b from an address.
	read(at uint64, b []byte) error
}

// interpreter finds the threads of one process.
type interpreter struct {
	mem      memory
	layout   layout
	runtime  uint64 // address of _PyRuntime
	codeType uint64 // address of PyCode_Type
	reads    int
}

var errTooLarge = errors.New("its stacks are larger than gorun reads")

func (p *interpreter) read(at uint64, b []byte) error {
	if p.reads++; p.reads > maxReads {
		return errTooLarge
	}
	return p.mem.read(at, b)
}

func (p *interpreter) word(at uint64) (uint64, error) {
	var b [8]byte
	err := p.read(at, b[:])
	return binary.LittleEndian.Uint64(b[:]), err
}

// threads returns the stacks of all threads of the main interpreter, the main thread
// first. CPython adds interpreters and threads at the heads of their lists, so the oldest
// are the last.
func (p *interpreter) threads() ([]Thread, error) {
	interp, err := p.last(p.runtime+p.layout.interpreters, p.layout.interpreter.next)
	if err != nil {
		return nil, err
	}
	state, err := p.word(interp + p.layout.interpreter.threads)
	if err != nil {
		return nil, err
	}
	var all []Thread
	for range maxThreads {
		if state == 0 {
			break
		}
		t, err := p.thread(state)
		if err != nil {
			return nil, err
		}
		all = append([]Thread{t}, all...)
		if state, err = p.word(state + p.layout.thread.next); err != nil {
			return nil, err
		}
	}
	if state != 0 {
		return nil, fmt.Errorf("it has more than %d Python threads", maxThreads)
	}
	if len(all) == 0 {
		return nil, errors.New("its Python has no thread: it begins or ends")
	}
	return all, nil
}

// last returns the last element of the list whose head is at an address.
func (p *interpreter) last(head, next uint64) (uint64, error) {
	at, err := p.word(head)
	if err != nil {
		return 0, err
	}
	if at == 0 {
		return 0, errors.New("its Python has no interpreter: it begins or ends")
	}
	for range maxInterpreters {
		after, err := p.word(at + next)
		if err != nil || after == 0 {
			return at, err
		}
		at = after
	}
	return 0, fmt.Errorf("it has more than %d interpreters", maxInterpreters)
}

// thread returns the stack of a thread.
func (p *interpreter) thread(state uint64) (Thread, error) {
	at, err := p.word(state + p.layout.thread.frame)
	if err == nil && p.layout.thread.indirect && at != 0 {
		at, err = p.word(at + p.layout.thread.innermost)
	}
	if err != nil {
		return nil, err
	}
	var t Thread
	for skipped := 0; at != 0 && len(t) < maxFrames && skipped < maxSkipped; {
		f, ok, err := p.frame(at)
		switch {
		case err != nil:
			return nil, err
		case ok:
			t, skipped = append(t, f), 0
		default:
			skipped++
		}
		if at, err = p.word(at + p.layout.frame.previous); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// frame reads a frame. It returns false for a frame that is none of Python.
func (p *interpreter) frame(at uint64) (f Frame, ok bool, err error) {
	l := &p.layout.frame
	if l.owner != 0 {
		var owner [1]byte
		if err := p.read(at+l.owner, owner[:]); err != nil || owner[0] >= ownedByC {
			return f, false, err
		}
	}
	code, err := p.word(at + l.code)
	if err != nil {
		return f, false, err
	}
	if l.tagged {
		code &^= 3
	}
	if kind, err := p.word(code + p.layout.object); err != nil || kind != p.codeType {
		return f, false, err
	}
	instruction, err := p.word(at + l.instruction)
	if err != nil {
		return f, false, err
	}
	f, err = p.codeFrame(code, instruction)
	return f, err == nil, err
}

// codeFrame returns the frame of a code object at an instruction.
func (p *interpreter) codeFrame(code, instruction uint64) (f Frame, err error) {
	l := &p.layout.code
	for _, text := range []struct {
		at uint64
		to *string
	}{{l.file, &f.File}, {l.name, &f.Func}} {
		at, err := p.word(code + text.at)
		if err != nil {
			return f, err
		}
		if *text.to, err = p.text(at); err != nil {
			return f, err
		}
	}
	var first [4]byte
	if err := p.read(code+l.firstLine, first[:]); err != nil {
		return f, err
	}
	at, err := p.word(code + l.lines)
	if err != nil {
		return f, err
	}
	table, err := p.bytes(at)
	if err != nil {
		return f, err
	}
	index := 0
	switch {
	case l.bytecode != 0:
		index = int(int64(instruction - (code + l.bytecode)))
	case l.format == linetable:
		index = 2 * int(int32(instruction)) // units of two bytes
	default:
		index = int(int32(instruction))
	}
	f.Line = max(0, l.format.lineOf(table, int(int32(binary.LittleEndian.Uint32(first[:]))), max(0, index)))
	return f, nil
}

// bytes reads a bytes object.
func (p *interpreter) bytes(at uint64) ([]byte, error) {
	n, err := p.word(at + p.layout.bytesSize)
	if err != nil {
		return nil, err
	}
	if n > maxTable {
		return nil, errTooLarge
	}
	b := make([]byte, n)
	return b, p.read(at+p.layout.bytesData, b)
}

// text reads a str. A long one is cut.
func (p *interpreter) text(at uint64) (string, error) {
	l := &p.layout.text
	n, err := p.word(at + l.length)
	if err != nil {
		return "", err
	}
	n = min(n, maxText)
	var b [4]byte
	if err := p.read(at+l.state, b[:]); err != nil {
		return "", err
	}
	state := binary.LittleEndian.Uint32(b[:]) >> l.kindBit
	kind, compact, ascii := uint64(state&7), state&8 != 0, state&16 != 0
	if !compact || kind != 1 && kind != 2 && kind != 4 {
		return "", errors.New("a name in its memory is no text")
	}
	start := l.compact
	if ascii {
		start = l.ascii
	}
	data := make([]byte, n*kind)
	if err := p.read(at+start, data); err != nil {
		return "", err
	}
	return decode(data, kind), nil
}

// decode makes a string of characters of 1, 2 or 4 bytes.
func decode(data []byte, kind uint64) string {
	var text []rune
	for i := 0; i+int(kind) <= len(data); i += int(kind) {
		switch kind {
		case 1:
			text = append(text, rune(data[i]))
		case 2:
			text = append(text, rune(binary.LittleEndian.Uint16(data[i:])))
		default:
			text = append(text, rune(binary.LittleEndian.Uint32(data[i:])))
		}
	}
	for i, r := range text {
		if utf16.IsSurrogate(r) { // a byte of a file name that is not UTF-8
			text[i] = '?'
		}
	}
	return string(text)
}
