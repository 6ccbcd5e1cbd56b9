package diagnose

// finder finds many words in a text in one pass, in any case of ASCII letters. It is
// the automaton of Aho and Corasick with all transitions computed in advance.
type finder struct {
	class [256]uint8 // all bytes of no word are class 0
	width int        // number of classes
	next  []uint32   // state*width+class → state*width, with matchBit set where words end
	found [][]uint16 // by state: the entries whose words end there
}

// matchBit marks a transition into a state where words end.
const matchBit = 1 << 31

// newFinder builds the finder for the words of entries.
func newFinder(entries [][]string) *finder {
	f := &finder{width: 1} // class 0: bytes of no word
	for _, words := range entries {
		for _, w := range words {
			for i := range len(w) {
				if c := lower(w[i]); f.class[c] == 0 {
					f.class[c] = uint8(f.width)
					f.width++
				}
			}
		}
	}
	for c := byte('A'); c <= 'Z'; c++ {
		f.class[c] = f.class[lower(c)]
	}
	tree := f.buildTree(entries)
	f.linkStates(tree)
	return f
}

// buildTree builds the tree of the words. The child of state s for class c is
// tree[s*width+c], 0 for none.
func (f *finder) buildTree(entries [][]string) []uint32 {
	tree := make([]uint32, f.width)
	f.found = make([][]uint16, 1)
	for e, words := range entries {
		for _, w := range words {
			s := uint32(0)
			for i := range len(w) {
				at := int(s)*f.width + int(f.class[lower(w[i])])
				if tree[at] == 0 {
					tree[at] = uint32(len(f.found))
					tree = append(tree, make([]uint32, f.width)...)
					f.found = append(f.found, nil)
				}
				s = tree[at]
			}
			f.found[s] = append(f.found[s], uint16(e))
		}
	}
	return tree
}

// linkStates adds the transitions of each state for the bytes that continue no word.
func (f *finder) linkStates(tree []uint32) {
	w := f.width
	fail := make([]uint32, len(f.found))
	queue := []uint32{0}
	for i := 0; i < len(queue); i++ {
		s := queue[i]
		for c := range w {
			at := int(s)*w + c
			child := tree[at]
			back := uint32(0)
			if s != 0 {
				back = tree[int(fail[s])*w+c]
			}
			if child == 0 {
				tree[at] = back
				continue
			}
			fail[child] = back
			f.found[child] = append(f.found[child], f.found[back]...)
			queue = append(queue, child)
		}
	}
	f.next = tree
	for i, s := range tree {
		f.next[i] = s * uint32(w)
		if len(f.found[s]) > 0 {
			f.next[i] |= matchBit
		}
	}
}

// first returns where the first word in p ends, -1 if p has none.
func (f *finder) first(p []byte) int {
	s := uint32(0)
	for i, c := range p {
		s = f.next[s+uint32(f.class[c])]
		if s >= matchBit {
			return i + 1
		}
	}
	return -1
}

// all calls yield for each occurrence of a word in p, with the word's entry and
// the place where the word ends.
func (f *finder) all(p []byte, yield func(entry, end int)) {
	s := uint32(0)
	for i, c := range p {
		s = f.next[s+uint32(f.class[c])]
		if s < matchBit {
			continue
		}
		s &^= matchBit
		for _, e := range f.found[s/uint32(f.width)] {
			yield(int(e), i+1)
		}
	}
}

func lower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		c += 'a' - 'A'
	}
	return c
}
