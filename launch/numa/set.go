package numa

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Set has numbers of CPUs or of NUMA nodes, ascending, each once.
type Set []int

// maxID bounds the numbers in a set. Linux is built for at most 8192 CPUs.
const maxID = 1 << 13

// ParseSet reads the kernel's form, "0-3,8,10-11". The empty text is the empty
// set.
func ParseSet(text string) (Set, error) {
	var in [maxID]bool
	for part := range strings.SplitSeq(strings.TrimSpace(text), ",") {
		if part == "" {
			continue
		}
		first, last, isRange := strings.Cut(part, "-")
		lo, err := strconv.ParseUint(first, 10, 32)
		hi := lo
		if err == nil && isRange {
			hi, err = strconv.ParseUint(last, 10, 32)
		}
		if err != nil || hi < lo || hi >= maxID {
			return nil, fmt.Errorf("cannot read %.40q as a list of numbers below %d, like 0-3,8", text, maxID)
		}
		for n := lo; n <= hi; n++ {
			in[n] = true
		}
	}
	var s Set
	for n, is := range in {
		if is {
			s = append(s, n)
		}
	}
	return s, nil
}

// String returns the kernel's form.
func (s Set) String() string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		first := s[i]
		for i+1 < len(s) && s[i+1] == s[i]+1 {
			i++
		}
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Itoa(first))
		if s[i] != first {
			b.WriteString("-" + strconv.Itoa(s[i]))
		}
	}
	return b.String()
}

// Has reports whether n is in the set.
func (s Set) Has(n int) bool {
	_, ok := slices.BinarySearch(s, n)
	return ok
}

// And returns what is in both sets.
func (s Set) And(t Set) Set {
	var both Set
	for _, n := range s {
		if t.Has(n) {
			both = append(both, n)
		}
	}
	return both
}

// Or returns what is in either set.
func (s Set) Or(t Set) Set { return slices.Concat(s, t).sorted() }

func (s Set) sorted() Set {
	slices.Sort(s)
	return slices.Compact(s)
}
