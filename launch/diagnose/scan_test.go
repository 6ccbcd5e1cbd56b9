package diagnose

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/gorun/gorun/launch/diagnose/match"
)

// TestFindingsDoNotDependOnTheReader shows that the same text gives the same findings
// in pieces of any size.
func TestFindingsDoNotDependOnTheReader(t *testing.T) {
	for name := range failedJobs {
		log := read(t, "testdata/explain/"+name+".log")
		want := fmt.Sprint(scan(t, "x.log", log))
		var zipped bytes.Buffer
		z := gzip.NewWriter(&zipped)
		if _, err := z.Write([]byte(log)); err != nil {
			t.Fatal(err)
		}
		if err := z.Close(); err != nil {
			t.Fatal(err)
		}
		for how, r := range map[string]io.Reader{
			"bytes":  iotest.OneByteReader(strings.NewReader(log)),
			"halves": iotest.HalfReader(strings.NewReader(log)),
			"end":    iotest.DataErrReader(strings.NewReader(log)),
			"gzip":   &zipped,
		} {
			s := NewScanner()
			if err := s.Read(context.Background(), LogOf("x.log"), r); err != nil {
				t.Fatal(err)
			}
			if got := fmt.Sprint(s.Findings()); got != want {
				t.Errorf("%s by %s: %s, want %s", name, how, got, want)
			}
			if got := fmt.Sprint(s.Findings()); got != want {
				t.Errorf("%s: second call: %s, want %s", name, got, want)
			}
		}
	}
}

func TestReadErrors(t *testing.T) {
	s := NewScanner()
	broken := errors.New("the disk failed")
	err := s.Read(context.Background(), LogOf("x"), io.MultiReader(strings.NewReader("[rank1]: torch.OutOfMemoryError: CUDA out of memory\n"), iotest.ErrReader(broken)))
	if !errors.Is(err, broken) {
		t.Errorf("err = %v", err)
	}
	if found := s.Findings(); len(found) != 1 || found[0].ID != "X-CUDAOOM" {
		t.Errorf("what was read before the error: %+v", found)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := s.Read(ctx, LogOf("x"), endlessReader{}); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: %v", err)
	}
	if err := s.Read(context.Background(), LogOf("x"), strings.NewReader("\x1f\x8b\x08 no gzip")); err == nil {
		t.Error("broken gzip is no error")
	}
	if err := s.Read(context.Background(), LogOf("x"), emptyReader{}); !errors.Is(err, io.ErrNoProgress) {
		t.Errorf("a reader that gives nothing: %v", err)
	}
}

type endlessReader struct{}

func (endlessReader) Read(p []byte) (int, error) { return len(p), nil }

type emptyReader struct{}

func (emptyReader) Read([]byte) (int, error) { return 0, nil }

// repeatingReader reads as text over and over, left bytes in all.
type repeatingReader struct {
	text []byte
	at   int
	left int64
}

func (r *repeatingReader) Read(p []byte) (int, error) {
	if r.left <= 0 {
		return 0, io.EOF
	}
	p = p[:min(int64(len(p)), r.left)]
	n := 0
	for n < len(p) {
		c := copy(p[n:], r.text[r.at:])
		n += c
		r.at = (r.at + c) % len(r.text)
	}
	r.left -= int64(n)
	return n, nil
}

// TestMemoryIsBounded shows that the memory of the Scanner does not grow with any log.
func TestMemoryIsBounded(t *testing.T) {
	many := func(format string, n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, format+"\n", i)
		}
		return b.String()
	}
	for name, text := range map[string]string{
		"failures":   strings.Repeat(read(t, "testdata/explain/d-alltoall.log"), 300),
		"exceptions": many("Traceback (most recent call last):\n  File \"x.py\", line 1, in f\nValueError: number %d", 2*maxGroups),
		"open ones":  many("[rank%[1]d]: Traceback (most recent call last):\n[rank%[1]d]:   File \"x.py\", line 1, in f", maxTracked+100),
		"inits":      many("node%[1]d:%[1]d:1 [0] NCCL INFO comm 0x1 rank %[1]d nranks 100000 cudaDev 0 busId %[1]d commId 0x%[1]d - Init START", maxEntries+100),
		"ends":       many("gorun: rank %[1]d on node%[1]d, pid 1%[1]d exited with code 1; exit code 1", maxTracked+100),
		"tasks":      many("srun: error: n%[1]d: tasks 0-99999,0-99999: Exited with exit code 1", maxTracked+100),
		"watchdogs":  many("[rank%[1]d]:[E1121 16:40:02.1 P.cpp:1] [Rank %[1]d] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=%[1]d, OpType=A)", maxEntries+100),
		"versions":   many("n%[1]d:%[1]d:1 [0] NCCL INFO NCCL version 2.%[1]d.1+cuda12", maxTracked+100),
		"variables":  many("n%[1]d:1:1 [0] NCCL INFO NCCL_IB_HCA set by environment to mlx5_%[1]d", maxTracked+100),
		"interfaces": many("n%[1]d:1:1 [0] NCCL INFO NET/Socket : Using [0]eth0:10.0.0.%[1]d<0>", maxTracked+100),
		"agents":     many("W0626 06:24:46.010000 %[1]d torch/distributed/elastic/multiprocessing/api.py:897] Sending process 7%[1]d closing signal SIGTERM", maxEntries+100),
		"pods":       many("w-%d   0/1   Pending   0   2m", maxEntries+100),
		"places":     many("Hostname cn-275, pid 1594, rank %d / size 4", maxEntries+100),
		"no end":     "NCCL WARN " + strings.Repeat("Connection closed by remote peer ", 30000),
	} {
		s := NewScanner()
		if err := s.Read(context.Background(), LogOf(name), strings.NewReader(text)); err != nil {
			t.Fatal(err)
		}
		events := 0
		for _, g := range s.groups {
			events = max(events, len(g.events))
		}
		j := &s.job
		for what, n := range map[string][2]int{
			"groups": {len(s.groups), maxGroups}, "events": {events, keptEvents}, "streams": {len(s.tracebacks), maxTracked}, "waiting": {len(s.followed), maxWaiting},
			"ends": {len(j.ends), maxTracked}, "ranks": {len(j.writers.ranks), maxEntries}, "pids": {len(j.pids), maxEntries}, "inits": {len(j.inits), maxEntries},
			"watch": {len(j.timeouts), maxEntries}, "versions": {len(j.nccl.versions), maxTracked},
			"variables": {len(j.nccl.variables["NCCL_IB_HCA"]), maxHosts}, "interfaces": {len(j.nccl.others), maxTracked}, "agents": {len(j.writers.agents), maxTracked},
			"pods": {len(j.waiting), maxEntries}, "places": {len(j.writers.announced.hosts), maxEntries},
			"lines that were read twice": {int(j.reread - 2*s.number), maxReread + maxTracked}, "hosts of tasks": {len(j.taskHosts), maxTasks},
		} {
			if n[0] > n[1]+1 {
				t.Errorf("%s: %d %s, more than %d", name, n[0], what, n[1])
			}
		}
		for _, f := range s.Findings() {
			if len(f.Text) > 5*match.MaxText || len(f.Ranks) > maxRanks {
				t.Errorf("%s: a finding of %d bytes, %d ranks", name, len(f.Text), len(f.Ranks))
			}
		}
	}
}

// TestLongLines shows that the findings of a line do not depend on its length.
func TestLongLines(t *testing.T) {
	fault := "Duplicate GPU detected : rank 0 and rank 1 both on CUDA device 1a000"
	for _, n := range []int{10, maxMatched, blockSize - 10, blockSize, 3 * blockSize} {
		pad := strings.Repeat("x ", n/2)
		found := scan(t, "x.log", "[rank1]: "+pad+"\n[rank1]: "+pad[:min(n, blockSize/2)]+fault+pad+"\n")
		if len(found) != 1 || found[0].ID != "D01" || !strings.Contains(found[0].Text, "Duplicate GPU") {
			t.Errorf("%d: %+v", n, found)
		}
	}
}
