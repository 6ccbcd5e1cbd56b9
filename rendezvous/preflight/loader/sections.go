package loader

import (
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"strings"
)

const (
	maxSections     = 4096
	maxSectionNames = 1 << 20 // bytes
)

// Range is a part of a file.
type Range struct {
	Off, Len int64
}

// Constants gives the parts of a 64-bit ELF file that hold its constants: the
// sections .rodata and .lrodata, or, in a file without sections, every segment
// that is mapped for reading only. Compressed sections are left out; the loader
// maps none.
func Constants(r io.ReaderAt, size int64) ([]Range, error) {
	m, f, err := open(r, size)
	if err != nil {
		return nil, err
	}
	if f.Class != elf.ELFCLASS64 {
		return nil, errors.New("not a 64-bit ELF file")
	}
	if m.head.Shnum == 0 {
		return m.readOnly()
	}
	return m.rodata()
}

func (m *image) readOnly() ([]Range, error) {
	if err := m.readSegments(); err != nil {
		return nil, err
	}
	var all []Range
	for _, p := range m.segments {
		flags := elf.ProgFlag(p.Flags)
		if elf.ProgType(p.Type) == elf.PT_LOAD && flags&(elf.PF_W|elf.PF_X) == 0 {
			all = m.add(all, p.Off, p.Filesz)
		}
	}
	return all, nil
}

func (m *image) rodata() ([]Range, error) {
	n := int(m.head.Shnum)
	if n > maxSections || m.head.Shentsize != 64 || int(m.head.Shstrndx) >= n {
		return nil, fmt.Errorf("%d section headers of %d bytes, names in number %d", n, m.head.Shentsize, m.head.Shstrndx)
	}
	b, err := m.bytes(m.head.Shoff, uint64(n)*64)
	if err != nil {
		return nil, fmt.Errorf("section headers: %w", err)
	}
	section := func(i int) (s elf.Section64) {
		b := b[i*64:]
		s.Name, s.Type = m.order.Uint32(b), m.order.Uint32(b[4:])
		s.Flags, s.Off, s.Size = m.order.Uint64(b[8:]), m.order.Uint64(b[24:]), m.order.Uint64(b[32:])
		return s
	}
	table := section(int(m.head.Shstrndx))
	names, err := m.bytes(table.Off, min(table.Size, maxSectionNames))
	if err != nil {
		return nil, fmt.Errorf("section names: %w", err)
	}
	var all []Range
	for i := range n {
		s := section(i)
		if elf.SectionType(s.Type) != elf.SHT_PROGBITS || uint64(s.Name) >= uint64(len(names)) ||
			elf.SectionFlag(s.Flags)&elf.SHF_COMPRESSED != 0 {
			continue
		}
		name, _, _ := strings.Cut(string(names[s.Name:min(len(names), int(s.Name)+16)]), "\x00")
		if strings.HasPrefix(name, ".rodata") || strings.HasPrefix(name, ".lrodata") {
			all = m.add(all, s.Off, s.Size)
		}
	}
	return all, nil
}

// add appends the part of the file that there is.
func (m *image) add(all []Range, off, n uint64) []Range {
	if off >= uint64(m.size) || n == 0 {
		return all
	}
	return append(all, Range{Off: int64(off), Len: int64(min(n, uint64(m.size)-off))})
}
