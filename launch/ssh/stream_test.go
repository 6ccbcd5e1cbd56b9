package ssh

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

func TestStream(t *testing.T) {
	long := strings.Repeat("x", maxLine)
	for name, tt := range map[string]struct{ in, want string }{
		"lines":               {"a\nb\n", "[h] a\n[h] b\n"},
		"the last has no end": {"a\nb", "[h] a\n[h] b\n"},
		"empty lines":         {"\n\n", "[h] \n[h] \n"},
		"carriage returns":    {"10%\r20%\r\nend\n", "[h] 10%\r[h] 20%\r\n[h] end\n"},
		"a mark":              {"a\n" + testToken + " end 7\n", "[h] a\n"},
		"a mark in a line":    {"a" + testToken + " end 7\n", "[h] a\n"},
		"nothing":             {"", ""},
		"long":                {long + "yz\n", "[h] " + long + "\n[h] yz\n"},
	} {
		for _, read := range []func(io.Reader) io.Reader{func(r io.Reader) io.Reader { return r }, iotest.OneByteReader} {
			if name == "long" && len(tt.in) > 100 {
				read = func(r io.Reader) io.Reader { return r }
			}
			var b bytes.Buffer
			marks := make(chan mark, 1)
			s := stream{to: &output{to: &b}, prefix: "[h] ", token: testToken, marks: marks}
			s.pass()
			s.copy(read(strings.NewReader(tt.in)))
			if b.String() != tt.want {
				t.Errorf("%s: %.60q, want %.60q", name, b.String(), tt.want)
			}
			if strings.Contains(tt.in, testToken) {
				if m := <-marks; m != (mark{"end", "7"}) {
					t.Errorf("%s: mark %+v", name, m)
				}
			}
		}
	}
}

// What the start files of a shell print is dropped, and the last line is kept as safe
// text for messages.
func TestStreamBeforeTheJob(t *testing.T) {
	var b bytes.Buffer
	s := stream{to: &output{to: &b}, prefix: "[h] "}
	s.copy(strings.NewReader("Welcome\nPermission denied \x1b[31m(publickey)\x1b[0m.\r\n\n"))
	if b.Len() > 0 || s.lastLine() != "Permission denied (publickey)." {
		t.Errorf("passed %q; last %q", b.String(), s.lastLine())
	}
}
