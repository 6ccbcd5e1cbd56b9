package envprop

import (
	"strconv"

	"github.com/gorun/gorun/envprop/ncclenv"
	"github.com/gorun/gorun/internal/term"
)

// Value is the value of a variable. If it looks like a credential (by the variable's
// name, or as the password in a URL), every way of printing or marshalling it shows
// ncclenv.Hidden or "***" instead. Reveal is only for workers and for encrypted
// connections.
type Value struct {
	shown         string
	raw           *string // nil: as shown; fmt does not look behind a pointer
	hasCredential bool
}

// NewValue makes the value of a variable of this name.
func NewValue(name, text string) Value {
	v := Value{shown: ncclenv.Shown(name, text), hasCredential: ncclenv.HasCredential(name, text)}
	if v.shown != text {
		v.raw = &text
	}
	return v
}

// Reveal returns the value itself. The caller must not print it.
func (v Value) Reveal() string {
	if v.raw != nil {
		return *v.raw
	}
	return v.shown
}

// HasCredential reports whether the value has a part that must not be shown.
func (v Value) HasCredential() bool { return v.hasCredential }

// String returns one line for a terminal. It is quoted if it has characters that a
// terminal might obey.
func (v Value) String() string { return line(v.shown) }

// GoString returns String, quoted, so that %#v shows no more.
func (v Value) GoString() string { return strconv.Quote(v.String()) }

// MarshalText returns what may be shown, unchanged.
func (v Value) MarshalText() ([]byte, error) { return []byte(v.shown), nil }

// line makes a text from the network or a file safe for a terminal.
func line(s string) string { return term.Quoted(s) }

// shownPath makes the name of a file safe for a terminal and cuts it to the bytes that may
// be sent.
func shownPath(s string) string {
	const most = maxNote / 2
	if s = line(s); len(s) > most {
		s = line(term.Cut(s, most-len("...")))
	}
	return s
}
