package report

import (
	"strings"

	"github.com/gorun/gorun/internal/term"
)

// oneLine returns s on one line and without escapes.
func oneLine(s string) string {
	return term.Plain(strings.ReplaceAll(strings.TrimSpace(s), "\n", " "))
}

// orNA returns torchrun's word for an empty value.
func orNA(s string) string {
	if s == "" {
		return "<N/A>"
	}
	return s
}
