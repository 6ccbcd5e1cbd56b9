package loader

import (
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// What an ELF file may have; more is an error. Real ones have a few dozen entries
// of each kind, and up to some tens of KiB of RPATH where every package has a
// folder of its own.
const (
	maxSegments = 512
	maxDynamic  = 4096     // entries
	maxNeeded   = 1024     // entries
	maxString   = 64 << 10 // bytes of one string
	maxStrings  = 1 << 20  // bytes of all strings
	maxWindow   = 4 << 10  // bytes that are read at once
)

// ErrNotELF is for a file that is not ELF at all. ld.so calls it "invalid ELF
// header" and gives up.
var ErrNotELF = errors.New("not an ELF file")

// File is what an ELF file says to the loader.
type File struct {
	Class   elf.Class
	Data    elf.Data
	Machine elf.Machine
	Type    elf.Type

	// Only of 64-bit files; a 32-bit one can't be loaded beside CUDA.
	Interp       string   // the loader that the program asks for; "" for libraries and static programs
	Soname       string   // DT_SONAME
	Needed       []string // DT_NEEDED, in order
	Rpath        string   // DT_RPATH as written; "" when there is a DT_RUNPATH, as it is then ignored
	Runpath      string   // DT_RUNPATH as written
	HasRunpath   bool     // there is a DT_RUNPATH, perhaps an empty one
	NoDefaultLib bool     // DF_1_NODEFLIB: neither ld.so.cache's default folders nor these
}

// Fits says whether a process of this machine could map the file.
func (f *File) Fits(machine elf.Machine) bool {
	return f.Class == elf.ELFCLASS64 && f.Machine == machine
}

// image is an ELF file while it is read.
type image struct {
	r        io.ReaderAt
	size     int64
	order    binary.ByteOrder
	head     elf.Header64
	segments []elf.Prog64
	strings  uint64 // file offset of the dynamic string table
	strsize  uint64
	budget   int    // bytes of strings that may still be read
	window   []byte // what was read last of small parts, and where
	windowAt int64
}

// Read reads an ELF file of size bytes. It uses program headers alone, as the
// loader does: a file without sections is read as well.
func Read(r io.ReaderAt, size int64) (*File, error) {
	m, f, err := open(r, size)
	if err != nil || f.Class != elf.ELFCLASS64 {
		return f, err
	}
	if err := m.readSegments(); err != nil {
		return nil, err
	}
	for _, p := range m.segments {
		if err := m.whole(p); err != nil {
			return nil, err
		}
		if elf.ProgType(p.Type) == elf.PT_INTERP {
			if f.Interp, err = m.text(p.Off, min(p.Filesz, maxString)); err != nil {
				return nil, err
			}
		}
	}
	return f, m.readDynamic(f)
}

// open reads the file's header.
func open(r io.ReaderAt, size int64) (*image, *File, error) {
	m := &image{r: r, size: size, budget: maxStrings}
	var b [64]byte // of elf.Header64
	n := min(size, int64(len(b)))
	if err := m.at(b[:max(n, 0)], 0); err != nil {
		return nil, nil, err
	}
	if n < 20 || string(b[:4]) != elf.ELFMAG {
		return nil, nil, ErrNotELF
	}
	f := &File{Class: elf.Class(b[elf.EI_CLASS]), Data: elf.Data(b[elf.EI_DATA])}
	switch f.Data {
	case elf.ELFDATA2LSB:
		m.order = binary.LittleEndian
	case elf.ELFDATA2MSB:
		m.order = binary.BigEndian
	default:
		return nil, nil, fmt.Errorf("unknown byte order %d", b[elf.EI_DATA])
	}
	f.Type = elf.Type(m.order.Uint16(b[16:]))
	f.Machine = elf.Machine(m.order.Uint16(b[18:]))
	if f.Class != elf.ELFCLASS64 {
		return m, f, nil
	}
	if n < int64(len(b)) {
		return nil, nil, fmt.Errorf("the ELF header is cut off: %w", io.ErrUnexpectedEOF)
	}
	_, err := binary.Decode(b[:], m.order, &m.head)
	return m, f, err
}

func (m *image) readSegments() error {
	n := int(m.head.Phnum)
	switch {
	case n == 0:
		return nil
	case n > maxSegments:
		return fmt.Errorf("%d program headers, more than %d", n, maxSegments)
	case m.head.Phentsize != 56:
		return fmt.Errorf("program headers of %d bytes, not 56", m.head.Phentsize)
	}
	b, err := m.bytes(m.head.Phoff, uint64(n)*56)
	if err != nil {
		return fmt.Errorf("program headers: %w", err)
	}
	m.segments = make([]elf.Prog64, n)
	_, err = binary.Decode(b, m.order, m.segments)
	return err
}

// pageSize is the smallest page of the machines that run CUDA: what is mapped
// beyond the file's last page cannot be touched.
const pageSize = 4096

// whole is the error of a part that is mapped and not there: the loader maps it,
// and the process dies of SIGBUS.
func (m *image) whole(p elf.Prog64) error {
	there := (uint64(m.size) + pageSize - 1) / pageSize * pageSize
	if elf.ProgType(p.Type) != elf.PT_LOAD || p.Filesz <= there && p.Off <= there-p.Filesz {
		return nil
	}
	return fmt.Errorf("the file is cut off after %d bytes: %w", m.size, io.ErrUnexpectedEOF)
}

// readDynamic reads the dynamic section; a static program has none.
func (m *image) readDynamic(f *File) error {
	dyn, err := m.dynamic()
	if err != nil || len(dyn) == 0 {
		return err
	}
	if err := m.findStrings(dyn); err != nil {
		return err
	}
	return m.apply(f, dyn)
}

// findStrings finds the dynamic string table.
func (m *image) findStrings(dyn []elf.Dyn64) (err error) {
	var addr uint64
	for _, d := range dyn {
		switch elf.DynTag(d.Tag) {
		case elf.DT_STRTAB:
			addr = d.Val
		case elf.DT_STRSZ:
			m.strsize = d.Val
		}
	}
	if m.strings, m.strsize, err = m.offset(addr, m.strsize); err != nil {
		return fmt.Errorf("dynamic strings: %w", err)
	}
	return nil
}

// dynamic gives the entries before DT_NULL.
func (m *image) dynamic() ([]elf.Dyn64, error) {
	for _, p := range m.segments {
		if elf.ProgType(p.Type) != elf.PT_DYNAMIC {
			continue
		}
		b, err := m.bytes(p.Off, min(p.Filesz/16, maxDynamic)*16)
		if err != nil {
			return nil, fmt.Errorf("dynamic section: %w", err)
		}
		dyn := make([]elf.Dyn64, 0, len(b)/16)
		for ; len(b) > 0; b = b[16:] {
			tag := int64(m.order.Uint64(b))
			if elf.DynTag(tag) == elf.DT_NULL {
				break
			}
			dyn = append(dyn, elf.Dyn64{Tag: tag, Val: m.order.Uint64(b[8:])})
		}
		return dyn, nil
	}
	return nil, nil
}

// apply fills f from the entries before DT_NULL.
func (m *image) apply(f *File, dyn []elf.Dyn64) error {
	for _, d := range dyn {
		var err error
		var s string
		switch elf.DynTag(d.Tag) {
		case elf.DT_NEEDED:
			if len(f.Needed) == maxNeeded {
				return fmt.Errorf("more than %d NEEDED entries", maxNeeded)
			}
			s, err = m.dynString(d.Val)
			f.Needed = append(f.Needed, s)
		case elf.DT_SONAME:
			f.Soname, err = m.dynString(d.Val)
		case elf.DT_RPATH:
			f.Rpath, err = m.dynString(d.Val)
		case elf.DT_RUNPATH:
			f.HasRunpath = true
			f.Runpath, err = m.dynString(d.Val)
		case elf.DT_FLAGS_1:
			f.NoDefaultLib = elf.DynFlag1(d.Val)&elf.DF_1_NODEFLIB != 0
		}
		if err != nil {
			return fmt.Errorf("%s: %w", elf.DynTag(d.Tag), err)
		}
	}
	if f.HasRunpath {
		f.Rpath = ""
	}
	return nil
}

// bytes reads n bytes, of which the caller has bounded the number.
func (m *image) bytes(off, n uint64) ([]byte, error) {
	if off > uint64(m.size) || n > uint64(m.size)-off {
		return nil, io.ErrUnexpectedEOF
	}
	b := make([]byte, n)
	return b, m.at(b, int64(off))
}

// at reads small parts together with what follows: what the loader looks at
// lies in a few places.
func (m *image) at(b []byte, off int64) error {
	if len(b) > maxWindow/4 {
		return readFull(m.r, b, off)
	}
	in := off - m.windowAt
	if in < 0 || in+int64(len(b)) > int64(len(m.window)) {
		if off < 0 || off+int64(len(b)) > m.size {
			return io.ErrUnexpectedEOF
		}
		if m.window == nil {
			m.window = make([]byte, 0, maxWindow)
		}
		m.window = m.window[:min(maxWindow, m.size-off)]
		m.windowAt = off
		if err := readFull(m.r, m.window, off); err != nil {
			m.window = m.window[:0]
			return err
		}
		in = 0
	}
	copy(b, m.window[in:])
	return nil
}

func readFull(r io.ReaderAt, b []byte, off int64) error {
	if n, err := r.ReadAt(b, off); n < len(b) {
		if err == nil || err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return err
	}
	return nil
}
