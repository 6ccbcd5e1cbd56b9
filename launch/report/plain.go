package report

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/gorun/gorun/internal/term"
)

// escapes are a terminal's control sequences: colours, cursor movements, titles.
var escapes = regexp.MustCompile("\x1b(?:\\[[0-?]*[ -/]*[@-~]|\\][^\x07\x1b]*(?:\x07|\x1b\\\\)?|[@-Z\\\\-_])")

// plain returns s as text that shows and does nothing else: what a worker
// printed, or another node sent, must not move the cursor of this terminal, nor
// change the order in which it is read.
func plain(s string) string {
	s = strings.ToValidUTF8(s, string(utf8.RuneError))
	if !strings.ContainsFunc(s, unicode.IsControl) {
		return term.Escape(s)
	}
	return term.Escape(strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\t' {
			return -1
		}
		return r
	}, escapes.ReplaceAllString(s, "")))
}

// oneLine is plain for a field that has one line.
func oneLine(s string) string {
	return plain(strings.ReplaceAll(strings.TrimSpace(s), "\n", " "))
}

// shorten cuts s to n characters.
func shorten(s string, n int) string {
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	return string([]rune(s)[:n]) + "…"
}

// orNA is torchrun's word for what is not there.
func orNA(s string) string {
	if s == "" {
		return "<N/A>"
	}
	return s
}
