package preflight

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Clean gives s as text that shows and does nothing else to a terminal, cut to
// at most bytes: what cannot be printed becomes "?".
func Clean(s string, most int) string {
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

// wrap breaks text at blanks into lines of at most width characters; a word that
// is longer stands on a line of its own.
func wrap(text string, width int) []string {
	var lines []string
	line, n := "", 0
	for _, word := range strings.Fields(text) {
		long := utf8.RuneCountInString(word)
		if n > 0 && n+1+long > width {
			lines = append(lines, line)
			line, n = "", 0
		}
		if n > 0 {
			line, n = line+" ", n+1
		}
		line, n = line+word, n+long
	}
	if n > 0 {
		lines = append(lines, line)
	}
	return lines
}

// at is the i-th line, "" after the last.
func at(lines []string, i int) string {
	if i < len(lines) {
		return lines[i]
	}
	return ""
}
