package pystack

import (
	"bufio"
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// ErrNotPython is the error for a process that has no Python of version 3.
var ErrNotPython = errors.New("no Python 3 runs in it")

// Attempts to read a process that runs while it is read.
const attempts = 3

// Read returns the stacks of a process's Python threads, the main thread first. The
// kernel may hold the call while the process sits in it uninterruptibly; then Read
// returns when ctx ends.
func Read(ctx context.Context, pid int) ([]Thread, error) {
	type result struct {
		threads []Thread
		err     error
	}
	done := make(chan result, 1)
	go func() { // ends with the kernel's answer
		threads, err := readProcess(pid)
		done <- result{threads, err}
	}()
	select {
	case r := <-done:
		return r.threads, r.err
	case <-ctx.Done():
		return nil, fmt.Errorf("reading its memory: %w", context.Cause(ctx))
	}
}

func readProcess(pid int) (threads []Thread, err error) {
	p, err := open(pid)
	if err != nil {
		return nil, err
	}
	for range attempts {
		p.reads = 0
		if threads, err = p.threads(); err == nil {
			return threads, nil
		}
	}
	return nil, err
}

// process reads the memory of another process.
type process int

func (p process) read(at uint64, b []byte) error {
	if len(b) == 0 {
		return nil
	}
	local := []unix.Iovec{{Base: &b[0]}}
	local[0].SetLen(len(b))
	n, err := unix.ProcessVMReadv(int(p), local, []unix.RemoteIovec{{Base: uintptr(at), Len: len(b)}}, 0)
	switch {
	case errors.Is(err, unix.EPERM):
		return errors.New("the kernel does not let gorun read its memory: kernel.yama.ptrace_scope is 2 or 3, another user runs it, or the container forbids process_vm_readv")
	case err != nil:
		return fmt.Errorf("cannot read its memory: %w", err)
	case n < len(b):
		return errors.New("its memory changed while it was read")
	}
	return nil
}

// open finds Python in a process.
func open(pid int) (*interpreter, error) {
	all, err := readMaps(pid)
	if err != nil {
		return nil, err
	}
	for _, m := range candidates(pid, all) {
		s, err := readSymbols(fmt.Sprintf("/proc/%d/root%s", pid, m.path), m)
		if err != nil {
			continue // a file that is no Python
		}
		return newInterpreter(process(pid), s, all)
	}
	return nil, ErrNotPython
}

// newInterpreter reads which version runs, and its layout.
func newInterpreter(mem memory, s symbols, all []mapping) (*interpreter, error) {
	p := &interpreter{mem: mem, runtime: s.runtime, codeType: s.codeType}
	minor := minorVersion(all)
	if s.version != 0 {
		v, err := p.word(s.version)
		if err != nil {
			return nil, err
		}
		if v>>24&0xff != 3 {
			return nil, ErrNotPython
		}
		minor = int(v >> 16 & 0xff)
	}
	if l, known := layouts()[minor]; known {
		p.layout = l
		return p, nil
	}
	if minor < oldestDescribed || minor > newestDescribed {
		return nil, fmt.Errorf("gorun reads Python 3.7 to 3.%d, and it runs another", newestDescribed)
	}
	var b [describedSize]byte
	err := p.read(p.runtime, b[:])
	if err == nil {
		p.layout, err = parseDescribed(b[:], minor)
	}
	return p, err
}

// mapping is the beginning of a file in a process's memory.
type mapping struct {
	start, offset uint64
	path          string
}

// maxMaps bounds the mappings of a process that are read.
const maxMaps = 64 << 10

// readMaps returns the files that a process has mapped, each with its first mapping.
func readMaps(pid int) ([]mapping, error) {
	f, err := os.Open(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return parseMaps(f)
}

func parseMaps(r io.Reader) ([]mapping, error) {
	var all []mapping
	seen := map[string]bool{}
	lines := bufio.NewScanner(r)
	for n := 0; lines.Scan() && n < maxMaps; n++ {
		// address perms offset dev inode path
		fields := strings.SplitN(lines.Text(), " ", 6)
		if len(fields) < 6 {
			continue
		}
		name := strings.TrimLeft(fields[5], " ")
		first, _, _ := strings.Cut(fields[0], "-")
		start, err1 := strconv.ParseUint(first, 16, 64)
		offset, err2 := strconv.ParseUint(fields[2], 16, 64)
		if err1 != nil || err2 != nil || !strings.HasPrefix(name, "/") || seen[name] {
			continue
		}
		seen[name] = true
		all = append(all, mapping{start, offset, name})
	}
	return all, lines.Err()
}

// maxCandidates bounds the files in which Python is looked for.
const maxCandidates = 8

// candidates returns the mapped files that may have Python's runtime: its library, the
// program itself, and what is named like an interpreter.
func candidates(pid int, all []mapping) []mapping {
	exe, _ := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
	var libraries, programs []mapping
	for _, m := range all {
		switch name := path.Base(m.path); {
		case strings.HasPrefix(name, "libpython3"):
			libraries = append(libraries, m)
		case m.path == exe, strings.HasPrefix(name, "python3"):
			programs = append(programs, m)
		}
	}
	found := append(libraries, programs...)
	return found[:min(len(found), maxCandidates)]
}

// minorVersion returns the N of Python 3.N by the names of the mapped files, -1 if they
// do not say it.
func minorVersion(all []mapping) int {
	for _, m := range all {
		for part := range strings.SplitSeq(m.path, "/") {
			_, rest, ok := strings.Cut(part, "python3.")
			digits := len(rest) - len(strings.TrimLeft(rest, "0123456789"))
			if n, err := strconv.Atoi(rest[:digits]); ok && err == nil {
				return n
			}
		}
	}
	return -1
}

// symbols has addresses in a process; 0: the file does not have the symbol.
type symbols struct{ runtime, codeType, version uint64 }

// maxSymbolTable bounds the sections of symbols and of their names, in bytes.
const maxSymbolTable = 256 << 20

// readSymbols finds Python's symbols in an ELF file, which is mapped as m.
func readSymbols(name string, m mapping) (s symbols, err error) {
	f, err := elf.Open(name)
	if err != nil {
		return s, err
	}
	defer f.Close()
	if f.Class != elf.ELFCLASS64 || f.Data != elf.ELFDATA2LSB {
		return s, errors.New("it is no program of 64 bits")
	}
	bias, ok := loadBias(f, m)
	if !ok {
		return s, errors.New("it is not mapped as it says")
	}
	for _, section := range f.Sections {
		if (section.Type == elf.SHT_SYMTAB || section.Type == elf.SHT_DYNSYM || section.Type == elf.SHT_STRTAB) && section.Size > maxSymbolTable {
			return s, errors.New("its table of symbols is too large")
		}
	}
	for _, table := range []func() ([]elf.Symbol, error){f.DynamicSymbols, f.Symbols} {
		list, err := table()
		if err != nil {
			continue
		}
		for _, sym := range list {
			if sym.Section == elf.SHN_UNDEF || sym.Value == 0 {
				continue
			}
			switch sym.Name {
			case "_PyRuntime":
				s.runtime = bias + sym.Value
			case "PyCode_Type":
				s.codeType = bias + sym.Value
			case "Py_Version":
				s.version = bias + sym.Value
			}
		}
		if s.runtime != 0 && s.codeType != 0 {
			return s, nil
		}
	}
	return s, ErrNotPython
}

// loadBias returns what is added to the addresses in an ELF file.
func loadBias(f *elf.File, m mapping) (uint64, bool) {
	const page = 4 << 10
	for _, seg := range f.Progs {
		if seg.Type == elf.PT_LOAD && m.offset >= seg.Off&^(page-1) && m.offset < seg.Off+seg.Filesz {
			return m.start - m.offset - (seg.Vaddr - seg.Off), true
		}
	}
	return 0, false
}
