package preflight

import (
	"strings"
	"unicode/utf8"

	"github.com/gorun/gorun/internal/term"
)

// Clean returns s as text that only prints on a terminal and controls nothing,
// at most most bytes long.
func Clean(s string, most int) string {
	if len(s) > most {
		s = term.Cut(s, most-len("..."))
	}
	return term.Printable(s)
}

// wrap breaks text at blanks into lines of at most width characters; a longer
// word has a line of its own.
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

// lineAt returns the i-th line, "" after the last.
func lineAt(lines []string, i int) string {
	if i < len(lines) {
		return lines[i]
	}
	return ""
}
