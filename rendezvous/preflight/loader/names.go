package loader

import (
	"bytes"
	"debug/elf"
	"errors"
	"io"
	"iter"
)

// maxNames is how much of a dynamic string table Names reads, in bytes: that of
// libtorch_cuda, the largest known, has 20 MiB; a plugin's a few KiB.
const maxNames = 4 << 20

// Names gives the names in the dynamic string table of a 64-bit ELF file: those
// of the symbols and symbol versions that it defines or needs, of the libraries
// that it needs, and its own. A file without one has none.
func Names(r io.ReaderAt, size int64) (iter.Seq[string], error) {
	none := func(func(string) bool) {}
	m, f, err := open(r, size)
	if err != nil {
		return none, err
	}
	if f.Class != elf.ELFCLASS64 {
		return none, errors.New("not a 64-bit ELF file")
	}
	if err := m.readSegments(); err != nil {
		return none, err
	}
	dyn, err := m.dynamic()
	if err != nil || len(dyn) == 0 {
		return none, err
	}
	if err := m.findStrings(dyn); err != nil {
		return none, err
	}
	table, err := m.bytes(m.strings, min(m.strsize, maxNames))
	if err != nil {
		return none, err
	}
	return func(yield func(string) bool) {
		for name := range bytes.SplitSeq(table, []byte{0}) {
			if len(name) > 0 && len(name) <= maxName && !yield(string(name)) {
				return
			}
		}
	}, nil
}
