package launch

import (
	"strings"
	"syscall"
	"testing"

	"github.com/gorun/gorun/rendezvous"
)

// The report names the cause, not the loudest rank and not the first one.
func TestExplain(t *testing.T) {
	fell := func(rank int, tail ...string) rendezvous.Cause {
		return rendezvous.Cause{Kind: rendezvous.KindExit, Host: "node1", Rank: rank, LocalRank: rank, PID: 100 + rank, ExitCode: 1, Tail: tail}
	}
	loud := fell(0,
		"node1:100:200 [0] proxy.cc:1458 NCCL WARN [Service thread] Accept failed Resource temporarily unavailable",
		"node1:100:200 [0] proxy.cc:1497 NCCL WARN [Service thread] Could not receive type from localRank 0, res=3, closed=0",
		"Traceback (most recent call last):", `  File "a2a.py", line 3, in <module>`,
		"torch.distributed.DistBackendError: NCCL error in: x.cpp:1, remote process exited or there was a network error")
	quiet := fell(3, "node1:103:203 [0] init.cc:879 NCCL WARN Duplicate GPU detected : rank 2 and rank 3 both on CUDA device 18000")
	killed := fell(1)
	killed.Kind, killed.Signal, killed.ExitCode = rendezvous.KindSignal, syscall.SIGKILL, 0
	crashed := killed
	crashed.Signal = syscall.SIGSEGV
	traced := fell(2)
	traced.Traceback = "Traceback (most recent call last):\n  File \"train.py\", line 9, in main\nKeyError: 'lr'\n"
	lost := rendezvous.Cause{Kind: rendezvous.KindLost, Rank: -1, Host: "node2"}

	for _, c := range []struct {
		name  string
		all   []rendezvous.Cause
		id    string
		rank  int
		words string
	}{
		{"two ranks on one GPU", []rendezvous.Cause{loud, quiet}, "D01", 3, "Duplicate GPU"},
		{"in the other order", []rendezvous.Cause{quiet, loud}, "D01", 3, "Duplicate GPU"},
		{"killed", []rendezvous.Cause{killed, loud}, "X-HOSTOOM", 1, "signal 9"},
		{"crashed", []rendezvous.Cause{loud, crashed}, "X-SEGV", 1, "signal 11"},
		{"only an error file", []rendezvous.Cause{traced}, "X-PYEXC", 2, "train.py:9"},
		{"a silent exit", []rendezvous.Cause{fell(1)}, "X-PYEXC", 1, "code 1"},
	} {
		found := explain(rendezvous.Outcome{Cause: &c.all[0], Failures: c.all})
		if len(found) == 0 || found[0].ID != c.id || found[0].Rank != c.rank || !strings.Contains(found[0].Text, c.words) || found[0].Severity != "cause" {
			t.Errorf("%s: got %+v", c.name, found)
		}
	}
	if found := explain(rendezvous.Outcome{Cause: &loud}); len(found) == 0 || found[0].Severity != "consequence" {
		t.Errorf("only consequences: %+v", found)
	}
	for _, o := range []rendezvous.Outcome{{}, {Cause: &lost}} {
		if found := explain(o); len(found) != 0 {
			t.Errorf("%+v is explained by %+v", o.Cause, found)
		}
	}
}
