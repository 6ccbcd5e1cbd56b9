package loader_test

import (
	"bytes"
	"slices"
	"testing"

	"github.com/gorun/gorun/rendezvous/preflight/loader"
	"github.com/gorun/gorun/rendezvous/preflight/loader/elftest"
)

func TestNamesAreOfTheDynamicStrings(t *testing.T) {
	b := elftest.Library{Soname: "libx.so.1", Needed: []string{"libc.so.6"}, Symbols: []string{"one", "two_v8"}, Rodata: "three"}.Bytes()
	names, err := loader.Names(bytes.NewReader(b), int64(len(b)))
	got := slices.Sorted(names)
	if want := []string{"libc.so.6", "libx.so.1", "one", "two_v8"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%q, %v; want %q", got, err, want)
	}
	for _, bad := range [][]byte{nil, []byte("#!/bin/sh\n"), b[:40], b[:len(b)/4]} {
		names, err := loader.Names(bytes.NewReader(bad), int64(len(bad)))
		if err == nil || len(slices.Collect(names)) > 0 {
			t.Errorf("%d bytes: no error", len(bad))
		}
	}
}

func FuzzNames(f *testing.F) {
	f.Add(elftest.Library{Soname: "libx.so.1", Symbols: []string{"one"}}.Bytes())
	f.Fuzz(func(t *testing.T, b []byte) {
		names, _ := loader.Names(bytes.NewReader(b), int64(len(b)))
		for name := range names {
			if len(name) > len(b) {
				t.Error("more than there is")
			}
		}
	})
}
