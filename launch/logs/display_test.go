package logs

import (
	"strings"
	"testing"
)

func TestLineDisplay(t *testing.T) {
	long := strings.Repeat("x", maxLine)
	for _, c := range []struct{ name, in, want string }{
		{"line", "hello\n", "[d0]:hello\n"},
		{"lines", "a\nb\n\nc\n", "[d0]:a\n[d0]:b\n[d0]:\n[d0]:c\n"},
		{"partial at the end", "a\nb", "[d0]:a\n[d0]:b\n"},
		{"windows", "a\r\n\r\nb\r\n", "[d0]:a\n[d0]:\n[d0]:b\n"},
		{"bar", "\r 0%\r 50%\r 100%\n", "[d0]: 0%\n[d0]: 50%\n[d0]: 100%\n"},
		{"longest", long + "\n", "[d0]:" + long + "\n"},
		{"too long", long + "yz\n", "[d0]:" + long + "\n[d0]:yz\n"},
		{"far too long", long + long + long, strings.Repeat("[d0]:"+long+"\n", 3)},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, size := range []int{1 + len(c.in)/50, 1 << 20} {
				con := captureFiles(t)
				w := &lineDisplay{write: func(p []byte) { _ = con.stderr.write(p, nil) }, prefix: "[d0]:"}
				for rest := []byte(c.in); len(rest) > 0; {
					n := min(size, len(rest))
					w.show(rest[:n])
					rest = rest[n:]
				}
				w.finish()
				if got := text(t, con.err); got != c.want {
					t.Errorf("in pieces of %d: %.200q, want %.200q", size, got, c.want)
				}
				if cap(w.part) > 2*maxLine {
					t.Errorf("%d bytes kept of a line", cap(w.part))
				}
			}
		})
	}
}

func FuzzLineDisplay(f *testing.F) {
	f.Add([]byte("a\r\n\rb\n"), 2)
	con, err := NewConsole(devNull(f), devNull(f))
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(con.Close)
	f.Fuzz(func(t *testing.T, b []byte, size int) {
		size = max(1, size%100)
		w := &lineDisplay{write: func(p []byte) { _ = con.stdout.write(p, nil) }, prefix: "P"}
		for rest := b; len(rest) > 0; {
			n := min(size, len(rest))
			w.show(rest[:n])
			if len(w.block) > 0 && (w.block[0] != 'P' || w.block[len(w.block)-1] != '\n') {
				t.Fatalf("shows %q", w.block)
			}
			rest = rest[n:]
		}
		w.finish()
	})
}

// TestLinesWithATextAreWritten checks that only lines with one of the texts are written,
// also when a line comes in pieces.
func TestLinesWithATextAreWritten(t *testing.T) {
	var got strings.Builder
	w := &lineDisplay{write: func(p []byte) { got.Write(p) }, prefix: "[d0]:", texts: []string{"loss", "lr=1,0"}}
	for _, p := range []string{"step 1\nlo", "ss 2\n", "lr=1,0\rlr=10\n", "no\n\n", "the last loss"} {
		w.show([]byte(p))
	}
	w.finish()
	if want := "[d0]:loss 2\n[d0]:lr=1,0\n[d0]:the last loss\n"; got.String() != want {
		t.Errorf("%q, want %q", got.String(), want)
	}
}
