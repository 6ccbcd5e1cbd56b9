package loader

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
)

// The layout of /etc/ld.so.cache (glibc, sysdeps/generic/dl-cache.h).
const (
	oldMagic   = "ld.so-1.7.0"
	oldHead    = 16 // magic, padding, number of entries
	oldEntry   = 12
	newMagic   = "glibc-ld.so.cache1.1"
	newHead    = 48
	newEntry   = 24
	maxEntries = 1 << 18
	maxName    = 4096 // bytes of a name or path in the cache
)

// Cache is the content of /etc/ld.so.cache. The zero value is an empty one.
type Cache struct {
	order   binary.ByteOrder
	data    []byte // from the new format's magic on: what offsets count from
	entries []byte
}

// ParseCache reads the format of glibc 2.2 and later, also where it follows
// entries of the old one, as ldconfig wrote until 2.31. The data is kept.
func ParseCache(data []byte) (*Cache, error) {
	order := binary.ByteOrder(binary.LittleEndian)
	if bytes.HasPrefix(data, []byte(oldMagic)) {
		if len(data) < oldHead {
			return nil, errors.New("cut off in the old header")
		}
		n := uint64(order.Uint32(data[12:]))
		after := (oldHead + n*oldEntry + 7) &^ 7
		if n > maxEntries {
			n = uint64(binary.BigEndian.Uint32(data[12:]))
			after = (oldHead + n*oldEntry + 7) &^ 7
		}
		if after > uint64(len(data)) {
			return nil, fmt.Errorf("%d old entries in %d bytes", n, len(data))
		}
		data = data[after:]
	}
	if !bytes.HasPrefix(data, []byte(newMagic)) {
		return nil, errors.New("it does not begin as glibc's ld.so.cache")
	}
	if len(data) < newHead {
		return nil, errors.New("cut off in the header")
	}
	n := uint64(order.Uint32(data[20:]))
	// The byte order is told since 2.33 (3: big); before, only one makes sense.
	if flags := data[28] & 3; flags == 3 || flags != 2 && n > maxEntries {
		order = binary.BigEndian
		n = uint64(order.Uint32(data[20:]))
	}
	if n > maxEntries || newHead+n*newEntry > uint64(len(data)) {
		return nil, fmt.Errorf("%d entries in %d bytes", n, len(data))
	}
	return &Cache{order: order, data: data, entries: data[newHead : newHead+n*newEntry]}, nil
}

// Len is the number of entries.
func (c *Cache) Len() int { return len(c.entries) / newEntry }

// Lookup gives the paths under which the cache knows a library for a machine,
// in the loader's order. Copies for certain processors are left out.
func (c *Cache) Lookup(soname string, machine elf.Machine) []string {
	if soname == "" || len(soname) > maxName {
		return nil
	}
	var paths []string
	end := len(soname)
	for e := c.entries; len(e) > 0; e = e[newEntry:] {
		// The name first: most entries have another one.
		key := uint64(c.order.Uint32(e[4:]))
		if key+uint64(end) >= uint64(len(c.data)) || c.data[key+uint64(end)] != 0 || string(c.data[key:key+uint64(end)]) != soname {
			continue
		}
		if c.order.Uint64(e[16:]) != 0 || !cacheFlag(machine, c.order.Uint32(e)) {
			continue
		}
		if path := c.text(c.order.Uint32(e[8:])); path != "" {
			paths = append(paths, path)
		}
	}
	return paths
}

// text is the string at an offset, or "" where there is none that ends.
func (c *Cache) text(off uint32) string {
	if uint64(off) >= uint64(len(c.data)) {
		return ""
	}
	b := c.data[off:min(uint64(off)+maxName, uint64(len(c.data)))]
	if i := bytes.IndexByte(b, 0); i >= 0 {
		return string(b[:i])
	}
	return ""
}

// cacheFlag says whether an entry is for the machine's 64-bit libraries. The
// low byte is the C library (3: glibc), the next one the machine's variant.
func cacheFlag(machine elf.Machine, flags uint32) bool {
	switch machine {
	case elf.EM_X86_64:
		return flags == 0x303
	case elf.EM_AARCH64:
		return flags == 0xa03
	case elf.EM_PPC64:
		return flags == 0x503
	case elf.EM_S390:
		return flags == 0x403
	}
	return flags&0xff == 3 // the file's own header decides
}
