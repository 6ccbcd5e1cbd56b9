package diagnose

import (
	"bytes"
	"encoding/binary"
)

// finder finds many words in a text in one pass, in any case of ASCII letters. It looks
// at four bytes of the text at every stride-th place. A word has four bytes at stride
// places, so one look falls into each occurrence, and a bit says whether any word has
// these four bytes.
type finder struct {
	stride int
	seen   [1 << 12]uint64 // bits by hash
	places map[uint32][]place
}

// place is a place in a word at which the finder may look.
type place struct {
	word  []byte // in lower case
	at    int
	entry uint16
}

// gram is how many bytes the finder compares at once.
const gram = 4

// newFinder builds the finder for the words of entries. It never finds words of less
// than gram bytes.
func newFinder(entries [][]string) *finder {
	f := &finder{stride: 8, places: map[uint32][]place{}}
	for _, words := range entries {
		for _, w := range words {
			if len(w) >= gram {
				f.stride = min(f.stride, len(w)-gram+1)
			}
		}
	}
	for e, words := range entries {
		for _, w := range words {
			for at := range min(f.stride, len(w)-gram+1) {
				g := foldGram([]byte(w[at:]))
				f.seen[hash(g)>>6] |= 1 << (hash(g) & 63)
				f.places[g] = append(f.places[g], place{[]byte(w), at, uint16(e)})
			}
		}
	}
	return f
}

// foldGram returns the first bytes of p. Letters of both cases are the same.
func foldGram(p []byte) uint32 { return binary.LittleEndian.Uint32(p) | 0x20202020 }

func hash(g uint32) uint32 { return g * 2654435761 >> 14 }

// first returns where the first word in p ends, -1 if p has none.
func (f *finder) first(p []byte) int {
	end := -1
	f.find(p, func(_, e int) bool {
		end = e
		return false
	})
	return end
}

// all calls yield for each occurrence of a word in p, with the word's entry and
// the place where the word ends.
func (f *finder) all(p []byte, yield func(entry, end int)) {
	f.find(p, func(entry, end int) bool {
		yield(entry, end)
		return true
	})
}

// find calls yield for each occurrence of a word in p until yield returns false.
func (f *finder) find(p []byte, yield func(entry, end int) bool) {
	for i := 0; i+gram <= len(p); i += f.stride {
		g := foldGram(p[i:])
		if h := hash(g); f.seen[h>>6]>>(h&63)&1 == 0 {
			continue
		}
		for _, w := range f.places[g] {
			from := i - w.at
			to := from + len(w.word)
			if from < 0 || to > len(p) || lower(p[to-1]) != w.word[len(w.word)-1] || !bytes.EqualFold(w.word, p[from:to]) {
				continue
			}
			if !yield(int(w.entry), to) {
				return
			}
		}
	}
}

func lower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		c += 'a' - 'A'
	}
	return c
}
