package logs

import (
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
)

// crashOfPython is what faulthandler prints of a process with many threads.
var crashOfPython = "Fatal Python error: Aborted\n\n" + strings.Repeat(`Thread 0x00007f77217146c0 (most recent call first):
  File "/usr/lib/python3.11/threading.py", line 975 in run
  ...

`, 30) + `Current thread 0x00007f77219cf040 (most recent call first):
  File "/home/u/data.py", line 13 in load_data
  File "/home/u/train.py", line 88 in <module>

Extension modules: numpy.core._multiarray_umath, torch._C (total: 2)
`

func TestTail(t *testing.T) {
	var many, last strings.Builder
	for i := range 100 {
		fmt.Fprintf(&many, "line %d\n", i)
		if i >= 80 {
			fmt.Fprintf(&last, "line %d\n", i)
		}
	}
	lines := func(s string) []string { return strings.Split(strings.TrimSuffix(s, "\n"), "\n") }
	for _, c := range []struct {
		name, in string
		want     []string
	}{
		{"nothing", "", nil},
		{"one", "a\n", []string{"a"}},
		{"not ended", "a\nb", []string{"a", "b"}},
		{"empty lines stay", "a\n\n", []string{"a", ""}},
		{"last twenty", many.String(), lines(last.String())},
		{"last twenty, not ended", many.String() + "end", append(lines(last.String())[1:], "end")},
		{"windows", "a\r\nb\r\n", []string{"a", "b"}},
		{"bar", "0%\r50%\r100%\n", []string{"100%"}},
		{"bar that runs", "x\n0%\r50%", []string{"x", "50%"}},
		{"bar that waits at the line's begin", "x\n0%\r50%\r", []string{"x", "50%"}},
		{"spaces and colours stay", "  \x1b[31ma\t \n", []string{"  \x1b[31ma\t "}},
		{"crash of Python", "CUDA error\n" + crashOfPython + "after\n", []string{
			"CUDA error", "Fatal Python error: Aborted", "Current thread 0x00007f77219cf040 (most recent call first):",
			`  File "/home/u/data.py", line 13 in load_data`, `  File "/home/u/train.py", line 88 in <module>`, "after",
		}},
		{"long", strings.Repeat("x", 5000) + "\nb\n", []string{strings.Repeat("x", 4096) + "…", "b"}},
		{"long, then overwritten", strings.Repeat("x", 5000) + "\rb\n", []string{"b"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, size := range []int{1, 3, 1 << 20} {
				var tl tail
				for rest := []byte(c.in); len(rest) > 0; {
					n := min(size, len(rest))
					tl.write(rest[:n])
					rest = rest[n:]
				}
				if got := tl.lastLines(); !reflect.DeepEqual(got, c.want) && len(got)+len(c.want) > 0 {
					t.Errorf("in pieces of %d: %q, want %q", size, got, c.want)
				}
			}
			path := t.TempDir() + "/stderr.log"
			if err := os.WriteFile(path, []byte(c.in), 0o600); err != nil {
				t.Fatal(err)
			}
			if got := tailOfFile(path); !reflect.DeepEqual(got, c.want) && len(got)+len(c.want) > 0 {
				t.Errorf("of a file: %q, want %q", got, c.want)
			}
		})
	}
}

func TestTailOfLargeFile(t *testing.T) {
	path := t.TempDir() + "/stderr.log"
	if err := os.WriteFile(path, []byte(strings.Repeat("0123456789\n", 300_000)+"the end\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	got := tailOfFile(path)
	if len(got) != TailLines || got[0] != "0123456789" || got[TailLines-1] != "the end" {
		t.Errorf("tail %q", got)
	}
	if got := tailOfFile(path + ".none"); got != nil {
		t.Errorf("tail of a file that is not there: %q", got)
	}
}

// FuzzTail shows that the tail of a text and of its pieces is the same, and
// bounded.
func FuzzTail(f *testing.F) {
	f.Add([]byte("a\r\nb\rc\n"), 1)
	f.Add([]byte("\n\n\r\r\n"), 2)
	f.Add([]byte("why\n"+crashOfPython), 100)
	f.Fuzz(func(t *testing.T, b []byte, size int) {
		size = max(1, size%100)
		var whole, pieces tail
		whole.write(b)
		for rest := b; len(rest) > 0; {
			n := min(size, len(rest))
			pieces.write(rest[:n])
			rest = rest[n:]
		}
		if w, p := whole.lastLines(), pieces.lastLines(); len(w)+len(p) > 0 && !reflect.DeepEqual(w, p) {
			t.Errorf("%q whole, %q in pieces of %d", w, p, size)
		}
		for _, line := range whole.lastLines() {
			if len(line) > maxTailLine+len("…") {
				t.Errorf("a line of %d bytes", len(line))
			}
		}
	})
}
