package diagnose

import (
	"reflect"
	"strings"
	"testing"
)

func TestHealthyLogsYieldNothing(t *testing.T) {
	info := read(t, "testdata/explain/healthy-info.log")
	for name, log := range map[string]string{
		"NCCL's INFO":  info,
		"empty":        "",
		"no line end":  "done",
		"counters":     strings.Repeat("step 7 errors 0 failed 0 HTTP 500: 0 NaN 0 timeout 0 oom 0\n", 100),
		"libibverbs":   "node1:1:2 [0] NCCL INFO Failed to open libibverbs.so[.1]\nnode1:1:2 [0] NCCL INFO Using network Socket\n",
		"garbage":      string([]byte{0, 1, 2, 0xff, 0xfe, '\r', '\n', 0x1b, '[', 0x1b}),
		"progress bar": strings.Repeat("\r 10%|###    | 10/100 [00:01<00:09, 10it/s]", 1000),
		"retries":      "node1:1:2 [0] NCCL INFO socketPollConnect: connect to 10.0.0.2<42> returned Connection refused, retrying (1/34) after sleep for 100 msec\nstep 1\nstep 2\n",
	} {
		if found := scan(t, "job.log", log); len(found) != 0 {
			t.Errorf("%s: %+v", name, found[0])
		}
	}
	// The same log with a fault in it has a finding, so the test can fail.
	if found := scan(t, "job.log", info+"[rank1]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\n"); len(found) == 0 || found[0].ID != "X-CUDAOOM" {
		t.Errorf("a fault among healthy lines: %+v", found)
	}
}

// TestSurvivedExceptionIsNoCause shows that an exception that the program caught and
// logged has no finding. Beside a failure it is a consequence.
func TestSurvivedExceptionIsNoCause(t *testing.T) {
	caught := "[rank1]: Traceback (most recent call last):\n[rank1]:   File \"log.py\", line 8, in upload\n[rank1]:     send()\n[rank1]: HTTPError: 500 Server Error\n"
	on := strings.Repeat("[rank1]: step\n", 30)
	if found := scan(t, "job.log", caught+on); len(found) != 0 {
		t.Errorf("a worker that went on: %+v", found)
	}
	end := "[rank2]: Traceback (most recent call last):\n[rank2]:   File \"train.py\", line 9, in main\n[rank2]:     step()\n[rank2]: KeyError: 'lr'\n"
	found := scan(t, "job.log", caught+on+end)
	if len(found) != 2 || !strings.Contains(found[0].Text, "KeyError") || found[0].Rank != 2 || found[1].Severity != SeverityConsequence {
		t.Errorf("got %+v", found)
	}
	if found := scan(t, "job.log", caught); len(found) != 1 || found[0].ID != "X-PYEXC" || found[0].Rank != 1 {
		t.Errorf("the last words: %+v", found)
	}
}

// TestMissingLibibverbs shows that a missing libibverbs is a cause only if the
// job asked for InfiniBand.
func TestMissingLibibverbs(t *testing.T) {
	const verbs = "node2:1:2 [0] NCCL INFO Failed to open libibverbs.so[.1]\n"
	const other = "node1:1:2 [0] init.cc:879 NCCL WARN Duplicate GPU detected : rank 0 and rank 1 both on CUDA device 1a000\n"
	found := scan(t, "job.log", verbs+other)
	if len(found) != 2 || found[0].ID != "D01" || found[1].Severity != SeverityHarmless {
		t.Errorf("on sockets: %+v", found)
	}
	for _, asked := range []string{
		"node2:1:2 [0] NCCL INFO NCCL_NET set by environment to IB.\n",
		"+ docker run -e NCCL_NET=IB img\n",
		"node2:1:2 [0] net.cc:70 NCCL WARN Error: network IB not found.\n",
	} {
		if found := scan(t, "job.log", asked+verbs); len(found) == 0 || found[0].ID != "N01" || found[0].Severity != SeverityCause {
			t.Errorf("%q: %+v", asked, found)
		}
	}
}

// TestEarlierCauseExplainsLaterLines shows that a line is a consequence if another
// line can explain it.
func TestEarlierCauseExplainsLaterLines(t *testing.T) {
	const (
		retry   = "node1:1:2 [0] NCCL WARN NET/IB : Got completion from peer 10.0.0.2<5> with error 12, opcode 0, len 0, vendor err 129 (Recv)\n"
		raised  = "[rank3]: Traceback (most recent call last):\n[rank3]:   File \"train.py\", line 9, in main\n[rank3]: ValueError: x\n"
		proxy2  = "node1:1:2 [0] proxy.cc:1519 NCCL WARN [Proxy Service 0] Failed to execute operation Connect from rank 0, retcode 2\n"
		unlink  = "node1:1:2 [0] NCCL WARN unlink shared memory /dev/shm/nccl-x failed, error: No such file or directory (2)\n"
		closed  = "node1:1:2 [0] NCCL WARN socketProgress: Connection closed by remote peer node2<4>\n"
		xid45   = "[ 12.3] NVRM: Xid (PCI:0000:3b:00): 45, pid=1, Ch 8\n"
		xid31   = "[ 12.3] NVRM: Xid (PCI:0000:3b:00): 31, pid=1, Ch 8\n"
		refused = "node1:1:2 [0] NCCL WARN socketPollConnect: connect to 10.0.0.2<4> returned Connection refused, exceeded error retry count after 35 attempts\n"
	)
	for _, c := range []struct{ name, log, id, severity string }{
		{"a peer that does not answer", retry, "N04", "cause"},
		{"... after it died", raised + retry, "X-PYEXC", "cause"},
		{"refused", refused, "I02", "cause"},
		{"refused by a dead peer", raised + refused, "X-PYEXC", "cause"},
		{"the proxy alone", proxy2, "X-ABORTED", "cause"},
		{"the proxy and its reason", refused + proxy2, "I02", "cause"},
		{"the proxy of a lost peer", closed + proxy2, "X-PEER-LOST", "consequence"},
		{"files deleted at the end", unlink, "", ""},
		{"files deleted and a lost peer", unlink + closed, "L11", "cause"},
		{"files deleted and a cause", unlink + raised, "X-PYEXC", "cause"},
		{"Xid 45 alone", xid45, "G01", "consequence"},
		{"Xid 31", xid45 + xid31, "X-CUDAERR", "cause"},
	} {
		found := scan(t, "job.log", c.log)
		if c.id == "" {
			if len(found) > 0 {
				t.Errorf("%s: %+v", c.name, found)
			}
			continue
		}
		if len(found) == 0 || found[0].ID != c.id || string(found[0].Severity) != c.severity {
			t.Errorf("%s: want %s %s, got %+v", c.name, c.severity, c.id, found)
			continue
		}
		for _, f := range found[1:] {
			if f.Severity == SeverityCause {
				t.Errorf("%s: a second cause %+v", c.name, f)
			}
		}
	}
}

// TestSurvivedWarningIsNoCause shows that a warning of NCCL is no cause if the job
// then ran for long.
func TestSurvivedWarningIsNoCause(t *testing.T) {
	warned := "[default1]:node1:1:2 [0] NCCL WARN NET/IB : Unable to open device mlx5_0\n"
	on := strings.Repeat("[default1]:step\n", survivedAfter+1)
	if found := scan(t, "job.log", warned+on); len(found) != 0 {
		t.Errorf("a job that works: %+v", found)
	}
	oom := "[default1]:[rank1]: torch.OutOfMemoryError: CUDA out of memory\n"
	if found := scan(t, "job.log", warned+on+oom); len(found) != 2 || found[0].ID != "X-CUDAOOM" || found[1].Severity != SeverityConsequence {
		t.Errorf("a job that failed later: %+v", found)
	}
	if found := scan(t, "job.log", warned+on[:100]); len(found) != 1 || found[0].ID != "N05" {
		t.Errorf("a job that ended at once: %+v", found)
	}
}

// TestKernelLineNamesTheRank reads lines of the kernel, which name only a process.
func TestKernelLineNamesTheRank(t *testing.T) {
	const start = "node1:4242:4250 [0] NCCL INFO ncclCommInitRank comm 0x1 rank 3 nranks 4 cudaDev 3 nvmlDev 3 busId 1a000 commId 0xbeef - Init COMPLETE\n"
	for _, line := range []string{
		"[ 12.3] Memory cgroup out of memory: Killed process 4242 (python) total-vm:1kB\n",
		"[ 12.3] Out of memory: Killed process 4242 (python) total-vm:1kB\n",
		"[ 12.3] oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),task=python,pid=4242,uid=0\n",
	} {
		if found := scan(t, "job.log", start+line); len(found) != 1 || found[0].ID != "X-HOSTOOM" || found[0].Rank != 3 || found[0].Host != "node1" {
			t.Errorf("%s: %+v", line, found)
		}
	}
}

// TestOrderOfSeveralLogs shows that the order of logs is that of reading, and that of
// times if lines have times.
func TestOrderOfSeveralLogs(t *testing.T) {
	first := "2026-11-21T16:39:58.100Z [rank1]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB\n"
	second := "2026-11-21T16:39:59.100Z [rank0]: OSError: [Errno 28] No space left on device\n"
	if found := scan(t, "b.log", second, "a.log", first); found[0].ID != "X-CUDAOOM" || found[0].File != "a.log" {
		t.Errorf("the earlier one is not the cause: %+v", found)
	}
	cut := func(s string) string { return s[len("2026-11-21T16:39:58.100Z "):] }
	if found := scan(t, "b.log", cut(second), "a.log", cut(first)); found[0].ID != "X-DISK" {
		t.Errorf("without times: %+v", found)
	}
	// A file's name says which rank wrote it.
	if found := scan(t, "logs/rank_7.err", cut(first)[len("[rank1]: "):]); found[0].Rank != 7 {
		t.Errorf("rank_7.err: %+v", found[0])
	}
	if found := scan(t, "x_1/attempt_0/3/stderr.log", "torch.OutOfMemoryError: CUDA out of memory\n"); found[0].Rank != 3 {
		t.Errorf("attempt_0/3: %+v", found[0])
	}
}

// TestFindingsHaveOneOrder shows that findings have one order, even where lines with
// and without times contradict each other.
func TestFindingsHaveOneOrder(t *testing.T) {
	const (
		untimed = "[rank1]: torch.OutOfMemoryError: CUDA out of memory\n"
		later   = "2026-11-21T16:39:59Z [rank0]: OSError: [Errno 28] No space left on device\n"
		earlier = "2026-11-21T16:39:58Z node1:1:2 [0] NCCL WARN Duplicate GPU detected : rank 0 and rank 1 both on CUDA device 1a000\n"
	)
	want := scan(t, "a.log", later, "b.log", untimed+earlier)
	for range 50 {
		if got := scan(t, "a.log", later, "b.log", untimed+earlier); !reflect.DeepEqual(got, want) {
			t.Fatalf("got %+v, then %+v", want, got)
		}
	}
}
