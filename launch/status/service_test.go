package status

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gorun/gorun/launch/board"
	"github.com/gorun/gorun/launch/logs"
	"github.com/gorun/gorun/launch/process"
	"github.com/gorun/gorun/launch/workers"
	"github.com/gorun/gorun/rendezvous"
	"github.com/gorun/gorun/rendezvous/preflight"
)

// TestAbortText checks that a client's text becomes one line of bounded length,
// whatever the client is.
func TestAbortText(t *testing.T) {
	for name, tt := range map[string]struct {
		r    Request
		want string
	}{
		"all":     {Request{User: "ada", Message: "wrong rate"}, "the job was aborted by ada on n1 (10.0.0.1): wrong rate"},
		"nothing": {Request{}, "the job was aborted on n1 (10.0.0.1)"},
		"hostile": {Request{User: "a\x1b[2J", Message: "b\x07\nc"}, "the job was aborted by a?[2J on n1 (10.0.0.1): b? c"},
	} {
		if got := tt.r.AbortText("n1 (10.0.0.1)"); got != tt.want {
			t.Errorf("%s: %q", name, got)
		}
	}
	long := Request{User: strings.Repeat("u", 1<<16), Message: strings.Repeat("m", 1<<16)}
	if n := len(long.AbortText("n1")); n > 2*MaxMessage {
		t.Errorf("%d bytes", n)
	}
}

// exitAfter returns the end of a worker that was started a minute ago.
func exitAfter(code int, sig syscall.Signal, after time.Duration) *process.Exit {
	return &process.Exit{Code: code, Signal: sig, At: time.Now().Add(after - time.Minute)}
}

// TestRankStates checks that each worker's state follows from its end and from gorun's
// stop, and that the node has the state of the worker that needs most attention.
func TestRankStates(t *testing.T) {
	started := time.Now().Add(-time.Minute)
	cause := rendezvous.Cause{Kind: rendezvous.KindExit, Rank: 1, ExitCode: 3}
	for name, c := range map[string]struct {
		all    []workers.Worker
		node   string
		states string
	}{
		"none":      {nil, Idle, ""},
		"running":   {[]workers.Worker{{}, {Exit: exitAfter(0, 0, time.Second)}}, Running, "running done"},
		"done":      {[]workers.Worker{{Exit: exitAfter(0, 0, 0)}}, Done, "done"},
		"one fails": {[]workers.Worker{{Exit: exitAfter(3, 0, 0), Cause: &cause}, {Stopped: true}}, Stopping, "failed stopping"},
		"stopped":   {[]workers.Worker{{Exit: exitAfter(3, 0, 0), Cause: &cause}, {Exit: exitAfter(0, syscall.SIGTERM, 0), Stopped: true}}, Failed, "failed stopped"},
	} {
		for i := range c.all {
			c.all[i].Rank, c.all[i].Started = i, started
		}
		node, ranks := ranksOf(c.all, time.Now())
		var states []string
		for _, r := range ranks {
			states = append(states, r.State)
		}
		if node != c.node || strings.Join(states, " ") != c.states {
			t.Errorf("%s: %s, %v", name, node, states)
		}
	}
	_, ranks := ranksOf([]workers.Worker{{Started: started, Exit: exitAfter(3, 0, 10*time.Second), Cause: &cause}, {Started: started, Exit: exitAfter(0, syscall.SIGKILL, 0)}}, time.Now())
	if r := ranks[0]; r.ExitCode == nil || *r.ExitCode != 3 || r.Message == "" || r.Up < 9000 || r.Up > 11000 {
		t.Errorf("%+v", r)
	}
	if r := ranks[1]; r.ExitCode != nil || r.Signal != "SIGKILL" {
		t.Errorf("%+v", r)
	}
}

// TestServiceReport checks that a report has the findings, and what gorun sees of
// the workers' output.
func TestServiceReport(t *testing.T) {
	s := NewService(ServiceOptions{Started: time.Now().Add(-time.Second), Wait: &sync.WaitGroup{}})
	s.SetFindings([]preflight.Finding{{ID: "V01", Severity: preflight.Warning}, {ID: "V02", Severity: preflight.Note}})
	for range 2 * maxStored {
		s.AddFinding(preflight.Finding{ID: "G01", Severity: preflight.Warning, Text: "hot"})
	}
	dir := t.TempDir()
	console, err := logs.NewConsole(os.Stdout, os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	out, err := logs.Open(logs.WorkerOptions{Dir: filepath.Join(dir, "0"), Console: console})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = out.Close() })
	posted := make(chan []byte, 1)
	s.Report(rendezvous.Node{Version: "v1", PID: 7}, 4, []workers.Worker{{Rank: 3, PID: 8, Started: time.Now(), Output: out}}, func(b []byte) { posted <- b })
	var n NodeReport
	if err := json.Unmarshal(<-posted, &n); err != nil {
		t.Fatal(err)
	}
	if n.Version != "v1" || n.PID != 7 || n.Round != 4 || n.State != Running || n.Up < 1000 || len(n.Findings) != maxFindings || n.Findings[0].ID != "V01" || n.Findings[1].ID != "G01" {
		t.Errorf("%+v", n)
	}
	if len(n.Ranks) != 1 || n.Ranks[0].Rank != 3 || n.Ranks[0].Seen == SeenUnknown {
		t.Errorf("%+v", n.Ranks)
	}
}

// TestReportHasCalls checks that a rank's call is the one in which it has been longest.
func TestReportHasCalls(t *testing.T) {
	now := time.Now()
	calls := []board.Call{
		{Rank: 4, Text: "barrier #1", Since: now.Add(-time.Second)},
		{Rank: 4, Text: "all-reduce #2", Since: now.Add(-time.Minute)},
		{Rank: 5, Text: "of a rank that has ended"},
		{Rank: 99, Text: "of no rank"},
	}
	ranks := []Rank{{Rank: 3, State: Running}, {Rank: 4, State: Running}, {Rank: 5, State: Done}}
	addCalls(ranks, calls, now)
	if r := ranks[1]; r.Call != "all-reduce #2" || r.CallAge != 60_000 || ranks[0].Call != "" || ranks[2].Call != "" {
		t.Errorf("%+v", ranks)
	}
	var b strings.Builder
	status := Status{Nodes: []NodeStatus{{Answered: true, Ranks: append(ranks, Rank{Rank: 6, State: Running, Call: "barrier #7", CallAge: longCallMS - 1})}}}
	if err := status.Table(&b, true); err != nil || !strings.Contains(b.String(), "rank 4: in all-reduce #2 for 1m0s\n") || strings.Contains(b.String(), "barrier") {
		t.Errorf("%v\n%s", err, b.String())
	}
}

// TestServiceCalls checks that a query waits for the view, and that a call that the
// loop does not answer gets an answer, too.
func TestServiceCalls(t *testing.T) {
	calls := make(chan Call, 1)
	s := NewService(ServiceOptions{Call: func(c Call) { calls <- c }})
	replies := make(chan Reply, 1)
	go func() { replies <- s.answer(t.Context(), Request{Type: TypeStatus}) }()
	s.AddQuery(<-calls)
	s.AnswerQueries(rendezvous.Question{}, []byte(`{}`))
	if r := <-replies; string(r.View) != "{}" || r.Error != "" {
		t.Errorf("%+v", r)
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() { replies <- s.answer(ctx, Request{Type: TypeStatus}) }()
	<-calls
	cancel()
	if r := <-replies; r.Error == "" {
		t.Errorf("%+v", r)
	}
}
