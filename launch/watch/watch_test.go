package watch

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gorun/gorun/launch/board"
	"github.com/gorun/gorun/launch/hang"
	"github.com/gorun/gorun/launch/logs"
	"github.com/gorun/gorun/launch/process"
	"github.com/gorun/gorun/launch/status"
	"github.com/gorun/gorun/launch/workers"
)

// start starts a shell and returns its pid. It and its children end with the test.
func start(t testing.TB, script string) int {
	t.Helper()
	cmd := exec.Command("sh", "-c", script)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait()
	})
	return cmd.Process.Pid
}

// noBoard returns a node without a board.
func noBoard() *board.Node { return board.NewNode() }

// TestLooksAtProcesses checks what looks show of programs: of a child that computes too.
func TestLooksAtProcesses(t *testing.T) {
	for name, tt := range map[string]struct {
		script string
		shows  func(l hang.Look) bool
	}{
		"a shell that computes": {"while :; do :; done", func(l hang.Look) bool { return l.Run > 0 && l.Run > l.Idle }},
		"a child that computes": {"sh -c 'while :; do :; done'; :", func(l hang.Look) bool { return l.Run > 0 && l.Run > l.Idle }},
		"a program that sleeps": {"sleep 600", func(l hang.Look) bool { return l.State == 'S' && l.Run*10 < l.Idle }},
		"a stopped program":     {"kill -STOP $$", func(l hang.Look) bool { return l.State == 'T' }},
		"reading and writing":   {"cat /dev/zero >/dev/null; :", func(l hang.Look) bool { return l.Bytes > 1<<20 }},
		"no such process":       {"exit 0", func(l hang.Look) bool { return l.Bytes == 0 && l.Run < time.Second }},
	} {
		t.Run(name, func(t *testing.T) {
			tree := newTree(start(t, tt.script))
			var l hang.Look
			for end := time.Now().Add(30 * time.Second); time.Now().Before(end); {
				began := time.Now()
				time.Sleep(200 * time.Millisecond) // sleep: a look shows what was done meanwhile
				if l = tree.look(time.Since(began)); tt.shows(l) {
					return
				}
			}
			t.Errorf("%+v", l)
		})
	}
}

// TestGoPrograms checks that any thread of a Go program counts, and that a program of
// another language is none.
func TestGoPrograms(t *testing.T) {
	if !isGo(os.Getpid()) || isGo(start(t, "sleep 600")) {
		t.Error("Go programs are not known")
	}
}

// TestNodeSuspects checks that a node suspects that its round hangs soon after its workers
// stopped, and not while one of them computes.
func TestNodeSuspects(t *testing.T) {
	for name, tt := range map[string]struct {
		scripts []string
		want    bool
	}{
		"all sleep":    {[]string{"sleep 600", "sleep 600"}, true},
		"one computes": {[]string{"sleep 600", "while :; do echo; done >/dev/null"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			var all []workers.Worker
			for i, s := range tt.scripts {
				all = append(all, workers.Worker{Rank: 4 + i, PID: start(t, s), Output: &logs.Worker{}})
			}
			n := NewNode(NodeOptions{Timeout: 4 * time.Second, Board: noBoard})
			n.Begin(Round{Number: 3, Workers: func() []workers.Worker { return all }})
			suspected := false
			for end := time.Now().Add(10 * time.Second); time.Now().Before(end) && !suspected; {
				time.Sleep(100 * time.Millisecond) // sleep: between two looks
				_, suspected = n.look(t.Context(), time.Now())
				if !tt.want && time.Until(end) < 5*time.Second {
					break
				}
			}
			if suspected != tt.want && (tt.want || !quiet(t.Context(), n)) {
				t.Errorf("suspected: %v", suspected)
			}
			signs, round := n.Signs(t.Context())
			if len(signs) != 2 || round != 3 || signs[0].Rank != 4 || signs[0].State != "S" {
				t.Errorf("round %d, %+v", round, signs)
			}
			n.End()
			if _, ok := n.look(t.Context(), time.Now().Add(time.Hour)); ok {
				t.Error("a round that has ended is watched")
			}
		})
	}
}

// quiet reports whether the node suspected only because nothing but CPUs was used, which
// asks the collectives and reports nothing.
func quiet(ctx context.Context, n *Node) bool {
	signs, _ := n.Signs(ctx)
	a := hang.Judge(hang.Evidence{Size: len(signs), Signs: signs, Asked: true, Timeout: n.opts.Timeout})
	return a.State == hang.Works
}

// TestEndedWorkers checks the sign of a worker that has ended.
func TestEndedWorkers(t *testing.T) {
	n := NewNode(NodeOptions{Timeout: time.Minute, Board: noBoard})
	n.Begin(Round{Number: 1, Workers: func() []workers.Worker {
		return []workers.Worker{{Rank: 0, PID: 1 << 30, Exit: &process.Exit{}}, {Rank: 1, PID: 1 << 30, Exit: &process.Exit{Code: 1}}}
	}})
	n.look(t.Context(), time.Now())
	if signs, _ := n.Signs(t.Context()); len(signs) != 2 || signs[0].Doing != hang.Ended || signs[1].Doing == hang.Ended {
		t.Errorf("%+v", signs)
	}
}

// FuzzDecodeSigns reads what another node's agent may send.
func FuzzDecodeSigns(f *testing.F) {
	good, _ := json.Marshal(Signs{Round: 1, Signs: []hang.Sign{{Rank: 4, Doing: hang.Waits, Lines: []hang.Line{{Open: &hang.Call{Text: "barrier"}}}}}})
	f.Add(good)
	f.Add([]byte(`{"round":1,"signs":[{"rank":4,"state":"` + strings.Repeat("x", 2000) + `"},{"rank":4},{"rank":-1},{"rank":99}]}`))
	f.Add([]byte(`{"round":1,"signs":[{"rank":5,"doing":"waits","lines":[{"comm":0,"me":-7,"size":-1,"seq":18446744073709551615,"open":{"peer":-9,"waits":"receiver","age_ns":-5}}]}]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		n := status.NodeAnswer{NodeStatus: status.NodeStatus{FirstRank: 4, Workers: 2, Answered: true}, Body: body}
		signs := decodeSigns(n, 1)
		if len(signs) > 2 {
			t.Fatalf("%d signs of 2 workers", len(signs))
		}
		c := hang.NewCase(time.Minute)
		for range 4 {
			a := hang.Judge(hang.Evidence{Size: 2, Signs: signs, Asked: true, Timeout: time.Minute})
			_ = a.Finding.Sentence(hang.Place{})
			if _, err := c.Step(a); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// BenchmarkLook measures what the watch of 8 sleeping workers costs: one look at their
// processes, which is made every 5 s, and one at their calls, every 250 ms.
func BenchmarkLook(b *testing.B) {
	var all []workers.Worker
	for i := range 8 {
		all = append(all, workers.Worker{Rank: i, PID: start(b, "sleep 600"), Output: &logs.Worker{}})
	}
	n := NewNode(NodeOptions{Timeout: 5 * time.Minute, Board: noBoard})
	n.Begin(Round{Workers: func() []workers.Worker { return all }})
	now := time.Now()
	b.Run("processes", func(b *testing.B) {
		for b.Loop() {
			now = now.Add(rarest)
			n.look(b.Context(), now)
		}
	})
	b.Run("calls", func(b *testing.B) {
		for b.Loop() {
			now = now.Add(time.Microsecond)
			n.look(b.Context(), now)
		}
	})
}

// TestInvestigateDoesNotBlock checks that the agent's loop never waits for an inquiry.
func TestInvestigateDoesNotBlock(t *testing.T) {
	q := NewInquiry(InquiryOptions{})
	for i := range 100 {
		q.Investigate(i)
	}
	if got := <-q.wanted; got != 99 {
		t.Error("the round is " + strconv.Itoa(got))
	}
}

// TestLinesOfPrograms checks that a Python program that uses little CPU and goes from line to
// line makes progress, and one that waits at one line makes none.
func TestLinesOfPrograms(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("no Python here")
	}
	for script, moving := range map[string]bool{
		"import time\nwhile True:\n  time.sleep(0.4)\n  time.sleep(0.4)\n  time.sleep(0.4)": true,
		"import time\nwhile True:\n  time.sleep(600)":                                       false,
	} {
		n := NewNode(NodeOptions{Timeout: 3 * time.Second, Board: noBoard})
		w := workers.Worker{PID: start(t, "exec "+python+" -c '"+script+"'"), Output: &logs.Worker{}}
		n.Begin(Round{Workers: func() []workers.Worker { return []workers.Worker{w} }})
		moved, wait := false, 5*time.Second
		if moving {
			wait = 30 * time.Second
		}
		for end := time.Now().Add(wait); time.Now().Before(end) && !moved; {
			time.Sleep(100 * time.Millisecond) // sleep: between two looks
			n.look(t.Context(), time.Now())
			signs, _ := n.Signs(t.Context())
			moved = signs[0].Doing == hang.Goes
		}
		if moved != moving {
			t.Errorf("%q: %v", script, moved)
		}
	}
}

// TestSlowReadingDoesNotBlockAnswers checks that a node says what its workers do, and begins
// and ends rounds, while reading where one of them is takes long.
func TestSlowReadingDoesNotBlockAnswers(t *testing.T) {
	reads, slow := make(chan struct{}), make(chan struct{})
	n := NewNode(NodeOptions{Timeout: time.Second, Board: noBoard, Suspect: func(int) {}})
	n.opts.readLines = func(ctx context.Context, _ int) (string, bool) {
		close(reads)
		<-slow
		return "", false
	}
	n.Begin(Round{Number: 1, Workers: func() []workers.Worker {
		return []workers.Worker{{Rank: 5, PID: start(t, "sleep 600"), Output: &logs.Worker{}}}
	}})
	ctx, cancel := context.WithCancel(t.Context())
	ran := make(chan struct{})
	go func() {
		defer close(ran)
		n.Run(ctx)
	}()
	<-reads
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		if signs, round := n.Signs(ctx); round != 1 || len(signs) != 1 || signs[0].Rank != 5 {
			t.Errorf("round %d: %+v", round, signs)
		}
		n.End()
		n.Begin(Round{Number: 2, Workers: func() []workers.Worker { return nil }})
		if signs, round := n.Signs(ctx); round != 2 || len(signs) != 0 {
			t.Errorf("round %d: %+v", round, signs)
		}
	}()
	select {
	case <-answered:
	case <-time.After(20 * time.Second):
		t.Error("the node does not answer")
	}
	close(slow)
	cancel()
	<-ran
	<-answered
}

// TestSignsLookAfresh checks that a question gets what the workers do now, also between two
// looks at their processes, which are 5 s apart.
func TestSignsLookAfresh(t *testing.T) {
	folder := t.TempDir()
	pid := start(t, "while ! [ -e "+folder+"/go ]; do sleep 0.05; done; while :; do :; done")
	n := NewNode(NodeOptions{Timeout: 5 * time.Minute, Board: noBoard, Suspect: func(int) {}})
	n.Begin(Round{Workers: func() []workers.Worker { return []workers.Worker{{PID: pid, Output: &logs.Worker{}}} }})
	go n.Run(t.Context())
	looks := func() time.Time {
		n.mu.Lock()
		defer n.mu.Unlock()
		return n.last
	}
	first := time.Time{}
	for end := time.Now().Add(20 * time.Second); first.IsZero() && time.Now().Before(end); first = looks() {
		time.Sleep(10 * time.Millisecond) // sleep: until the first look
	}
	if err := os.WriteFile(folder+"/go", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for time.Since(first) < 2*time.Second {
		time.Sleep(100 * time.Millisecond) // sleep: the worker computes meanwhile
	}
	signs, _ := n.Signs(t.Context())
	if len(signs) != 1 || time.Since(first) < rarest && signs[0].Doing != hang.Computes {
		t.Errorf("%+v", signs)
	}
}
