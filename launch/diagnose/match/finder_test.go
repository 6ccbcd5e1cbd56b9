package match

import (
	"slices"
	"testing"
)

// TestFinderOfShortWords shows that a word that is too short neither stops the finder nor
// hides the others.
func TestFinderOfShortWords(t *testing.T) {
	f := NewFinder([][]string{{"end", ""}, {"peer died"}})
	var found []int
	f.All([]byte("the end: Peer died"), func(entry, _ int) { found = append(found, entry) })
	if !slices.Equal(found, []int{1}) {
		t.Errorf("the finder found entries %d, want 1 only", found)
	}
}
