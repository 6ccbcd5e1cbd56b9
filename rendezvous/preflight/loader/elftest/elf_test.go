package elftest_test

import (
	"bytes"
	"debug/elf"
	"slices"
	"testing"

	"github.com/gorun/gorun/rendezvous/preflight/loader"
	"github.com/gorun/gorun/rendezvous/preflight/loader/elftest"
)

func TestLibraryIsWhatOtherReadersRead(t *testing.T) {
	l := elftest.Library{
		Soname: "libnccl.so.2", Needed: []string{"libc.so.6", "libm.so.6"}, Rpath: "$ORIGIN/x:/y", Runpath: "/z",
		Flags1: elf.DF_1_NODEFLIB, Symbols: []string{"ncclGetVersion", "ncclNet_v8"}, Rodata: elftest.NCCL("2.19.3", "12.3"),
		Machine: elf.EM_AARCH64, Interp: "/lib/ld-linux-aarch64.so.1",
	}
	data := l.Bytes()
	f, err := elf.NewFile(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	symbols, err := f.DynamicSymbols()
	if err != nil || len(symbols) != 2 || symbols[1].Name != "ncclNet_v8" {
		t.Errorf("symbols %v, %v", symbols, err)
	}
	for tag, want := range map[elf.DynTag][]string{
		elf.DT_NEEDED: l.Needed, elf.DT_SONAME: {l.Soname}, elf.DT_RPATH: {l.Rpath}, elf.DT_RUNPATH: {l.Runpath},
	} {
		if got, err := f.DynString(tag); err != nil || !slices.Equal(got, want) {
			t.Errorf("debug/elf reads %s %q, %v, want %q", tag, got, err, want)
		}
	}
	text, err := f.Section(".rodata").Data()
	if err != nil || !bytes.Contains(text, []byte("\x00NCCL version 2.19.3+cuda12.3\x00")) {
		t.Errorf(".rodata %q, %v", text, err)
	}
	got, err := loader.Read(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	if got.Soname != l.Soname || !slices.Equal(got.Needed, l.Needed) || got.Rpath != "" || got.Runpath != l.Runpath ||
		!got.NoDefaultLib || got.Machine != elf.EM_AARCH64 || got.Interp != l.Interp || got.Type != elf.ET_DYN {
		t.Errorf("loader.Read gives %+v", got)
	}
}
