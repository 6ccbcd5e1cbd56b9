package prefix

import (
	"bytes"
	"strings"
	"testing"
)

// writerLines returns lines with each kind of prefix and what the prefix says. The text of
// all is step 1.
func writerLines() map[string]Head {
	none := Head{Rank: -1, Local: -1, Task: -1}
	with := func(change func(*Head)) Head {
		h := none
		change(&h)
		return h
	}
	return map[string]Head{
		"stdout F step 1":                         none,
		"[rank3]: step 1":                         with(func(h *Head) { h.Rank = 3 }),
		"[RANK:3] step 1":                         with(func(h *Head) { h.Rank = 3 }),
		"[ERROR] [PID:7] [rank=3] step 1":         with(func(h *Head) { h.Rank = 3 }),
		"[1,3]<stderr>:step 1":                    with(func(h *Head) { h.Rank = 3 }),
		"[1,mpirank:3,algo-1]<stdout>:step 1":     with(func(h *Head) { h.Rank = 3 }),
		"[3]<stderr>:step 1":                      with(func(h *Head) { h.Rank = 3 }),
		"[default3]:step 1":                       with(func(h *Head) { h.Local = 3 }),
		"[pod/t-0/main] step 1":                   with(func(h *Head) { h.Host = "t-0" }),
		"[task 3]: step 1":                        with(func(h *Head) { h.Task = 3 }),
		"[worker 3] step 1":                       none,
		"[3]: step 1":                             with(func(h *Head) { h.Task = 3 }),
		"[40004] step 1":                          with(func(h *Head) { h.PID = 40004 }),
		"[ 12.345678] step 1":                     none,
		"[2026-11-21 16:39:58 DP0 TP3] step 1":    with(func(h *Head) { h.Rank = 3 }),
		"(Worker pid=92, ip=10.0.0.7) step 1":     with(func(h *Head) { h.PID, h.Host = 92, "10.0.0.7" }),
		"(VllmWorker rank=3 pid=410) step 1":      with(func(h *Head) { h.Rank, h.PID = 3, 410 }),
		"(raylet, ip=10.0.0.7) step 1":            with(func(h *Head) { h.Host = "10.0.0.7" }),
		"(worker_3) : step 1":                     with(func(h *Head) { h.Rank = 3 }),
		"ERROR 11-21 16:39:58 [core.py:5] step 1": none,
		"  3: step 1":                             with(func(h *Head) { h.Task = 3 }),
		"rank3[4711][MainThread]: step 1":         with(func(h *Head) { h.Rank, h.PID = 3, 4711 }),
		"trainer-1  | step 1":                     with(func(h *Head) { h.Host = "trainer-1" }),
		"3f9a2c || step 1":                        none,
		"node2: step 1":                           with(func(h *Head) { h.Host = "node2" }),
		"Nov 21 16:39:58 node2 app[7]: step 1":    with(func(h *Head) { h.Host = "node2" }),
	}
}

// TestPrefixes reads the writer of a line from each kind of prefix.
func TestPrefixes(t *testing.T) {
	for line, want := range writerLines() {
		got, rest := ReadHead([]byte(line))
		got.Label, got.When, got.Timed = 0, Stamp{}, false
		if text := strings.TrimPrefix(string(rest), "app[7]: "); got != want || text != "step 1" {
			t.Errorf("%q: got %+v and %q, want %+v", line, got, rest, want)
		}
	}
	for _, pattern := range prefixes() {
		if n := len(compilePrefix(pattern)); n > maxParts {
			t.Errorf("%s has %d parts, more than %d", pattern, n, maxParts)
		}
	}
}

func FuzzHead(f *testing.F) {
	for line := range writerLines() {
		f.Add([]byte(line))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		h, rest := ReadHead(line)
		if !bytes.HasSuffix(line, rest) {
			t.Errorf("%q is no end of %q", rest, line)
		}
		if h.Rank < -1 || h.PID < 0 || h.Task < -1 || h.Local < -1 {
			t.Errorf("%q: %+v", line, h)
		}
	})
}
