package loader_test

import (
	"debug/elf"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/gorun/gorun/rendezvous/preflight/loader"
	"github.com/gorun/gorun/rendezvous/preflight/loader/elftest"
)

func TestCache(t *testing.T) {
	entries := []elftest.CacheEntry{
		{Soname: "libz.so.1", Path: "/lib/libz.so.1"},
		{Soname: "libnccl.so.2", Path: "/fast/libnccl.so.2", HWCap: 1 << 62},
		{Soname: "libnccl.so.2", Path: "/32/libnccl.so.2", Flags: 3},
		{Soname: "libnccl.so.2", Path: "/lib/libnccl.so.2"},
		{Soname: "libnccl.so.2", Path: "/arm/libnccl.so.2", Flags: 0xa03},
		{Soname: "libnccl.so.2", Path: "/usr/local/lib/libnccl.so.2"},
	}
	for _, old := range []bool{false, true} {
		c, err := loader.ParseCache(elftest.Cache(entries, old))
		if err != nil {
			t.Fatal(err)
		}
		if got := c.Lookup("libnccl.so.2", elf.EM_X86_64); !slices.Equal(got, []string{"/lib/libnccl.so.2", "/usr/local/lib/libnccl.so.2"}) {
			t.Errorf("old %v: x86-64: %q", old, got)
		}
		if got := c.Lookup("libnccl.so.2", elf.EM_AARCH64); !slices.Equal(got, []string{"/arm/libnccl.so.2"}) {
			t.Errorf("old %v: arm64: %q", old, got)
		}
		for _, name := range []string{"", "libnccl.so", "libnccl.so.22", "lib", strings.Repeat("x", 1<<20)} {
			if got := c.Lookup(name, elf.EM_X86_64); got != nil {
				t.Errorf("%.20q: %q", name, got)
			}
		}
	}
}

func TestCacheRefuses(t *testing.T) {
	good := elftest.Cache([]elftest.CacheEntry{{Soname: "liba.so", Path: "/liba.so"}}, false)
	many := slices.Clone(good)
	many[23] = 0x7f
	for name, data := range map[string][]byte{
		"empty": nil, "text": []byte("include /etc/ld.so.conf.d/*.conf\n"), "cut off": good[:40], "more entries than bytes": many,
		"old alone": []byte("ld.so-1.7.0\x00\x01\x00\x00\x00aaaabbbbcccc"), "old, cut off": []byte("ld.so-1.7.0\x00"),
	} {
		if c, err := loader.ParseCache(data); err == nil {
			t.Errorf("%s: read as %d entries", name, c.Len())
		}
	}
}

// The machine's own cache reads as ldconfig -p prints it.
func TestCacheLikeLDConfig(t *testing.T) {
	data, err := os.ReadFile("/etc/ld.so.cache")
	need(t, err == nil, "/etc/ld.so.cache")
	c, err := loader.ParseCache(data)
	if err != nil {
		t.Fatal(err)
	}
	ldconfig, err := exec.LookPath("ldconfig")
	if err != nil {
		ldconfig = "/sbin/ldconfig"
	}
	out, err := exec.CommandContext(t.Context(), ldconfig, "-p").Output()
	need(t, err == nil, "ldconfig")
	checked := 0
	for line := range strings.Lines(string(out)) {
		name, path, ok := strings.Cut(strings.TrimSpace(line), " => ")
		soname, flags, _ := strings.Cut(name, " ")
		if !ok || (flags != "(libc6,x86-64)" && flags != "(libc6,AArch64)") {
			continue
		}
		checked++
		if got := c.Lookup(soname, loader.HostMachine()); !slices.Contains(got, path) {
			t.Errorf("%s: got %q, ldconfig says %s", soname, got, path)
		}
	}
	if checked == 0 {
		t.Errorf("nothing to compare in:\n%.300s", out)
	}
}

func FuzzParseCache(f *testing.F) {
	entries := []elftest.CacheEntry{{Soname: "libnccl.so.2", Path: "/lib/libnccl.so.2"}, {Soname: "libz.so.1", Path: "/lib/libz.so.1", HWCap: 1}}
	f.Add(elftest.Cache(entries, false), "libnccl.so.2")
	f.Add(elftest.Cache(entries, true), "libz.so.1")
	f.Fuzz(func(t *testing.T, data []byte, soname string) {
		c, err := loader.ParseCache(data)
		if err != nil {
			return
		}
		for _, m := range []elf.Machine{elf.EM_X86_64, elf.EM_AARCH64, elf.EM_NONE} {
			for _, path := range c.Lookup(soname, m) {
				if path == "" || len(path) > 4096 {
					t.Errorf("path %q", path)
				}
			}
		}
	})
}
