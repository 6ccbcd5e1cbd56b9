package diagnose

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestIsConsequence reads the last lines of workers: lost-* of workers that lost a
// peer, cause-* of workers that failed by themselves. lost-gloo-*,
// lost-store-reset-bare and cause-valueerror were recorded from torch 1.13 with gloo,
// after one of two or three ranks had been killed. The others follow the messages of
// the versions that they name.
func TestIsConsequence(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) < 20 {
		t.Fatalf("samples are missing: %v (%v)", files, err)
	}
	for _, path := range files {
		name := strings.TrimSuffix(filepath.Base(path), ".txt")
		t.Run(name, func(t *testing.T) {
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			lines := strings.Split(strings.TrimSuffix(string(b), "\n"), "\n")
			want := strings.HasPrefix(name, "lost-")
			if got := IsConsequence(lines[max(0, len(lines)-20):]); got != want {
				t.Errorf("IsConsequence = %v, want %v", got, want)
			}
			// Colours and line ends change nothing.
			for i := range lines {
				lines[i] = "\x1b[31m" + lines[i] + "\x1b[0m\r"
			}
			if got := IsConsequence(lines); got != want {
				t.Errorf("in colour: IsConsequence = %v, want %v", got, want)
			}
		})
	}
	if IsConsequence(nil) {
		t.Error("a worker without output failed as a consequence")
	}
}

// TestEachLostPeerLine checks lines of lost peers, and lines that only look like them.
func TestEachLostPeerLine(t *testing.T) {
	for _, line := range []string{
		"RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:525] Connection closed by peer [127.0.0.1]:40123",
		"RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:598] Read error [10.0.0.2]:123: Connection reset by peer",
		"RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:455] writev [10.0.0.2]:123: Broken pipe",
		"RuntimeError: [../third_party/gloo/gloo/transport/tcp/unbound_buffer.cc:81] Timed out waiting 1800000ms for recv operation to complete",
		"node1:1:2 [0] proxy.cc:1458 NCCL WARN [Service thread] Accept failed Resource temporarily unavailable",
		"node1:1:2 [0] proxy.cc:1495 NCCL WARN [Service thread] Could not receive type from localRank 3, res=3, closed=0",
		"node1:1:2 [0] proxy.cc:1143 NCCL WARN Socket recv failed while polling for opId=0x7f00",
		"RuntimeError: NCCL communicator was aborted on rank 0.  Original reason for failure was: NCCL error: remote process exited or there was a network error",
		"RuntimeError: Timed out initializing process group in store based barrier on rank: 0, for key: store_based_barrier_key:1 (world_size=2, worker_count=1, timeout=0:30:00)",
		"[Rank 3] Received a dump signal from rank 1, will dump",
		"RuntimeError: Stop_waiting response is expected",
	} {
		if !IsConsequence([]string{"step 1", line}) {
			t.Errorf("no consequence: %s", line)
		}
	}
	for _, line := range []string{
		"ValueError: Connection closed by remote peer of my own protocol, CUDA error: out of memory",
		"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB",
		"RuntimeError: NCCL communicator was aborted on rank 0.  Original reason for failure was: CUDA error: an illegal memory access was encountered",
		"Connection reset by peer",
		"Broken pipe",
		"Gloo connectFullMesh failed with [../third_party/gloo/gloo/transport/tcp/pair.cc:144] no error",
	} {
		if IsConsequence([]string{"step 1", line}) {
			t.Errorf("called a consequence: %s", line)
		}
	}
}

// TestShowsClosedConnection checks that only the last words count.
func TestShowsClosedConnection(t *testing.T) {
	traceback := []string{"Traceback (most recent call last):", `  File "train.py", line 3, in <module>`, "    s.send(b)"}
	for _, tt := range []struct {
		tail []string
		want bool
	}{
		{nil, false},
		{[]string{"step 1"}, false},
		{[]string{"write: Broken pipe"}, true},
		{[]string{"recv from rank 4: Connection closed by peer"}, true},
		{[]string{"recv: Connection reset by peer", "goroutine 7 [running]:"}, true},
		{[]string{"Broken pipe", "tried again, step 2"}, false},
		{[]string{"CUDA error: unknown error; socket closed"}, false},
		{append(slices.Clone(traceback), "ConnectionResetError: [Errno 104] Connection reset by peer"), true},
		{append(slices.Clone(traceback), "EOFError"), true},
		{append(slices.Clone(traceback), "ValueError: loss is NaN"), false},
		{append([]string{"Broken pipe"}, append(slices.Clone(traceback), "ValueError: loss is NaN")...), false},
	} {
		if got := ShowsClosedConnection(tt.tail); got != tt.want {
			t.Errorf("%q: %v, want %v", tt.tail, got, tt.want)
		}
	}
}

func FuzzIsConsequence(f *testing.F) {
	files, _ := filepath.Glob("testdata/*.txt")
	for _, path := range files {
		b, _ := os.ReadFile(path)
		f.Add(string(b))
	}
	f.Fuzz(func(t *testing.T, s string) {
		lines := strings.Split(s, "\n")
		if got := IsConsequence(lines); got != IsConsequence(lines) {
			t.Error("one text has two answers")
		}
		if failed := append(lines, "Traceback (most recent call last):", "ValueError: x"); IsConsequence(failed) &&
			!strings.Contains(s, "above exception") && !strings.Contains(s, "Exception ignored") {
			t.Error("a failure of the worker itself is called a consequence")
		}
	})
}
