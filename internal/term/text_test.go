package term

import "testing"

func TestText(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]struct{ lines, line string }{
		"plain":                    {"plain", "plain"},
		"grün 東京 🙂":                {"grün 東京 🙂", "grün 東京 🙂"},
		"a\u202eb\u2066c\u2069":    {`a\u202eb\u2066c\u2069`, `a\u202eb\u2066c\u2069`},
		"\u200b\u200f\u061c\ufeff": {`\u200b\u200f\u061c\ufeff`, `\u200b\u200f\u061c\ufeff`},
		"a\u2028b\u2029":           {`a\u2028b\u2029`, `a\u2028b\u2029`},
		"\U000e0041":               {`\U000e0041`, `\U000e0041`},
		"\u3164":                   {`\u3164`, `\u3164`},
		"a\x1b[2Jb\rc":             {"a?[2Jb?c", "a?[2Jb c"},
		"a\n\tb\u0085":             {"a\n\tb?", "a  b "},
	} {
		if got := Lines(in); got != want.lines {
			t.Errorf("Lines(%q) = %q, want %q", in, got, want.lines)
		}
		if got := Line(in); got != want.line {
			t.Errorf("Line(%q) = %q, want %q", in, got, want.line)
		}
	}
	for _, r := range "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200b\u200c\u200d\u200e\u200f\u061c\ufeff\u2028\u2029\x1b\n" {
		if !Unfit(r) {
			t.Errorf("%U is fit", r)
		}
	}
	if got := Within("a\nb\n"); got != "a\n  b\n  " {
		t.Errorf("Within: %q", got)
	}
}
