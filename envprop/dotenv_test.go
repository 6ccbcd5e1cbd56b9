package envprop

import (
	"fmt"
	"strings"
	"testing"
)

func TestParseEnvFile(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", ""},
		{"A=1", "1 A=1;"},
		{"\ufeffA=1\r\nB=2\r\n", "1 A=1;2 B=2;"},
		{"# c\n\n  \t\n  export\tA = 1  # c\nB=2", "4 A=1;5 B=2;"},
		{"A=\nB=   # nothing\nC=#", "1 A=;2 B=;3 C=;"},
		{"A=a#b\nB=a b", "1 A=a#b;2 B=a b;"},
		{`A='a "b" $c \n #' # c`, `1 A=a "b" $c \n #;`},
		{`A="a\tb\\\"\$c\` + "`" + ` # 'd'"`, "1 A=a\tb\\\"$c` # 'd';"},
		{"A=\"one  \n two\r\n\"\nB=1", "1 A=one  \n two\n;4 B=1;"},
		{"A==b", "1 A==b;"},
		{"export=1", "1 export=1;"},
		{"A=\"\"\nB=''", "1 A=;2 B=;"},
		{"A=é", "1 A=é;"},
	} {
		lines, err := parseEnvFile("f", []byte(c.text))
		got := ""
		for _, l := range lines {
			got += fmt.Sprintf("%d %s=%s;", l.line, l.name, l.value)
		}
		if err != nil || got != c.want {
			t.Errorf("%q: %q, %v; want %q", c.text, got, err, c.want)
		}
	}
}

func TestEnvFileErrorsNameTheLine(t *testing.T) {
	for text, want := range map[string]string{
		"A=1\nB":                 "job.env:2: no '='",
		"\nexport A\n":           "job.env:2: no '='",
		"\n\n=1":                 "job.env:3: what stands before '='",
		"A B=1":                  "job.env:1: what stands before '='",
		"s3cret/Hush+==":         "job.env:1: what stands before '='",
		"A=1\nRANK=0":            "job.env:2: only gorun sets RANK",
		"A=1\n\nA=2":             "job.env:3: line 1 sets A already",
		"A=$HOME/s3cret":         "job.env:1: a shell would expand",
		"A=\"${HUSH}s3cret\"":    "job.env:1: a shell would expand",
		"A=`s3cret`":             "job.env:1: a shell would expand",
		"A='s3cret":              "job.env:1: no single quote",
		"A='s3cret\n'":           "job.env:1: no single quote",
		"B=1\nA=\"s3cret\n\nB=1": "job.env:2: no double quote",
		"A=\"s3cret\"s3cret":     "job.env:1: text behind",
		"A='s3cret' s3cret":      "job.env:1: text behind",
		"A=\"\\x\"":              "job.env:1: unknown escape",
		"A=\"s3cret\\\ns3cret\"": "job.env:1: a line ends with \\",
		"A=hu\"sh":               "job.env:1: a quote within",
		"A=1\nB=\xffs3cret":      "job.env:2: not UTF-8",
		"A=1\nB=s3cret\x00":      "job.env:2: the value of B has a zero byte",
		"A=\"1\n2\n\"\nB=\"\n3":  "job.env:4: no double quote",
	} {
		_, err := parseEnvFile("job.env", []byte(text))
		if err == nil || !strings.HasPrefix(err.Error(), want) || strings.Contains(strings.ToLower(err.Error()), "s3cret") {
			t.Errorf("%q: %v; want %q", text, err, want)
		}
	}
	if _, err := parseEnvFile("f", []byte(strings.Repeat("A1=1\n", 1))); err != nil {
		t.Error(err)
	}
	var many strings.Builder
	for i := range maxOverrides + 1 {
		fmt.Fprintf(&many, "A%d=1\n", i)
	}
	if _, err := parseEnvFile("f", []byte(many.String())); err == nil || !strings.HasPrefix(err.Error(), "f:1025: more than 1024") {
		t.Error(err)
	}
}

// quoted writes a value so that parseEnvFile reads it back.
func quoted(value string) string {
	return `"` + strings.NewReplacer("\\", "\\\\", `"`, `\"`, "$", `\$`, "`", "\\`", "\r", `\r`).Replace(value) + `"`
}

func FuzzEnvFile(f *testing.F) {
	for _, s := range []string{"A=1", "export A='x'\n# c\nB=\"a\nb\"", "A=\"\\n\"", "A=$x", "\ufeffA=é\r\n", "A"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		lines, err := parseEnvFile("f", text)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "f:") || strings.Contains(err.Error(), "\n") {
				t.Errorf("%q", err)
			}
			return
		}
		var again strings.Builder
		for _, l := range lines {
			if checkName(l.name) != nil || checkValue(l.name, l.value) != nil || l.line < 1 {
				t.Errorf("%+v", l)
			}
			fmt.Fprintf(&again, "%s=%s\n", l.name, quoted(l.value))
		}
		back, err := parseEnvFile("f", []byte(again.String()))
		if err != nil && again.Len() > MaxEnvFile {
			return
		}
		if err != nil || len(back) != len(lines) {
			t.Fatalf("%d of %d, %v", len(back), len(lines), err)
		}
		for i := range back {
			if back[i].name != lines[i].name || back[i].value != lines[i].value {
				t.Errorf("%+v, %+v", back[i], lines[i])
			}
		}
	})
}
