package match

import (
	"regexp"
	"strings"
	"sync"
)

// Lazy returns a function that compiles pattern at its first call. All
// expressions together take half a millisecond, and most processes use none.
func Lazy(pattern string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(pattern) })
}

// AnyOf joins patterns into one expression.
func AnyOf(patterns ...string) func() *regexp.Regexp {
	return Lazy("(?:" + strings.Join(patterns, ")|(?:") + ")")
}
