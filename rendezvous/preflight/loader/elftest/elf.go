// Package elftest writes small shared libraries and an ld.so.cache, so that
// tests can lay out a machine without a compiler.
//
// The files are valid 64-bit little-endian ELF: readelf, debug/elf and ld.so
// accept them; ld.so maps those of its own machine.
package elftest

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"
)

// Library is what a shared library says. The zero value is an empty one for x86-64.
type Library struct {
	Soname  string
	Needed  []string
	Rpath   string // DT_RPATH, "" for none
	Runpath string // DT_RUNPATH, "" for none
	Flags1  elf.DynFlag1
	Symbols []string    // exported, without a meaning
	Rodata  string      // content of .rodata, such as NCCL(...)
	Machine elf.Machine // 0: x86-64
	Interp  string      // of a program
}

// NCCL is what libnccl holds in .rodata: version "2.19.3", cuda "12.3".
func NCCL(version, cuda string) string {
	return "\x00NCCL_DEBUG\x00NCCL version " + version + "+cuda" + cuda + "\x00%s/plugin: \x00"
}

// Write writes a library, and the folders that its path needs.
func Write(t testing.TB, path string, l Library) {
	t.Helper()
	put(t, path, l.Bytes(), 0o755)
}

func put(t testing.TB, path string, data []byte, mode os.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, mode); err != nil {
		t.Fatal(err)
	}
}

// table collects strings, each ending in a zero byte.
type table struct{ bytes.Buffer }

func newTable() *table {
	t := &table{}
	t.WriteByte(0)
	return t
}

func (t *table) add(s string) uint64 {
	off := t.Len()
	t.WriteString(s)
	t.WriteByte(0)
	return uint64(off)
}

// part is a section, and its place in the file, which is its address as well.
type part struct {
	name    string
	kind    elf.SectionType
	flags   elf.SectionFlag
	link    uint32
	info    uint32
	entry   uint64
	content []byte
	off     uint64
}

// The order of the sections.
const (
	null = iota
	interp
	dynstr
	dynsym
	hash
	rodata
	dynamic
	shstrtab
	sections
)

// Bytes is the file.
func (l Library) Bytes() []byte {
	strings := newTable()
	dyn := l.dynamic(strings)
	symbols := make([]elf.Sym64, 1, 1+len(l.Symbols))
	for _, name := range l.Symbols {
		symbols = append(symbols, elf.Sym64{Name: uint32(strings.add(name)), Info: elf.ST_INFO(elf.STB_GLOBAL, elf.STT_OBJECT), Shndx: rodata, Size: 1})
	}
	parts := [sections]part{
		interp:   {name: ".interp", kind: elf.SHT_PROGBITS, flags: elf.SHF_ALLOC},
		dynstr:   {name: ".dynstr", kind: elf.SHT_STRTAB, flags: elf.SHF_ALLOC, content: strings.Bytes()},
		dynsym:   {name: ".dynsym", kind: elf.SHT_DYNSYM, flags: elf.SHF_ALLOC, link: dynstr, info: 1, entry: 24, content: encode(symbols)},
		hash:     {name: ".hash", kind: elf.SHT_HASH, flags: elf.SHF_ALLOC, link: dynsym, entry: 4, content: encode(chain(len(symbols)))},
		rodata:   {name: ".rodata", kind: elf.SHT_PROGBITS, flags: elf.SHF_ALLOC, content: []byte(l.Rodata + "\x00")},
		dynamic:  {name: ".dynamic", kind: elf.SHT_DYNAMIC, flags: elf.SHF_ALLOC | elf.SHF_WRITE, link: dynstr, entry: 16, content: encode(dyn)},
		shstrtab: {name: ".shstrtab", kind: elf.SHT_STRTAB},
	}
	if l.Interp != "" {
		parts[interp].content = []byte(l.Interp + "\x00")
	}
	names := newTable()
	headers := make([]elf.Section64, sections)
	for i := range parts {
		if i != null {
			headers[i].Name = uint32(names.add(parts[i].name))
		}
	}
	parts[shstrtab].content = names.Bytes()

	at := uint64(64 + 4*56)
	for i := range parts {
		parts[i].off = (at + 15) &^ 15
		at = parts[i].off + uint64(len(parts[i].content))
	}
	for i := range symbols {
		if i > 0 {
			symbols[i].Value = parts[rodata].off
		}
	}
	parts[dynsym].content = encode(symbols)
	parts[dynamic].content = encode(addresses(dyn, &parts))
	end := (at + 15) &^ 15

	var file bytes.Buffer
	file.Write(encode(l.header(end)))
	file.Write(encode(l.segments(&parts, at)))
	for i, p := range parts {
		file.Write(make([]byte, p.off-uint64(file.Len())))
		file.Write(p.content)
		if i == null {
			continue
		}
		h := &headers[i]
		h.Type, h.Flags, h.Link, h.Info = uint32(p.kind), uint64(p.flags), p.link, p.info
		h.Off, h.Size, h.Entsize, h.Addralign = p.off, uint64(len(p.content)), p.entry, 1
		if p.flags&elf.SHF_ALLOC != 0 {
			h.Addr = p.off
		}
	}
	file.Write(make([]byte, end-uint64(file.Len())))
	file.Write(encode(headers))
	return file.Bytes()
}

// dynamic is the dynamic section, its addresses still open.
func (l Library) dynamic(strings *table) []elf.Dyn64 {
	var dyn []elf.Dyn64
	add := func(tag elf.DynTag, value uint64) { dyn = append(dyn, elf.Dyn64{Tag: int64(tag), Val: value}) }
	for _, name := range l.Needed {
		add(elf.DT_NEEDED, strings.add(name))
	}
	for _, s := range []struct {
		tag   elf.DynTag
		value string
	}{{elf.DT_SONAME, l.Soname}, {elf.DT_RPATH, l.Rpath}, {elf.DT_RUNPATH, l.Runpath}} {
		if s.value != "" {
			add(s.tag, strings.add(s.value))
		}
	}
	if l.Flags1 != 0 {
		add(elf.DT_FLAGS_1, uint64(l.Flags1))
	}
	for _, tag := range []elf.DynTag{elf.DT_HASH, elf.DT_STRTAB, elf.DT_SYMTAB, elf.DT_STRSZ} {
		add(tag, 0)
	}
	add(elf.DT_SYMENT, 24)
	add(elf.DT_NULL, 0)
	return dyn
}

func addresses(dyn []elf.Dyn64, parts *[sections]part) []elf.Dyn64 {
	for i := range dyn {
		switch elf.DynTag(dyn[i].Tag) {
		case elf.DT_HASH:
			dyn[i].Val = parts[hash].off
		case elf.DT_STRTAB:
			dyn[i].Val = parts[dynstr].off
		case elf.DT_SYMTAB:
			dyn[i].Val = parts[dynsym].off
		case elf.DT_STRSZ:
			dyn[i].Val = uint64(len(parts[dynstr].content))
		}
	}
	return dyn
}

// chain is a hash table for n symbols, of which the first is none: one bucket,
// and each symbol names the next.
func chain(n int) []uint32 {
	t := make([]uint32, 3+n)
	t[0], t[1] = 1, uint32(n)
	next := 2 // the bucket; then the link of the symbol before
	for i := 1; i < n; i++ {
		t[next] = uint32(i)
		next = 3 + i
	}
	return t
}

func (l Library) header(sectionsAt uint64) elf.Header64 {
	h := elf.Header64{
		Type: uint16(elf.ET_DYN), Machine: uint16(l.machine()), Version: 1, Phoff: 64, Shoff: sectionsAt,
		Ehsize: 64, Phentsize: 56, Phnum: 4, Shentsize: 64, Shnum: sections, Shstrndx: shstrtab,
	}
	copy(h.Ident[:], elf.ELFMAG)
	h.Ident[elf.EI_CLASS], h.Ident[elf.EI_DATA], h.Ident[elf.EI_VERSION] = byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), 1
	return h
}

func (l Library) machine() elf.Machine {
	if l.Machine == elf.EM_NONE {
		return elf.EM_X86_64
	}
	return l.Machine
}

// segments maps the whole file writable: ld.so writes into the dynamic section.
func (l Library) segments(parts *[sections]part, size uint64) []elf.Prog64 {
	at := func(kind elf.ProgType, p part) elf.Prog64 {
		n := uint64(len(p.content))
		return elf.Prog64{Type: uint32(kind), Flags: uint32(elf.PF_R | elf.PF_W), Off: p.off, Vaddr: p.off, Paddr: p.off, Filesz: n, Memsz: n, Align: 8}
	}
	first := elf.Prog64{Type: uint32(elf.PT_NULL)}
	if l.Interp != "" {
		first = at(elf.PT_INTERP, parts[interp])
	}
	return []elf.Prog64{
		first,
		{Type: uint32(elf.PT_LOAD), Flags: uint32(elf.PF_R | elf.PF_W), Filesz: size, Memsz: size, Align: 0x10000},
		at(elf.PT_DYNAMIC, parts[dynamic]),
		{Type: uint32(elf.PT_GNU_STACK), Flags: uint32(elf.PF_R | elf.PF_W), Align: 16},
	}
}

func encode(v any) []byte {
	b, err := binary.Append(nil, binary.LittleEndian, v)
	if err != nil {
		panic(err) // fixed-size values of this package
	}
	return b
}
