package match

import (
	"slices"
	"strings"

	"github.com/gorun/gorun/internal/term"
)

// MaxText bounds a text that is shown, in characters.
const MaxText = 600

// PlainText returns a line as valid UTF-8 without control characters, with at most
// MaxText characters. Of a longer line it leaves out a part in the middle.
func PlainText(p []byte) string {
	if len(p) > 4*MaxText {
		p = slices.Concat(p[:2*MaxText], p[len(p)-2*MaxText:])
	}
	s := strings.ToValidUTF8(string(p), "")
	s = strings.TrimSpace(strings.ReplaceAll(term.Plain(s), "\t", " "))
	if len(s) <= MaxText {
		return s
	}
	if runes := []rune(s); len(runes) > MaxText { // the reason is at the front or at the end
		s = string(runes[:MaxText*2/3]) + "…" + string(runes[len(runes)-MaxText/3:])
	}
	return s
}
