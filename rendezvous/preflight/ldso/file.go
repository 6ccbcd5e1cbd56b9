package ldso

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime"
	"strings"
	"syscall"
)

// These bound what is read of a file's headers and names, in bytes. The headers
// and names of the largest known library, libtorch_cuda, are below 1 MiB.
const (
	maxHeaders = 8 << 20
	maxInterp  = 4096
	pageSize   = 4096 // the smallest page of the machines that run CUDA
)

// ErrNotELF says that a file is neither a program nor a library.
var ErrNotELF = errors.New("not an ELF file")

// File is an open ELF file.
type File struct {
	*elf.File
	Size int64
	Mode fs.FileMode

	file *os.File
}

// Open reads the headers of a regular ELF file. It is an error if a part is
// missing that contains the headers or that the loader maps.
func Open(path string) (f *File, err error) {
	// Without O_NONBLOCK, opening a pipe waits for a writer.
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer func() {
		// Package debug/elf may panic on a damaged file.
		if r := recover(); r != nil {
			err = fmt.Errorf("damaged headers: %v", r)
		}
		if err != nil {
			_ = file.Close()
		}
	}()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("not a regular file")
	}
	f = &File{Size: info.Size(), Mode: info.Mode(), file: file}
	magic := make([]byte, len(elf.ELFMAG))
	if _, err := file.ReadAt(magic, 0); err != nil || string(magic) != elf.ELFMAG {
		return nil, ErrNotELF
	}
	if f.File, err = elf.NewFile(&bounded{file, maxHeaders}); err != nil {
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return nil, f.errCutOff()
		}
		return nil, err
	}
	mapped := (uint64(f.Size) + pageSize - 1) / pageSize * pageSize
	for _, p := range f.Progs {
		if p.Type == elf.PT_LOAD && (p.Filesz > mapped || p.Off > mapped-p.Filesz) {
			return nil, f.errCutOff()
		}
	}
	return f, nil
}

func (f *File) errCutOff() error {
	return fmt.Errorf("the file is cut off after %d bytes", f.Size)
}

// Close closes the file.
func (f *File) Close() error { return f.file.Close() }

func (f *File) interpreter() (string, error) {
	for _, p := range f.Progs {
		if p.Type != elf.PT_INTERP {
			continue
		}
		b := make([]byte, min(p.Filesz, maxInterp))
		if _, err := p.ReadAt(b, 0); err != nil {
			return "", err
		}
		b, _, _ = bytes.Cut(b, []byte{0})
		return string(b), nil
	}
	return "", nil
}

// Needed returns the names of the libraries that the file needs.
func (f *File) Needed() (names []string, err error) {
	defer recoverDamage(&err)
	return f.ImportedLibraries()
}

// Names returns the file's dynamic strings: the names of the symbols and of the
// symbol versions that it defines or needs, of the libraries that it needs, and
// its own name.
func (f *File) Names() (names []string, err error) {
	defer recoverDamage(&err)
	s := f.Section(".dynstr")
	if s == nil {
		return nil, nil
	}
	text, err := s.Data()
	if err != nil {
		return nil, err
	}
	return strings.Split(string(text), "\x00"), nil
}

func recoverDamage(err *error) {
	if r := recover(); r != nil {
		*err = fmt.Errorf("damaged headers: %v", r)
	}
}

// Constants returns the sections that hold the file's constants. It leaves out
// compressed sections, because the loader maps none.
func (f *File) Constants() (all []*io.SectionReader) {
	for _, s := range f.Sections {
		if s.Type == elf.SHT_PROGBITS && s.Flags&elf.SHF_COMPRESSED == 0 && s.Offset < uint64(f.Size) &&
			(strings.HasPrefix(s.Name, ".rodata") || strings.HasPrefix(s.Name, ".lrodata")) {
			all = append(all, io.NewSectionReader(f.file, int64(s.Offset), int64(min(s.FileSize, uint64(f.Size)-s.Offset))))
		}
	}
	return all
}

// bounded reads at most left bytes.
type bounded struct {
	io.ReaderAt
	left int
}

func (b *bounded) ReadAt(p []byte, off int64) (int, error) {
	if b.left -= len(p); b.left < 0 {
		return 0, errors.New("too many headers")
	}
	return b.ReaderAt.ReadAt(p, off)
}

// checkMachine returns the error for a file of another machine type.
func (f *File) checkMachine() error {
	if machine := machineOf(runtime.GOARCH); f.Class != elf.ELFCLASS64 || machine != elf.EM_NONE && f.Machine != machine {
		return fmt.Errorf("it is built for %s, %s", f.Machine, f.Class)
	}
	return nil
}

func machineOf(arch string) elf.Machine {
	switch arch {
	case "amd64":
		return elf.EM_X86_64
	case "arm64":
		return elf.EM_AARCH64
	case "ppc64", "ppc64le":
		return elf.EM_PPC64
	case "riscv64":
		return elf.EM_RISCV
	case "s390x":
		return elf.EM_S390
	case "loong64":
		return elf.EM_LOONGARCH
	}
	return elf.EM_NONE
}
