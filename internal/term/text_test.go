package term

import (
	"strings"
	"testing"
)

func TestUnfitCharactersAreEscaped(t *testing.T) {
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

func TestFunctionsOnText(t *testing.T) {
	for _, c := range []struct{ name, got, want string }{
		{"Plain keeps tabs and text", Plain("a\tb"), "a\tb"},
		{"Plain drops colours and titles", Plain("\x1b[31mred\x1b[0m \x1b]0;title\x07end\r"), "red end"},
		{"Plain shows what hides", Plain("a\u202eb"), `a\u202eb`},
		{"Plain marks what is no UTF-8", Plain("a\xffb"), "a\uFFFDb"},
		{"Printable", Printable("a\x1bb\u00a0é\n"), "a?b?é?"},
		{"Quoted leaves text", Quoted("a b é"), "a b é"},
		{"Quoted quotes the rest", Quoted("a\nb"), `"a\nb"`},
		{"Truncate leaves short text", Truncate("é", 2), "é"},
		{"Truncate cuts whole characters", Truncate("éé", 3), "é"},
		{"Truncate to nothing", Truncate("é", 1), ""},
		{"Truncate of bytes that are no text", Truncate("\x80\x80\x80", 2), ""},
		{"Cut leaves short text", Cut("abc", 3), "abc"},
		{"Cut says so", Cut("abcd", 3), "abc..."},
		{"Shorten leaves short text", Shorten("éé", 2), "éé"},
		{"Shorten counts characters", Shorten("ééé", 2), "éé…"},
		{"Command", Command("echo", "a b", "", "it's", "x=1"), `echo 'a b' '' 'it'\''s' x=1`},
	} {
		if c.got != c.want {
			t.Errorf("%s: %q, want %q", c.name, c.got, c.want)
		}
	}
}

func TestOneLineEscapesAndCuts(t *testing.T) {
	for text, want := range map[string]string{
		`cannot use --role "ü"`: `cannot use --role "ü"`,
		"a\nb\x1b[2Jc\td":       `a\nb\x1b[2Jc\td`,
		"a\u202eb\u200bc\xff":   `a\u202eb\u200bc` + "\ufffd",
	} {
		if got := OneLine(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	long := OneLine("cannot use --nnodes: " + strings.Repeat("9", 1<<20) + " is neither N nor MIN:MAX")
	if len(long) > maxLine+10 || !strings.HasPrefix(long, "cannot use --nnodes: ") || !strings.HasSuffix(long, "neither N nor MIN:MAX") {
		t.Errorf("a long message: %q", long)
	}
}
