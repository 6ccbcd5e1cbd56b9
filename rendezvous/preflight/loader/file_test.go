package loader_test

import (
	"bytes"
	"debug/elf"
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/gorun/gorun/rendezvous/preflight/loader"
	"github.com/gorun/gorun/rendezvous/preflight/loader/elftest"
)

func read(data []byte) (*loader.File, error) {
	return loader.Read(bytes.NewReader(data), int64(len(data)))
}

// What is on the machine reads as debug/elf reads it, which goes by sections.
func TestReadLikeDebugELF(t *testing.T) {
	for _, name := range []string{"sh", "ls", "gcc", "git", "bash", "go"} {
		path, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		want, err := elf.NewFile(bytes.NewReader(data))
		if err != nil || want.Class != elf.ELFCLASS64 {
			continue
		}
		got, err := read(data)
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		needed, err := want.ImportedLibraries()
		if err != nil && !errors.Is(err, elf.ErrNoSymbols) {
			t.Errorf("%s: debug/elf: %v", path, err)
		}
		if !slices.Equal(got.Needed, needed) || got.Machine != want.Machine || got.Type != want.Type {
			t.Errorf("%s: got %+v, debug/elf says it needs %q", path, got, needed)
		}
	}
}

func TestReadRefuses(t *testing.T) {
	good := elftest.Library{Soname: "libx.so", Needed: []string{"libc.so.6"}}.Bytes()
	changed := func(at int, b ...byte) []byte {
		c := slices.Clone(good)
		copy(c[at:], b)
		return c
	}
	parsed, err := elf.NewFile(bytes.NewReader(good))
	if err != nil {
		t.Fatal(err)
	}
	dynamic := int(parsed.Section(".dynamic").Offset) // its first entry is DT_NEEDED
	for name, tt := range map[string]struct {
		data []byte
		want string // part of the error
	}{
		"empty":                    {nil, "not an ELF file"},
		"a script":                 {[]byte("#!/usr/bin/env python3\nprint(1)\n"), "not an ELF file"},
		"a linker script":          {[]byte("/* GNU ld script */\nGROUP ( /lib/libm.so.6 )"), "not an ELF file"},
		"half a header":            {good[:40], "cut off"},
		"segments beyond the end":  {changed(32, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f), "program headers"},
		"too many segments":        {changed(56, 0xff, 0xff), "program headers, more than"},
		"segments of another size": {changed(54, 32, 0), "program headers of 32 bytes"},
		"a byte order of its own":  {changed(5, 7), "byte order"},
		"a name beyond the table":  {changed(dynamic+8, 0xff, 0xff, 0xff), "DT_NEEDED: string at"},
		"endless RPATH":            {elftest.Library{Rpath: strings.Repeat("/a:", 30000)}.Bytes(), "DT_RPATH: a string of more than 65536 bytes"},
		"endless needs":            {elftest.Library{Needed: make([]string, 2000)}.Bytes(), "more than 1024 NEEDED"},
		"much text":                {elftest.Library{Needed: slices.Repeat([]string{strings.Repeat("x", 60000)}, 20)}.Bytes(), "bytes of strings"},
	} {
		if _, err := read(tt.data); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got error %v, want %q", name, err, tt.want)
		}
	}
}

func TestReadTellsOtherClasses(t *testing.T) {
	data := elftest.Library{}.Bytes()
	data[elf.EI_CLASS] = byte(elf.ELFCLASS32)
	f, err := read(data)
	if err != nil || f.Class != elf.ELFCLASS32 || f.Fits(elf.EM_X86_64) {
		t.Errorf("32 bits: %+v, %v", f, err)
	}
	if f, err := read(elftest.Library{Rpath: strings.Repeat("/a:", 20000)}.Bytes()); err != nil || len(f.Rpath) != 60000 {
		t.Errorf("a long RPATH: %v", err)
	}
}

func TestConstants(t *testing.T) {
	text := elftest.NCCL("2.19.3", "12.3")
	data := elftest.Library{Soname: "libnccl.so.2", Rodata: text}.Bytes()
	holds := func(data []byte) bool {
		ranges, err := loader.Constants(bytes.NewReader(data), int64(len(data)))
		if err != nil {
			t.Error(err)
		}
		for _, r := range ranges {
			if bytes.Contains(data[r.Off:r.Off+r.Len], []byte(text)) {
				return true
			}
		}
		return false
	}
	if !holds(data) {
		t.Error("not in .rodata")
	}
	bare := slices.Clone(data)
	copy(bare[60:], []byte{0, 0, 0, 0}) // no section headers, as after sstrip
	load := bytes.Index(bare, []byte{1, 0, 0, 0, 6, 0, 0, 0})
	bare[load+4] = byte(elf.PF_R)
	if !holds(bare) {
		t.Error("not found without sections")
	}
	for _, broken := range [][]byte{data[:len(data)-100], {1, 2, 3}, bytes.Repeat([]byte{0xff}, 100)} {
		if _, err := loader.Constants(bytes.NewReader(broken), int64(len(broken))); err == nil {
			t.Errorf("%d bytes of %d: no error", len(broken), len(data))
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add(elftest.Library{Soname: "libnccl.so.2", Needed: []string{"libc.so.6"}, Rpath: "$ORIGIN", Rodata: "x", Interp: "/lib/ld.so"}.Bytes())
	f.Add(elftest.Library{Runpath: "/a:/b", Flags1: elf.DF_1_NODEFLIB, Symbols: []string{"a"}}.Bytes())
	f.Add([]byte(elf.ELFMAG))
	f.Fuzz(func(t *testing.T, data []byte) {
		if file, err := read(data); err == nil && len(file.Needed) > 1024 {
			t.Errorf("%d needs", len(file.Needed))
		}
		ranges, _ := loader.Constants(bytes.NewReader(data), int64(len(data)))
		for _, r := range ranges {
			if r.Off < 0 || r.Len <= 0 || r.Off+r.Len > int64(len(data)) {
				t.Errorf("range %+v of %d bytes", r, len(data))
			}
		}
	})
}
