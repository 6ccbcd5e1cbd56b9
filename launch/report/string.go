package report

import (
	"strings"
	"unicode/utf8"

	"github.com/gorun/gorun/internal/term"
)

// oneLine returns s on one line and without escapes.
func oneLine(s string) string {
	return term.Plain(strings.ReplaceAll(strings.TrimSpace(s), "\n", " "))
}

// shorten cuts s to n characters.
func shorten(s string, n int) string {
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	return string([]rune(s)[:n]) + "…"
}

// orNA returns torchrun's word for an empty value.
func orNA(s string) string {
	if s == "" {
		return "<N/A>"
	}
	return s
}
