package gossip

import (
	"strings"
	"testing"
)

func FuzzDecodeMeta(f *testing.F) {
	good, err := meta{Protocol: 1, Run: "r", Name: "n", Control: "127.0.0.1:1", Endpoint: 2}.encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add([]byte(`{"e":-1}`))
	f.Add([]byte(`null`))
	f.Add([]byte(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := decodeMeta(b)
		if err != nil {
			return
		}
		if len(m.Run) > 512 || len(m.Name) > 512 || len(m.Control) > 512 {
			t.Errorf("%+v is longer than what it came from", m)
		}
		if strings.ContainsFunc(m.Name+m.Control, func(r rune) bool { return r < ' ' || r == 127 }) {
			t.Errorf("%+v reaches a terminal", m)
		}
		_ = m.peer("x")
	})
}

func TestLongNamesFitTheMeta(t *testing.T) {
	for _, word := range []string{"a", "\u00e9", "\"", "<", "\u2028", "\xff"} {
		long := strings.Repeat(word, 2000)
		for _, run := range []string{word, long} {
			b, err := meta{Protocol: 1, Run: shortRun(run), Name: long, Control: "[2001:db8:ffff:ffff:ffff:ffff:ffff:ffff%eth0]:65535"}.encode()
			if err != nil {
				t.Fatal(err)
			}
			m, err := decodeMeta(b)
			if err != nil || m.Run != shortRun(run) {
				t.Errorf("%q came back as %q (%v)", shortRun(run), m.Run, err)
			}
			if shortRun(run) == shortRun(run+"x") {
				t.Errorf("run ids %.10q and %.10q... look the same", run, run+"x")
			}
		}
	}
}
