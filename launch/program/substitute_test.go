package program

import (
	"strings"
	"testing"
)

func TestSubstitute(t *testing.T) {
	tests := map[string]string{
		"":                            "",
		"plain":                       "plain",
		"${local_rank}":               "7",
		"$local_rank":                 "7",
		"a$local_rank.b${local_rank}": "a7.b7",
		"$local_rank_2":               "$local_rank_2",
		"${local_rank}2":              "72",
		"$local_rank-2":               "7-2",
		"$$":                          "$",
		"$$local_rank":                "$local_rank",
		"$$$local_rank":               "$7",
		"$$$$":                        "$$",
		"$":                           "$",
		"a$":                          "a$",
		"$1":                          "$1",
		"${}":                         "${}",
		"${local_rank":                "${local_rank",
		"${ local_rank }":             "${ local_rank }",
		"$LOCAL_RANK":                 "$LOCAL_RANK",
		"${HOME}/$x":                  "${HOME}/$x",
		"$local_ranké":                "7é",
		"é$local_rank\xff":            "é7\xff",
	}
	for in, want := range tests {
		if got := Substitute(in, 7); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}

// scan follows Python's rule without a regular expression.
func scan(s string) string {
	var b strings.Builder
	ident := func(s string) string {
		for i, c := range []byte(s) {
			letter := c == '_' || c|0x20 >= 'a' && c|0x20 <= 'z'
			if !letter && (i == 0 || c < '0' || c > '9') {
				return s[:i]
			}
		}
		return s
	}
	for s != "" {
		rest := s[1:]
		name := ident(strings.TrimPrefix(rest, "{"))
		whole := "$" + name
		if strings.HasPrefix(rest, "{") {
			whole = "${" + name + "}"
		}
		switch {
		case s[0] != '$':
			b.WriteByte(s[0])
			s = rest
		case strings.HasPrefix(rest, "$"):
			b.WriteByte('$')
			s = rest[1:]
		case name == "local_rank" && strings.HasPrefix(s, whole):
			b.WriteByte('7')
			s = s[len(whole):]
		default:
			b.WriteByte('$')
			s = rest
		}
	}
	return b.String()
}

func FuzzSubstitute(f *testing.F) {
	for _, s := range []string{"$local_rank", "${local_rank}$$", "$", "${", "$$$local_rank_", "\xff$"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if got, want := Substitute(s, 7), scan(s); got != want {
			t.Errorf("%q: got %q, want %q", s, got, want)
		}
	})
}
