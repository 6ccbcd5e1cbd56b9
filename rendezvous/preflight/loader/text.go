package loader

import (
	"bytes"
	"debug/elf"
	"fmt"
	"io"
)

// dynString is the string at an offset of the dynamic string table.
func (m *image) dynString(off uint64) (string, error) {
	if off >= m.strsize {
		return "", fmt.Errorf("string at %d of a table of %d bytes", off, m.strsize)
	}
	return m.text(m.strings+off, m.strsize-off)
}

// offset turns n bytes at an address into their place in the file; fewer bytes
// when the segment is shorter.
func (m *image) offset(addr, n uint64) (off, length uint64, err error) {
	for _, p := range m.segments {
		if elf.ProgType(p.Type) == elf.PT_LOAD && addr >= p.Vaddr && addr-p.Vaddr < p.Filesz {
			in := addr - p.Vaddr
			off = p.Off + in
			if off < in || off >= uint64(m.size) {
				return 0, 0, io.ErrUnexpectedEOF
			}
			return off, min(n, p.Filesz-in, uint64(m.size)-off), nil
		}
	}
	return 0, 0, fmt.Errorf("no segment holds address %#x", addr)
}

// text is the string at a file offset that ends with a zero byte, or after limit bytes.
func (m *image) text(off, limit uint64) (string, error) {
	if off >= uint64(m.size) {
		return "", io.ErrUnexpectedEOF
	}
	limit = min(limit, uint64(m.size)-off)
	for n := uint64(256); ; n *= 4 {
		b, err := m.bytes(off, min(n, limit))
		if err != nil {
			return "", err
		}
		if i := bytes.IndexByte(b, 0); i >= 0 {
			b = b[:i]
		} else if n < limit && n < maxString {
			continue // it goes on
		} else if n < limit {
			return "", fmt.Errorf("a string of more than %d bytes", n)
		}
		if m.budget -= len(b); m.budget < 0 {
			return "", fmt.Errorf("more than %d bytes of strings", maxStrings)
		}
		return string(b), nil
	}
}
