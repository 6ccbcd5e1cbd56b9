// Package match finds which of many expressions may match a line, and reads the fields
// that an expression names.
//
// An expression of Go costs a microsecond a line, a log has millions of lines, and there
// are hundreds of expressions. So Literals finds texts of which each match has one, a
// Finder looks for the texts of all expressions in one pass, and an expression reads only
// a line that has one of its texts.
package match

import (
	"bytes"
	"encoding/binary"
)

// Finder finds many words in a text in one pass, in any case of ASCII letters. It looks
// at four bytes of the text at every stride-th place. A word is known by the four bytes at
// stride of its places, so one look falls into each occurrence, and a bit says whether any
// word is known by these four bytes.
type Finder struct {
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

// Gram is how many bytes the finder compares at once.
const Gram = 4

// NewFinder builds the finder for the words of entries. It never finds words of less
// than Gram bytes.
func NewFinder(entries [][]string) *Finder {
	f := &Finder{stride: 8, places: map[uint32][]place{}}
	for _, words := range entries {
		for _, w := range words {
			if len(w) >= Gram {
				f.stride = min(f.stride, len(w)-Gram+1)
			}
		}
	}
	common := map[uint32]int{} // how many places of words have these bytes
	for _, words := range entries {
		for _, w := range words {
			for at := range len(w) - Gram + 1 {
				common[foldGram([]byte(w[at:]))]++
			}
		}
	}
	for e, words := range entries {
		for _, w := range words {
			from := f.rarest(w, common)
			for at := from; at < from+f.stride && at+Gram <= len(w); at++ {
				g := foldGram([]byte(w[at:]))
				f.seen[hash(g)>>6] |= 1 << (hash(g) & 63)
				f.places[g] = append(f.places[g], place{[]byte(w), at, uint16(e)})
			}
		}
	}
	return f
}

// rarest returns the first of the stride places of a word whose bytes the fewest other
// places have. A look at "erro" would have to compare a hundred words otherwise.
func (f *Finder) rarest(w string, common map[uint32]int) int {
	best, least := 0, 0
	for from := range len(w) - Gram + 2 - f.stride {
		sum := 0
		for at := from; at < from+f.stride; at++ {
			sum += common[foldGram([]byte(w[at:]))]
		}
		if from == 0 || sum < least {
			best, least = from, sum
		}
	}
	return best
}

// foldGram returns the first bytes of p. Letters of both cases are the same.
func foldGram(p []byte) uint32 { return binary.LittleEndian.Uint32(p) | 0x20202020 }

func hash(g uint32) uint32 { return g * 2654435761 >> 14 }

// First returns where the first word in p ends, -1 if p has none.
func (f *Finder) First(p []byte) int {
	end := -1
	f.Find(p, func(_, e int) bool {
		end = e
		return false
	})
	return end
}

// All calls yield for each occurrence of a word in p, with the word's entry and
// the place where the word ends.
func (f *Finder) All(p []byte, yield func(entry, end int)) {
	f.Find(p, func(entry, end int) bool {
		yield(entry, end)
		return true
	})
}

// Find calls yield for each occurrence of a word in p until yield returns false.
func (f *Finder) Find(p []byte, yield func(entry, end int) bool) {
	for i := 0; i+Gram <= len(p); i += f.stride {
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
