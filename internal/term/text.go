// Package term decides what may reach a terminal, and prints a program's lines there. It
// makes text of a worker, of the network or of a file safe: no part of the text commands
// the terminal, hides, or changes the order in which the rest is read. It cuts long text
// and quotes words for a shell.
//
// Invariants: visible characters stay unchanged, unless the text is cut. The functions
// on text are pure. The package knows nothing of jobs.
package term

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Hidden reports whether a character is invisible and may deceive about the others.
// Such characters set the direction of text (U+202A to U+202E, U+2066 to U+2069,
// U+061C), have no width (U+200B to U+200F, U+FEFF and other formats), or end a line
// where a terminal does not (U+2028, U+2029).
func Hidden(r rune) bool {
	if r < 0x80 {
		return false
	}
	switch r {
	case 0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x3164, 0xFFA0: // invisible letters and marks
		return true
	}
	return unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp)
}

// Unfit reports whether a character must not reach a terminal: a control or a hidden
// character.
func Unfit(r rune) bool { return unicode.IsControl(r) || Hidden(r) }

// Escape writes the hidden characters of a text in the form \u202e. Controls stay.
func Escape(s string) string {
	if !strings.ContainsFunc(s, Hidden) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		switch {
		case !Hidden(r):
			b.WriteRune(r)
		case r > 0xffff:
			fmt.Fprintf(&b, `\U%08x`, r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

// Lines is Escape with "?" for every control but line ends and tabs.
func Lines(s string) string {
	return Escape(strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' {
			return '?'
		}
		return r
	}, s))
}

// Line is Lines on one line: a space replaces every line end and tab.
func Line(s string) string {
	return Lines(strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' || r == '\r' || r == '\v' || r == '\f' || r == 0x85 {
			return ' '
		}
		return r
	}, s))
}

// Within indents all lines but the first, so that they differ from the lines of the
// program that prints the text behind its own name.
func Within(s string) string { return strings.ReplaceAll(s, "\n", "\n  ") }

// sequences matches a terminal's control sequences: colours, cursor movements, titles.
var sequences = regexp.MustCompile("\x1b(?:\\[[0-?]*[ -/]*[@-~]|\\][^\x07\x1b]*(?:\x07|\x1b\\\\)?|[@-Z\\\\-_])")

// Plain is Escape without control sequences and without controls other than tabs. It
// turns a program's text for a terminal into plain text.
func Plain(s string) string {
	s = strings.ToValidUTF8(s, string(utf8.RuneError))
	if !strings.ContainsFunc(s, unicode.IsControl) {
		return Escape(s)
	}
	return Escape(strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\t' {
			return -1
		}
		return r
	}, sequences.ReplaceAllString(s, "")))
}

// Printable returns s with "?" for every character that prints nothing, spaces other
// than U+0020 included.
func Printable(s string) string {
	if IsPrintable(s) {
		return s
	}
	return strings.Map(func(r rune) rune {
		if odd(r) {
			return '?'
		}
		return r
	}, s)
}

// Quoted returns s, as a Go string literal if one of its characters prints nothing.
func Quoted(s string) string {
	if IsPrintable(s) {
		return s
	}
	return strconv.Quote(s)
}

func odd(r rune) bool { return r == utf8.RuneError || !unicode.IsPrint(r) }

// IsPrintable reports whether every character of s prints something.
func IsPrintable(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' { // most text is ASCII
			return !strings.ContainsFunc(s, odd)
		}
	}
	return true
}

// Truncate returns at most the first n bytes of s, in whole characters.
func Truncate(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// Cut is Truncate, with "..." behind the n bytes if a part is missing.
func Cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return Truncate(s, n) + "..."
}

// Shorten returns at most n characters of s, with "…" behind them if a part is missing.
func Shorten(s string, n int) string {
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	return string([]rune(s)[:n]) + "…"
}

// maxLine is the largest number of characters that OneLine returns.
const maxLine = 500

// OneLine returns s with escapes for all characters that would begin another line,
// command the terminal or hide text. It leaves out the middle of a long text.
func OneLine(s string) string {
	if runes := []rune(s); len(runes) > maxLine {
		s = string(runes[:maxLine/2]) + " ... " + string(runes[len(runes)-maxLine/2:])
	}
	var b strings.Builder
	for _, r := range s {
		if odd(r) {
			b.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// safe has the characters that have no special meaning in a shell.
const safe = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:,=@%+"

// Command joins words into a command line, quoted as a person would type it in a shell.
func Command(words ...string) string {
	out := make([]string, len(words))
	for i, s := range words {
		if out[i] = s; s == "" || strings.Trim(s, safe) != "" {
			out[i] = "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
		}
	}
	return strings.Join(out, " ")
}
