package diagnose

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/gorun/gorun/launch/diagnose/catalogue"
	"github.com/gorun/gorun/launch/diagnose/match"
)

// floodOf returns n texts of part, one after the other.
func floodOf(n int, part func(i int) string) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(part(i))
	}
	return b.String()
}

// floods are what a program repeats and survives.
var floods = map[string]func(i int) string{
	"tracebacks": func(i int) string {
		return fmt.Sprintf("[rank%d]: Traceback (most recent call last):\n[rank%[1]d]:   File \"/w/data.py\", line 81, in fetch\n[rank%[1]d]:     return self.read(shard)\n[rank%[1]d]: OSError: shard %d\n[rank%[1]d]: skipped a shard\n", i%8, i)
	},
	"errors": func(i int) string {
		return fmt.Sprintf("[rank%d]: 2026-11-21 12:%02d:%02d ERROR data.py:81 sample %d has a bad header\n", i%8, i/60%60, i%60, i)
	},
	"errors and steps": func(i int) string {
		return fmt.Sprintf("[rank%d]: ERROR data.py:81 sample %d has a bad header\n[rank%[1]d]: step %d loss 2.%04d\n", i%8, i, i, i%997)
	},
}

// TestFloodHidesNoCause puts a cause into floods of errors, 300 parts before their end.
func TestFloodHidesNoCause(t *testing.T) {
	const end = "E1121 12:59:00.000000 42 api.py:874] failed (exitcode: 1) local_rank: 3 (pid: 43) of binary: /usr/bin/python3\n"
	causes := map[string]struct{ text, id string }{
		"a line":      {"[rank3]: node7:42:43 [3] init.cc:904 NCCL WARN Duplicate GPU detected : rank 3 and rank 4 both on CUDA device 1a000\n", "D01"},
		"a traceback": {"[rank3]: Traceback (most recent call last):\n[rank3]:   File \"/w/train.py\", line 12, in step\n[rank3]:     loss.backward()\n[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\n", "X-CUDAOOM"},
	}
	for name, part := range floods {
		for of, cause := range causes {
			for _, at := range []int{0, 2500, 12345, 29999} {
				t.Run(fmt.Sprintf("%s in %s at %d", of, name, at), func(t *testing.T) {
					before := floodOf(at, part)
					after := floodOf(300, func(i int) string { return part(8 * i) }) // of rank 0
					found := scan(t, "job.log", before+cause.text+after+end)
					if len(found) == 0 || found[0].ID != cause.id || found[0].Doubtful {
						t.Fatalf("got %+v, want %s", found[:min(len(found), 1)], cause.id)
					}
					f := found[0]
					line := int64(strings.Count(before, "\n") + strings.Count(cause.text, "\n"))
					if f.Line != line || !slices.Contains(f.Ranks, 3) {
						t.Errorf("got line %d, ranks %v, want line %d and rank 3", f.Line, f.Ranks, line)
					}
				})
			}
		}
	}
}

// TestFloodIsCounted shows that a flood alone makes few findings, with its first line,
// its last line and the number of its errors.
func TestFloodIsCounted(t *testing.T) {
	const n = 40000
	log := floodOf(n, floods["errors"])
	found := scan(t, "job.log", log)
	if len(found) == 0 || len(found) > 2*maxDetails {
		t.Fatalf("got %d findings, the first %+v", len(found), found[:min(len(found), 1)])
	}
	count := int64(0)
	for _, f := range found {
		count += f.Count
	}
	if count != n {
		t.Errorf("counted %d errors, want %d", count, n)
	}
	s := NewScanner()
	if err := s.Read(t.Context(), LogOf("job.log"), strings.NewReader(log)); err != nil {
		t.Fatal(err)
	}
	hasFirst, hasLast := false, false
	for _, g := range s.groups {
		hasFirst = hasFirst || g.events[0].number == 1
		hasLast = hasLast || slices.ContainsFunc(g.events, func(e *event) bool { return e.number == n })
	}
	if !hasFirst || !hasLast {
		t.Errorf("first line %t, last line %t: both must make events", hasFirst, hasLast)
	}
}

// TestFloodKeepsNumbers shows that a line whose number decides is no part of a flood.
func TestFloodKeepsNumbers(t *testing.T) {
	for name, c := range map[string]struct {
		often, once string
		id          string
	}{
		"Xid":        {"node2 kernel: NVRM: Xid (PCI:0000:3b:00): 63, pid='<unknown>', name=<unknown>, Row Remapper: New row marked for remapping", "node2 kernel: NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.", "G01"},
		"exit codes": {"task 3 exited with code 0", "task 4 exited with code 1", ""},
	} {
		t.Run(name, func(t *testing.T) {
			often := strings.Repeat(c.often+"\n", 20000)
			s := NewScanner()
			if err := s.Read(t.Context(), LogOf("job.log"), strings.NewReader(often+c.once+"\n")); err != nil {
				t.Fatal(err)
			}
			found := s.Findings()
			if c.id != "" && (len(found) == 0 || found[0].ID != c.id) {
				t.Errorf("got %+v, want %s", found[:min(len(found), 1)], c.id)
			}
			if c.id == "" && !s.job.failed {
				t.Error("the line with another number was not read")
			}
		})
	}
}

func TestNumbersMakeNoShape(t *testing.T) {
	same := [][2]string{{"step 1 loss 0.5", "step 123456 loss 10.25"}, {"id 3f9a: failed", "id 77: failed"}, {"", "\n"}}
	other := [][2]string{{"loss 0.5", "loss nan"}, {"rank 3 failed", "rank failed"}, {"part-1a", "part-a1"}}
	hash := func(s string) uint64 { _, h := cutLine([]byte(s)); return h }
	for _, p := range same {
		if hash(p[0]) != hash(p[1]) {
			t.Errorf("%q and %q have other shapes", p[0], p[1])
		}
	}
	for _, p := range other {
		if hash(p[0]) == hash(p[1]) {
			t.Errorf("%q and %q have one shape", p[0], p[1])
		}
	}
}

// TestFloodOfOtherStream shows that lines of another stream do not make the errors of a
// flood look overcome.
func TestFloodOfOtherStream(t *testing.T) {
	found := scan(t, "job.log", floodOf(20000, func(i int) string {
		return fmt.Sprintf("[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\nstep %d\n", i)
	}))
	if len(found) == 0 || found[0].ID != "X-CUDAOOM" || found[0].Count != 20000 {
		t.Errorf("got %+v, want X-CUDAOOM 20000 times", found[:min(len(found), 1)])
	}
}

// TestGeneralRowsMayRepeat holds what floods need: no digit decides what a line means that
// only the general rows know. A digit in one of their patterns ends the skipping of all
// floods; \d does not.
func TestGeneralRowsMayRepeat(t *testing.T) {
	m := sharedMatcher()
	if rest := m.general.without(m.repeatable); rest != (entries{}) {
		for i, row := range m.rows {
			if rest.has(i) {
				t.Errorf("a digit decides in row %s", row.Key)
			}
		}
	}
}

// TestFinderSkips holds what makes the finder fast: it looks at every second byte only,
// because no pattern has a literal of less than five bytes.
func TestFinderSkips(t *testing.T) {
	var patterns []string
	for _, row := range catalogue.Rows() {
		if row.Pattern != catalogue.NoLine {
			patterns = append(patterns, row.Pattern)
		}
	}
	for _, l := range jobLines() {
		patterns = append(patterns, l.pattern)
	}
	for _, pattern := range patterns {
		for _, word := range match.Literals(pattern) {
			if len(word) <= match.Gram {
				t.Errorf("%q is short: %s", word, pattern)
			}
		}
	}
}

// TestOrdinaryLinesHaveNoWord shows that no expression reads the lines of which long logs
// consist. One word of one row that they have makes a log ten times as slow.
func TestOrdinaryLinesHaveNoWord(t *testing.T) {
	m := newMatcher()
	for _, line := range []string{
		"[rank2]: 2026-11-21 12:00:02 step 2 loss 2.0002 lr 3e-4 grad_norm 1.002 tokens/s 120002 errors 0",
		"node1:4201:4301 [1] NCCL INFO Channel 03/0 : 1[1] -> 2[2] via P2P/IPC/read",
		"[rank1]: UserWarning: the learning rate scheduler was called before step 33",
		"2026-11-21 12:00:02,123 INFO trainer.py:81 epoch 3 step 1200/5000 loss=1.912 time=0.41s mem=31.2GB",
		"{'loss': 1.3318, 'grad_norm': 2.11, 'learning_rate': 9.8e-06, 'epoch': 0.21}",
		" 10%|###       | 10/100 [00:01<00:09, 10.00it/s, loss=2.31234]",
	} {
		if at := m.finder.First([]byte(line)); at >= 0 {
			t.Errorf("%q has the word that ends %q", line, line[:at])
		}
	}
}
