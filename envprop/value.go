package envprop

import (
	"strconv"

	"github.com/gorun/gorun/envprop/ncclenv"
	"github.com/gorun/gorun/internal/term"
)

// Value is the value of a variable. Where it looks like a credential (by the
// variable's name, or as the password in a URL), every way of printing or
// marshalling it shows ncclenv.Hidden or "***" in its place; Reveal is for the
// way to a worker or over an encrypted connection.
type Value struct {
	shown  string
	raw    *string // nil: as shown; fmt does not look behind a pointer
	secret bool
}

// NewValue is the value of a variable of this name.
func NewValue(name, text string) Value {
	v := Value{shown: ncclenv.Shown(name, text), secret: ncclenv.Secret(name, text)}
	if v.shown != text {
		v.raw = &text
	}
	return v
}

// Reveal is the value itself. It must not be printed.
func (v Value) Reveal() string {
	if v.raw != nil {
		return *v.raw
	}
	return v.shown
}

// Secret reports whether there is something that must not be shown.
func (v Value) Secret() bool { return v.secret }

// String is one line for a terminal: quoted when it has anything that a terminal
// might obey.
func (v Value) String() string { return line(v.shown) }

// GoString is String: %#v shows no more.
func (v Value) GoString() string { return strconv.Quote(v.String()) }

// MarshalText gives what may be shown, as it is.
func (v Value) MarshalText() ([]byte, error) { return []byte(v.shown), nil }

// line makes a text of the network or a file fit for a terminal.
func line(s string) string { return term.Quoted(s) }

// place is line, cut to what may travel: for the name of a file.
func place(s string) string {
	const most = maxNote / 2
	if s = line(s); len(s) > most {
		s = line(term.Cut(s, most-len("...")))
	}
	return s
}
