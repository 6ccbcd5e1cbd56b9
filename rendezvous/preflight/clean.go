package preflight

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// clean gives s as text that shows and does nothing else to a terminal, cut to
// at most bytes: what cannot be printed becomes "?".
func clean(s string, most int) string {
	if len(s) > most {
		cut := most - len("...")
		for cut > 0 && !utf8.RuneStart(s[cut]) {
			cut--
		}
		s = s[:cut] + "..."
	}
	if isClean(s) {
		return s
	}
	return strings.Map(func(r rune) rune {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, s)
}

func isClean(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return !strings.ContainsFunc(s, func(r rune) bool { return r == utf8.RuneError || !unicode.IsPrint(r) })
		}
	}
	return true
}
