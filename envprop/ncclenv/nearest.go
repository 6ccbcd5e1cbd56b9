package ncclenv

import (
	"iter"
	"maps"
	"strings"
)

// checkedFamilies lists the families whose names Misspelt looks up. The library that reads a
// family ignores unknown names in silence.
var checkedFamilies = [...]string{"TORCH_NCCL_", "TORCH_FR_", "NCCL_", "GLOO_SOCKET_", "TP_SOCKET_"}

// maxName bounds the names that are compared, in bytes. The longest known name has 58.
const maxName = 96

// Misspelt reports whether nothing reads a variable that looks like one of
// NCCL's, PyTorch's or Gloo's, and the known name that it resembles most, if
// one is near.
func Misspelt(name string) (nearest string, unknown bool) {
	for _, prefix := range checkedFamilies {
		if rest, ok := strings.CutPrefix(name, prefix); ok && rest != "" && !Known(name) {
			return nearestInFamily(name, prefix), true
		}
	}
	return "", false
}

// nearestInFamily returns the known name of the family that Nearest finds for a name.
func nearestInFamily(name, prefix string) string {
	rest := Nearest(name[len(prefix):], func(yield func(string) bool) {
		x := index()
		for _, known := range []iter.Seq[string]{maps.Keys(x.entries), maps.Keys(x.knownNames)} {
			for k := range known {
				if rest, ok := strings.CutPrefix(k, prefix); ok && !yield(rest) {
					return
				}
			}
		}
	})
	if rest == "" {
		return ""
	}
	return prefix + rest
}

// Nearest returns the known word with the fewest typing errors: at most one for every
// five letters, and three in all. Of several it returns the first in alphabetical
// order; "" if no word is near.
func Nearest(word string, known iter.Seq[string]) string {
	if len(word) > maxName {
		return ""
	}
	best, limit := "", min(1+len(word)/5, 3)
	for k := range known {
		if n := len(k) - len(word); n > limit || -n > limit || len(k) > maxName {
			continue
		}
		d := distance(word, k)
		if d < limit || d == limit && (best == "" || k < best) {
			best, limit = k, d
		}
	}
	return best
}

// distance counts the steps that turn a into b; a step inserts, deletes or replaces a
// letter, or swaps two neighbours. Both words have at most maxName bytes.
func distance(a, b string) int {
	var rows [3][maxName + 1]int
	before, last, row := &rows[0], &rows[1], &rows[2]
	for j := range len(b) + 1 {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
