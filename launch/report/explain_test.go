package report

import (
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gorun/gorun/rendezvous"
)

// TestExplainNamesTheCause checks that the report names the cause, not the rank with
// the most output and not the first one.
func TestExplainNamesTheCause(t *testing.T) {
	failure := func(rank int, tail ...string) rendezvous.Cause {
		return rendezvous.Cause{Kind: rendezvous.KindExit, Host: "node1", Rank: rank, LocalRank: rank, PID: 100 + rank, ExitCode: 1, Tail: tail}
	}
	loud := failure(0,
		"node1:100:200 [0] proxy.cc:1458 NCCL WARN [Service thread] Accept failed Resource temporarily unavailable",
		"node1:100:200 [0] proxy.cc:1497 NCCL WARN [Service thread] Could not receive type from localRank 0, res=3, closed=0",
		"Traceback (most recent call last):", `  File "a2a.py", line 3, in <module>`,
		"torch.distributed.DistBackendError: NCCL error in: x.cpp:1, remote process exited or there was a network error")
	quiet := failure(3, "node1:103:203 [0] init.cc:879 NCCL WARN Duplicate GPU detected : rank 2 and rank 3 both on CUDA device 18000")
	killed := failure(1)
	killed.Kind, killed.Signal, killed.ExitCode = rendezvous.KindSignal, syscall.SIGKILL, 0
	crashed := killed
	crashed.Signal = syscall.SIGSEGV
	traced := failure(2)
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
		{"a silent exit", []rendezvous.Cause{failure(1)}, "X-PYEXC", 1, "code 1"},
	} {
		found := Explain(rendezvous.Outcome{Cause: &c.all[0], Failures: c.all})
		if len(found) == 0 || found[0].ID != c.id || found[0].Rank != c.rank || !strings.Contains(found[0].Text, c.words) || found[0].Severity != "cause" {
			t.Errorf("%s: got %+v", c.name, found)
		}
	}
	if found := Explain(rendezvous.Outcome{Cause: &loud}); len(found) == 0 || found[0].Severity != "consequence" {
		t.Errorf("only consequences: %+v", found)
	}
	for _, o := range []rendezvous.Outcome{{}, {Cause: &lost}} {
		if found := Explain(o); len(found) != 0 {
			t.Errorf("%+v is explained by %+v", o.Cause, found)
		}
	}
}

// TestEarlyExitIsTheCause checks that a worker that ended with 0 while others needed it is
// to blame if no other worker is.
func TestEarlyExitIsTheCause(t *testing.T) {
	t.Parallel()
	now := time.Now()
	lost := rendezvous.Cause{
		Kind: rendezvous.KindExit, Host: "node2", Rank: 2, PID: 102, ExitCode: 1, Consequence: true, Time: now,
		Tail: []string{"RuntimeError: [gloo/transport/tcp/pair.cc:589] Read error [10.0.0.1]:42910: Connection reset by peer"},
	}
	end := func(rank, code int, ago time.Duration) rendezvous.End {
		return rendezvous.End{Rank: rank, PID: 100 + rank, ExitCode: code, Ended: now.Add(-ago)}
	}
	world := rendezvous.World{Members: []rendezvous.Member{
		{Host: "node1", Workers: 2}, {Host: "node2", Workers: 2, FirstRank: 2},
	}}
	other := lost
	other.Consequence, other.Tail = false, []string{"Traceback (most recent call last):", `  File "t.py", line 1, in f`, "KeyError: 'lr'"}
	for name, c := range map[string]struct {
		cause rendezvous.Cause
		ends  []rendezvous.End
		ranks []int
		host  string
	}{
		"one":           {lost, []rendezvous.End{end(1, 0, time.Second), end(2, 1, 0), end(3, 0, -time.Second)}, []int{1}, "node1"},
		"two":           {lost, []rendezvous.End{end(3, 0, time.Second), end(0, 0, time.Second)}, []int{0, 3}, ""},
		"stopped":       {lost, []rendezvous.End{end(0, 0, -time.Second)}, nil, ""},
		"failed":        {lost, []rendezvous.End{end(0, 1, time.Second)}, nil, ""},
		"another cause": {other, []rendezvous.End{end(0, 0, time.Second)}, nil, ""},
	} {
		o := rendezvous.Outcome{Cause: &c.cause, Rounds: []rendezvous.Record{{World: world, Ends: c.ends}}}
		found := Explain(o)
		if early := len(found) > 0 && found[0].ID == "X-PEER-EXITED"; early != (c.ranks != nil) {
			t.Errorf("%s: %+v", name, found)
		} else if early && (!slices.Equal(found[0].Ranks, c.ranks) || found[0].Host != c.host || found[0].Severity != "cause") {
			t.Errorf("%s: %+v, want ranks %v on %q", name, found[0], c.ranks, c.host)
		}
	}
}

// TestFixNamesTheInterpreter checks that the report names the interpreter that did not
// find a module.
func TestFixNamesTheInterpreter(t *testing.T) {
	t.Parallel()
	c := rendezvous.Cause{
		Kind: rendezvous.KindExit, Rank: 1, ExitCode: 1, Interpreter: "/opt/py/bin/python3",
		Tail: []string{"Traceback (most recent call last):", `  File "t.py", line 1, in <module>`, "ModuleNotFoundError: No module named 'torch'"},
	}
	found := Explain(rendezvous.Outcome{Cause: &c})
	if len(found) == 0 || found[0].ID != "X-MODULE" || !strings.Contains(found[0].Fix, c.Interpreter) || !strings.Contains(found[0].Fix, "PYTHON_EXEC=") {
		t.Errorf("%+v", found)
	}
}
