package elftest

import (
	"bytes"
	"encoding/binary"
	"testing"
)

// CacheEntry is one line of "ldconfig -p".
type CacheEntry struct {
	Soname string
	Path   string
	Flags  uint32 // 0: glibc on x86-64 (0x303)
	HWCap  uint64 // not 0: a copy for certain processors
}

// Cache is the content of an ld.so.cache in the format "glibc-ld.so.cache1.1";
// with old it follows entries of the format before, as until glibc 2.31.
func Cache(entries []CacheEntry, old bool) []byte {
	var head, lines, text bytes.Buffer
	word := func(b *bytes.Buffer, values ...uint32) {
		for _, v := range values {
			b.Write(binary.LittleEndian.AppendUint32(nil, v))
		}
	}
	strings := uint32(48 + 24*len(entries))
	place := func(s string) uint32 {
		at := strings + uint32(text.Len())
		text.WriteString(s + "\x00")
		return at
	}
	for _, e := range entries {
		if e.Flags == 0 {
			e.Flags = 0x303
		}
		word(&lines, e.Flags, place(e.Soname), place(e.Path), 0, uint32(e.HWCap), uint32(e.HWCap>>32))
	}
	if old {
		head.WriteString("ld.so-1.7.0\x00")
		word(&head, uint32(len(entries)))
		head.Write(make([]byte, 12*len(entries)))
		head.Write(make([]byte, (8-head.Len()%8)%8))
	}
	head.WriteString("glibc-ld.so.cache1.1")
	word(&head, uint32(len(entries)), uint32(text.Len()), 2, 0, 0, 0, 0)
	head.Write(lines.Bytes())
	head.Write(text.Bytes())
	return head.Bytes()
}

// WriteCache writes an ld.so.cache, and the folders that its path needs.
func WriteCache(t testing.TB, path string, entries []CacheEntry) {
	t.Helper()
	put(t, path, Cache(entries, false), 0o644)
}
