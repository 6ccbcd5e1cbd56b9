package diagnose

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func FuzzScan(f *testing.F) {
	files, _ := filepath.Glob("testdata/explain/*.log")
	more, _ := filepath.Glob("testdata/*.txt")
	for _, path := range append(files, more...) {
		b, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b, 3)
	}
	f.Add([]byte("n1 NCCL WARN Connection closed\n"), 0) // of a row without a pattern
	f.Fuzz(func(t *testing.T, log []byte, cut int) {
		s := NewScanner()
		at := min(max(cut, 0), len(log))
		for _, part := range [][]byte{log[:at], log[at:]} {
			_ = s.Read(context.Background(), LogOf("rank_1.log"), bytes.NewReader(part)) // broken gzip is an error
		}
		found := s.Findings()
		var text bytes.Buffer
		if err := WriteText(&text, found); err != nil {
			t.Fatal(err)
		}
		for _, r := range text.String() {
			if r != '\n' && (r < ' ' || r >= 0x7f && r < 0xa0) {
				t.Fatalf("%q is shown:\n%q", r, text.String())
			}
		}
		if fmt.Sprint(s.Findings()) != fmt.Sprint(found) {
			t.Error("two answers to one text")
		}
	})
}

func BenchmarkScan(b *testing.B) {
	healthy := read(b, "testdata/explain/healthy-info.log")
	steps := strings.Repeat("2026-11-21T16:39:58.123Z [default3]:step 1234 loss 2.31234 lr 3.0e-04 tokens/s 123456 grad_norm 0.123 errors 0\n", 100)
	for name, text := range map[string]string{
		"steps":    strings.Repeat(steps, 100) + healthy,
		"failures": read(b, "testdata/explain/d-alltoall.log"),
		"docker":   strings.Repeat(`{"log":"step 1234 loss 2.31234 lr 3.0e-04 tokens/s 123456 grad_norm 0.123\\n","stream":"stdout","time":"2026-11-21T16:39:58.123456789Z"}`+"\n", 10000),
		"progress": strings.Repeat("\r 10%|###       | 10/100 [00:01<00:09, 10.00it/s, loss=2.31234]", 10000) + "\n",
		"tracebacks": strings.Repeat("[rank1]: Traceback (most recent call last):\n[rank1]:   File \"/w/data.py\", line 81, in fetch\n[rank1]:     return self.read(shard)\n"+
			"[rank1]:   File \"/w/data.py\", line 90, in read\n[rank1]:     raise OSError(shard)\n[rank1]: OSError: shard 7\n[rank1]: skipped a shard\n", 10000),
	} {
		b.Run(name, func(b *testing.B) {
			const size = 16 << 20
			b.SetBytes(size)
			for b.Loop() {
				s := NewScanner()
				if err := s.Read(context.Background(), LogOf("x.log"), &repeatingReader{text: []byte(text), left: size}); err != nil {
					b.Fatal(err)
				}
				s.Findings()
			}
		})
	}
}
