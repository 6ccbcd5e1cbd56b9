// Package term makes text of a worker, of the network or of a file fit to be
// shown to a person: nothing in it commands a terminal, hides, or changes the
// order in which the rest is read.
//
// Invariants: what is visible stays as it is; the functions are pure.
package term

import (
	"fmt"
	"strings"
	"unicode"
)

// Hidden reports whether a character shows nothing itself and may deceive about
// the others: those that set the direction of text (U+202A to U+202E, U+2066 to
// U+2069, U+061C), have no width (U+200B to U+200F, U+FEFF and other formats), or
// end a line where a terminal does not (U+2028, U+2029).
func Hidden(r rune) bool {
	if r < 0x80 {
		return false
	}
	switch r {
	case 0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x3164, 0xFFA0: // letters and marks that show nothing
		return true
	}
	return unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp)
}

// Unfit reports whether a character must not reach a terminal: a control, or one
// that is hidden.
func Unfit(r rune) bool { return unicode.IsControl(r) || Hidden(r) }

// Escape shows the hidden characters of a text as \u202e; its controls stay.
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

// Line is Lines on one line: a space stands for every line end and tab.
func Line(s string) string {
	return Lines(strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' || r == '\r' || r == '\v' || r == '\f' || r == 0x85 {
			return ' '
		}
		return r
	}, s))
}

// Within indents all lines but the first, so that none of them can be taken for a
// line of the program that shows the text behind its own name.
func Within(s string) string { return strings.ReplaceAll(s, "\n", "\n  ") }
