package diagnose

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/gorun/gorun/launch/diagnose/catalogue"
)

// TestNativeFramesAreNoTraceback shows that frames of a crash handler do not begin a
// traceback.
func TestNativeFramesAreNoTraceback(t *testing.T) {
	log := "!!!!!!! Segfault encountered !!!!!!!\n  File \"./misc/sigaction.c\", line 0, in __restore_rt\n  File \"<unknown>\", line 0, in at::native::add(at::Tensor const&)\n" +
		"E1121 03:00:00.000000 1 torch/distributed/elastic/multiprocessing/api.py:874] failed (exitcode: -11) local_rank: 1 (pid: 77) of binary: python\n"
	found := scan(t, "job.log", log)
	if len(found) != 1 || found[0].ID != "X-SEGV" || found[0].Line != 1 {
		t.Errorf("got %+v", found)
	}
}

// TestPodNamesSeparateLocalRanks shows that only the names of pods distinguish
// their workers, because pods number ranks and processes alike.
func TestPodNamesSeparateLocalRanks(t *testing.T) {
	end := func(pod, pid int) string {
		return fmt.Sprintf("[pod/t-%d/main] E1121 03:00:00.000000 1 torch/distributed/elastic/multiprocessing/api.py:874] failed (exitcode: %d) local_rank: 0 (pid: 77) of binary: python\n", pod, pid)
	}
	for _, c := range []struct{ name, log, who string }{
		{"one pod of several", "[pod/t-0/main] step\n" + end(2, -11), "local rank 0 on t-2"},
		{"one pod", end(2, -11), "local rank 0 on t-2"},
		{"all of the world", "[pod/t-2/main] [default0]:world_size=1\n" + end(2, -11), "rank 0 on t-2"},
		{"no name", strings.TrimPrefix(end(2, -11), "[pod/t-2/main] "), "rank 0"},
		{"one pid in two pods", end(1, 1) + "[pod/t-1/main] Failures:\n[pod/t-1/main]   time : 2026-11-21_03:10:00\n[pod/t-1/main]   host : t-1\n[pod/t-1/main]   rank : 1 (local_rank: 0)\n[pod/t-1/main]   exitcode : 1 (pid: 77)\n" + end(2, -11), "local rank 0 on t-2"},
	} {
		found := scan(t, "job.log", c.log)
		if len(found) == 0 || found[0].ID != "X-SEGV" || found[0].blamed() != c.who {
			t.Errorf("%s: want %s, got %+v", c.name, c.who, found)
		}
	}
}

// TestSchedulerEndsTheJob shows that the end by a scheduler explains the later output
// of the workers, but not the earlier.
func TestSchedulerEndsTheJob(t *testing.T) {
	const (
		limit   = "slurmstepd: error: *** STEP 42.0 ON gpu01 CANCELLED AT 2026-11-21T03:00:00 DUE TO TIME LIMIT ***\n"
		preempt = "slurmstepd: error: *** JOB 42 ON gpu01 CANCELLED AT 2026-11-21T03:00:00 DUE TO PREEMPTION ***\n"
		node    = "srun: error: Node failure on gpu07\n"
		scancel = "slurmstepd: error: *** STEP 42.0 ON gpu01 CANCELLED AT 2026-11-21T03:00:00 ***\n"
		loader  = "1: RuntimeError: DataLoader worker (pid 123) is killed by signal: Terminated.\n"
		raised  = "1: Traceback (most recent call last):\n1:   File \"train.py\", line 9, in main\n1: ValueError: x\n"
		killed  = "srun: error: gpu01: task 0: Killed\n"
		closed  = "0: [rank0]: RuntimeError: [gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.0.0.2]:1111\n"
	)
	for _, c := range []struct {
		name string
		logs []string
		id   string
		host string
	}{
		{"the limit", []string{"a", limit + killed + closed}, "X-TIMELIMIT", "gpu01"},
		{"... in other words afterwards", []string{"a", limit + loader + raised}, "X-TIMELIMIT", "gpu01"},
		{"... after a failure", []string{"a", raised + limit + killed}, "X-PYEXC", ""},
		{"... in a log without times", []string{"a", limit, "b", raised}, "X-PYEXC", ""},
		{"preempted", []string{"a", preempt + closed}, "X-PREEMPTED", ""},
		{"a node", []string{"a", node + closed}, "X-NODE-LOST", "gpu07"},
	} {
		found := scan(t, c.logs...)
		if len(found) == 0 || found[0].ID != c.id || found[0].Severity != SeverityCause || found[0].Host != c.host {
			t.Errorf("%s: want %s, got %+v", c.name, c.id, found)
		}
	}
	if found := scan(t, "a", scancel+closed); len(found) == 0 || found[0].Severity == SeverityCause {
		t.Errorf("stopped by a person, or after a task's end: %+v", found)
	}
}

// TestLauncherTracebackComesLast shows that a launcher's traceback is the cause only
// if no other line is, with any prefix of the log.
func TestLauncherTracebackComesLast(t *testing.T) {
	const launcher = "Traceback (most recent call last):\n  File \"/opt/venv/bin/torchrun\", line 8, in <module>\n    sys.exit(main())\n" +
		"  File \"/opt/venv/lib/python3.11/site-packages/torch/distributed/elastic/multiprocessing/errors/__init__.py\", line 355, in wrapper\n    return f(*args, **kwargs)\n" +
		"  File \"/opt/venv/lib/python3.11/site-packages/torch/distributed/run.py\", line 918, in main\n    run(args)\n%s\n"
	const worker = "Traceback (most recent call last):\n  File \"/data/train.py\", line 41, in <module>\n    main()\n" +
		"  File \"/opt/venv/lib/python3.11/site-packages/torch/distributed/elastic/multiprocessing/errors/__init__.py\", line 355, in wrapper\n    return f(*args, **kwargs)\n" +
		"KeyError: 'label'\n"
	const elastic = "E1121 03:10:01.000000 1 torch/distributed/elastic/multiprocessing/api.py:870] failed (exitcode: 1) local_rank: 2 (pid: 102) of binary: python\n"
	failed := fmt.Sprintf(launcher, "torch.distributed.elastic.multiprocessing.errors.ChildFailedError:")
	other := fmt.Sprintf(launcher, "ValueError: host not found")
	for _, c := range []struct{ name, log, row, text string }{
		{"a worker's exception", worker + elastic + failed, catalogue.RowException, "KeyError: 'label' (data/train.py:41)"},
		{"... after the launcher's", other + worker, catalogue.RowException, "KeyError: 'label' (data/train.py:41)"},
		{"an exit code", elastic + other, catalogue.RowNoReason, ""},
		{"SIGKILL", strings.ReplaceAll(elastic, "code: 1", "code: -9") + other, catalogue.RowKilled, ""},
		{"nothing else", other, catalogue.RowLauncherException, "ValueError: host not found (distributed/run.py:918)"},
	} {
		for _, front := range []string{"", "{job 7} ", "train-0 pytorch ", "2026-11-21T03:00:00.123456789Z stderr F "} {
			log := strings.ReplaceAll(front+strings.ReplaceAll(strings.TrimSuffix(c.log, "\n"), "\n", "\n"+front), "  \n", "\n") + "\n"
			found := scan(t, "job.log", log)
			if len(found) == 0 || found[0].Row != c.row || !strings.HasPrefix(found[0].Text, c.text) || found[0].Severity != SeverityCause {
				t.Errorf("%s behind %q: want %s, got %+v", c.name, front, c.row, found)
			}
		}
	}
}

// TestMessageOfAnException shows which lines are of an exception's message.
func TestMessageOfAnException(t *testing.T) {
	const frame = "Traceback (most recent call last):\n  File \"/data/train.py\", line 41, in <module>\n    main()\n"
	const agent = "[2026-01-19 08:22:11,031] torch.distributed.elastic.multiprocessing.api: [WARNING] Sending process 6548 closing signal SIGTERM\n"
	for _, c := range []struct{ name, log, text string }{
		{"no message", frame + "AssertionError\n12:00:01 trainer - ERROR - the child ended with 1\n", "AssertionError (data/train.py:41)"},
		{"a message in the next line", frame + "ValueError: \nthe sizes differ\n", "ValueError: the sizes differ (data/train.py:41)"},
		{"a message in several parts", frame + "RuntimeError: the graph failed, \nerror: the task failed: \nno memory\nsee the manual\n", "RuntimeError: the graph failed, error: the task failed: no memory (data/train.py:41)"},
		{"another writer between", "[INFO] worker - Traceback (most recent call last):\n[INFO] worker -   File \"/data/train.py\", line 41, in <module>\n[WARN] pool - a worker is slow\njava.lang.InterruptedException\n\tat Pool.run\n[INFO] worker -     main()\n[INFO] worker - KeyError: 'x'\n[INFO] pool - retry in 1 s\n", "KeyError: 'x' (data/train.py:41)"},
		{"the last error of NCCL", frame + "torch.distributed.DistBackendError: NCCL error in: P.cpp:1, internal error, NCCL version 2.18.6\nncclInternalError: Internal check failed.\nLast error:\nno bus of the adapter\n", "torch.distributed.DistBackendError: NCCL error in: P.cpp:1, internal error, NCCL version 2.18.6: no bus of the adapter (data/train.py:41)"},
		{"a code", "Traceback (most recent call last):\n  File \"/data/train.py\", line 41, in <module>\nlib.Error: LIB_ERR_BACKEND\n", "lib.Error: LIB_ERR_BACKEND (data/train.py:41)"},
		{"then a launcher's line", frame + "RuntimeError: no accumulator\n" + agent, "RuntimeError: no accumulator (data/train.py:41)"},
		{"the reason comes with the next of the chain", frame + "TimeoutError\n\nThe above exception was the direct cause of the following exception:\n\n" + frame + "TimeoutError: the call of step timed out\n", "TimeoutError (data/train.py:41): TimeoutError: the call of step timed out"},
		{"a type of C++ in a stack", frame + "RuntimeError: sizes differ\n1  0x7f lib::run(int, std::optional<int>) + 1102\n", "RuntimeError: sizes differ (data/train.py:41)"},
		{"an advice of the next exception", frame + "TypeError: no iterator\n\nTrainingFailedError: the run failed.\nYou can continue this run\n", "TypeError: no iterator (data/train.py:41)"},
		{"without indentation", "Traceback (most recent call last):\nFile \"/data/train.py\", line 41, in <module>\nmain()\nRuntimeError: setup failed!\n", "RuntimeError: setup failed! (data/train.py:41)"},
		{"behind a logger's front", "12:00:00 run - INFO - [rank7]: Traceback (most recent call last):\n12:00:00 run - INFO - [rank7]:   File \"/data/train.py\", line 41, in <module>\n12:00:00 run - INFO - [rank7]: KeyError: 'x'\n", "KeyError: 'x' (data/train.py:41)"},
	} {
		if found := scan(t, "job.log", c.log); len(found) == 0 || found[0].Text != c.text || found[0].Severity != SeverityCause {
			t.Errorf("%s: %+v, want %q", c.name, found, c.text)
		}
	}
}

// TestHandledErrorIsDoubtful shows that an error is doubtful if more output follows it
// and no other line shows a failure.
func TestHandledErrorIsDoubtful(t *testing.T) {
	const caught = "Traceback (most recent call last):\n  File \"a.py\", line 3, in load\nFileNotFoundError: cache.json\n"
	const elastic = "E1121 03:10:01.000000 1 torch/distributed/elastic/multiprocessing/api.py:870] failed (exitcode: 1) local_rank: 2 (pid: 102) of binary: python\n"
	for _, c := range []struct {
		name, log string
		doubtful  bool
	}{
		{"more output", caught + "rebuilding\nepoch 1\n", true},
		{"the last line", "epoch 1\n" + caught, false},
		{"a chain of the last lines", caught + "\nDuring handling of the above exception, another exception occurred:\n\n" + caught, false},
		{"an exit code", caught + "rebuilding\n" + elastic, false},
		{"a peer that lost it", caught + "syncing\n" + "[rank0]: RuntimeError: [gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.0.0.2]:1111\n", false},
		{"another one that was the last", caught + "rebuilding\n" + strings.ReplaceAll(caught, "cache", "data"), false},
		{"an abort", caught + "rebuilding\nterminate called after throwing an instance of 'std::runtime_error'\n", false},
	} {
		found := scan(t, "job.log", c.log)
		if len(found) == 0 || found[0].Doubtful != c.doubtful {
			t.Errorf("%s: want doubtful %v, got %+v", c.name, c.doubtful, found)
		}
	}
}

// TestEndWithoutStderr shows that a worker without output on standard error has a row
// of its own, which points to its stdout.
func TestEndWithoutStderr(t *testing.T) {
	const fields = "Root Cause (first observed failure):\n[0]:\n  time      : 2026-11-21_16:39:58\n  host      : node2\n%s  rank      : 3 (local_rank: 1)\n  exitcode  : 1 (pid: 78973)\n  error_file: <N/A>\n%s" +
		"============================================================\n"
	const last = "gorun: rank 3 on node2 (10.0.0.2), pid 78973 exited with code 1; exit code 1\n"
	const node, words = "  node      : 1 (10.0.0.2)\n", "  stderr    : loading\n"
	for _, c := range []struct{ name, log, row string }{
		{"gorun's report", fmt.Sprintf(fields, "", "") + node + last, catalogue.RowNoStderr},
		{"gorun's report with stderr", fmt.Sprintf(fields, "", "") + node + words + last, catalogue.RowLastLine},
		{"torchrun's report", fmt.Sprintf(fields, "", "") + "next job\n", catalogue.RowNoReason},
	} {
		if found := scan(t, "job.log", c.log); len(found) != 1 || found[0].Row != c.row || found[0].blamed() != "rank 3 on node2" {
			t.Errorf("%s: want %s, got %+v", c.name, c.row, found)
		}
	}
	for tail, row := range map[string]string{"": catalogue.RowNoStderr, "loading": catalogue.RowLastLine} {
		s := NewScanner()
		s.ReadStderr(3, 1, "node2", tail)
		s.RecordEnd(78973, 1)
		if found := s.Findings(); len(found) != 1 || found[0].Row != row {
			t.Errorf("%q: want %s, got %+v", tail, row, found)
		}
	}
}

func TestBinaryLogsAreNamed(t *testing.T) {
	for text, want := range map[string]bool{
		"":         false,
		"step 1\n": false,
		strings.Repeat("\x00", 9000) + "\x1b[31mloss\x1b[0m 2\r 10%|██   |\n": false,
		"épreuve, 试验: \xff\xfe\n":                                             false,
		"\x7fELF\x02\x01\x01" + strings.Repeat("\x00\x03\x00\x10text", 2000):  true,
		strings.Repeat("s\x00t\x00e\x00p\x00", 100):                           true,
		randomBytes(9000): true,
	} {
		s := NewScanner()
		if err := s.Read(t.Context(), LogOf("core"), strings.NewReader(text)); err != nil {
			t.Fatal(err)
		}
		if got := len(s.NotText()) == 1; got != want {
			t.Errorf("%.20q: %v, want %v", text, got, want)
		}
	}
}

// TestLastLineIsTheReason shows that a worker's last line on standard error is the
// reason of its exit code, in the worker's output and in gorun's report.
func TestLastLineIsTheReason(t *testing.T) {
	t.Parallel()
	const fields = "Root Cause (first observed failure):\n[0]:\n  time      : 2026-11-21_16:39:58\n  host      : node2\n" +
		"  rank      : 3 (local_rank: 1)\n  exitcode  : 1 (pid: 78973)\n============================================================\n" +
		"  node      : 1 (10.0.0.2)\n  logs      : /x/stdout.log, /x/stderr.log\n  stderr    : %s\ngorun: rank 3 on node2 (10.0.0.2), pid 78973 exited with code 1; exit code 1\n"
	for _, c := range []struct{ name, tail, id, row, text string }{
		{"Go's log.Fatal", "starting\n2026/11/22 13:47:12 cannot open shard 7", "X-ERROR", catalogue.RowLogged, "cannot open shard 7"},
		{"sys.exit", "dataset /data/x is empty", "X-PYEXC", catalogue.RowLastLine, "dataset /data/x is empty"},
		{"argparse", "usage: args.py [-h] --lr LR\nargs.py: error: the following arguments are required: --lr", "X-ARGS", "x60", "args.py: error: the following arguments are required: --lr"},
		{"a module", "Traceback (most recent call last):\n  File \"mod.py\", line 1, in <module>\nModuleNotFoundError: No module named 'x'", "X-MODULE", catalogue.RowNoModule, "ModuleNotFoundError: No module named 'x' (mod.py:1)"},
		{"a module by -m", "/usr/bin/python3: No module named train", "X-MODULE", catalogue.RowNoModule, "/usr/bin/python3: No module named train"},
		{"an exception", "Traceback (most recent call last):\n  File \"t.py\", line 1, in <module>\nKeyError: 'lr'\ndone", "X-PYEXC", catalogue.RowException, "KeyError: 'lr' (t.py:1)"},
	} {
		s := NewScanner()
		s.ReadStderr(3, 1, "node2", c.tail)
		s.RecordEnd(78973, 1)
		for where, found := range map[string][]Finding{
			"stderr": s.Findings(),
			"report": scan(t, "job.log", fmt.Sprintf(fields, strings.ReplaceAll(c.tail, "\n", "\n    "))),
		} {
			if len(found) == 0 || found[0].ID != c.id || found[0].Row != c.row || !strings.HasSuffix(found[0].Text, c.text) || found[0].Severity != SeverityCause || found[0].Rank != 3 {
				t.Errorf("%s, %s: %+v", c.name, where, found)
			}
		}
	}
}

// randomBytes returns n bytes as compressed files have them.
func randomBytes(n int) string {
	seed := [32]byte{1}
	b := make([]byte, n)
	_, _ = rand.NewChaCha8(seed).Read(b) // never fails
	return string(b)
}

// TestSelfTestIsReportedForOthers checks that the verdict of a self-test blames what it
// names, and never the rank that prints it.
func TestSelfTestIsReportedForOthers(t *testing.T) {
	for verdict, blamed := range map[string]string{
		`"pairs of nodes": node 2 (node3) fails with each partner, and they work with others: rank 4 on node3 not done in time`:                                                         "host node3",
		`"pairs of nodes": node 1 (node2) and node 2 (node3) fail together; each works with others, so it is what connects them: rank 1 on node2 not done in time`:                      "host node2 (peer node3)",
		`"pairs of nodes": node 0 (node1), node 1 (node2) and node 2 (node3) fail together: rank 1 on node2 not done in time`:                                                           "host node1 (peer node3)",
		`"pairs in a node": rank 5 (local rank 1) on node2 and rank 6 (local rank 2) on node2 fail together; each works with others, so it is what connects them: rank 5 on node2 late`: "ranks 5, 6 on node2",
		`"pairs in a node": rank 6 (local rank 2, GPU-1) on node2 fails with each partner, and they work with others: rank 6 on node2 crashed`:                                          "rank 6 on node2",
		`"load": rank 3 (local rank 1) on node1: crashed: signal: killed`:                                                                                                               "rank 3 on node1",
		`"node": rank 1 (local rank 1) on vm: failed: cannot listen for the other ranks: listen tcp 127.0.0.1:23817: bind: address already in use`:                                      "rank 1 on vm",
		`"load": node 1 (node1) has 3 GPUs, others 4`: "host node1",
		`"load": rank 4 (local rank 0) on node2 has NCCL 2.27.3 (/opt/libnccl.so.2), others 2.28.9 (/usr/lib/libnccl.so.2)`:                 "rank 4 on node2",
		`"load": rank 2 and rank 3 on node2 have the same GPU, GPU-2, and NCCL takes one rank for each`:                                     "ranks 2, 3 on node2",
		`"node": the 4 ranks of node 0 (node0) fail together: rank 0 on node0 not done in time`:                                             "host node0",
		`"node": 2 of 2 nodes fail, so it is what they share, the network or a setting: rank 0 on node0 not done in time`:                   "",
		`"ring": all 4 ranks together fail, although the pairs work; first of all rank 3 (local rank 1) on node1: not done in time`:         "",
		`"pairs of nodes": most pairs fail, so it is what they share, the network or a setting: rank 0 on node0 not done in time: deadline`: "",
	} {
		line := "gorun: rank 0 on node9 (10.0.0.9), pid 1145 reported a failure: the self-test failed at the rung " + verdict + "; exit code 1\n"
		found := scan(t, "job.out", line)
		if len(found) != 1 || found[0].ID != "X-SELFTEST" || found[0].blamed() != blamed {
			t.Errorf("%s\nwant %q: %+v", line, blamed, found)
			if len(found) == 1 {
				t.Errorf("got %q", found[0].blamed())
			}
		}
	}
}
