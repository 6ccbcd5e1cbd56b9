package workers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gorun/gorun/internal/environ"
	"github.com/gorun/gorun/launch/logs"
	"github.com/gorun/gorun/launch/place"
	"github.com/gorun/gorun/launch/process"
	"github.com/gorun/gorun/launch/process/processtest"
	"github.com/gorun/gorun/launch/program"
	"github.com/gorun/gorun/rendezvous"
)

// testRound holds a round with fake processes.
type testRound struct {
	t       *testing.T
	table   *processtest.Table[Process]
	round   *Round
	dir     string
	reports map[int]string // by rank: what a worker reports before it ends
	waited  []int          // pids whose devices Release waited for

	mu     sync.Mutex
	posted []rendezvous.Event
}

// newTestRound returns a round of n workers on the second of two nodes.
func newTestRound(t *testing.T, n int) *testRound {
	t.Helper()
	b := &testRound{t: t, table: processtest.NewTable[Process](), dir: t.TempDir(), reports: map[int]string{}}
	files, err := logs.ParseStd("3")
	if err != nil {
		t.Fatal(err)
	}
	b.round = New(Options{
		Table: b.table,
		Plan: &Plan{
			World: rendezvous.World{Round: 7, Size: 4 + n, Members: []rendezvous.Member{
				{ID: "a", Workers: 4}, {ID: "b", Host: "h", Addr: "10.0.0.2", Role: "r", Workers: n, FirstRank: 4},
			}},
			Group: 1, Places: &place.Plan{}, Program: program.Program{Path: "/prog", Argv: func(local int) []string { return []string{"prog", strconv.Itoa(local)} }},
		},
		Open: func(local int) (*logs.Worker, error) {
			return logs.Open(logs.WorkerOptions{LocalRank: local, Dir: b.dir, Redirect: files.For(local)})
		},
		ReportedFailure: func(_ context.Context, rank int) string { return b.reports[rank] },
		Release:         func(_ context.Context, pids []int) { b.waited = pids },
		Post: func(e rendezvous.Event) {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.posted = append(b.posted, e)
		},
	})
	t.Cleanup(func() {
		b.table.StopErr = nil
		b.round.Close()
	})
	return b
}

// write writes what a worker would write to one of its files.
func (b *testRound) write(local int, file, text string) {
	b.t.Helper()
	if err := os.WriteFile(filepath.Join(b.dir, strconv.Itoa(local), file), []byte(text), 0o600); err != nil {
		b.t.Fatal(err)
	}
}

// fill puts a folder in the place of a worker's file.
func (b *testRound) fill(local int, file string) {
	b.t.Helper()
	if err := os.MkdirAll(filepath.Join(b.dir, strconv.Itoa(local), file), 0o700); err != nil {
		b.t.Fatal(err)
	}
}

// events returns the posted events once nothing moves any more.
func (b *testRound) events() []rendezvous.Event {
	synctest.Wait()
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.posted)
}

// failed returns the only event, a Failed.
func (b *testRound) failed() rendezvous.Cause {
	b.t.Helper()
	all := b.events()
	if len(all) != 1 {
		b.t.Fatalf("events: %+v", all)
	}
	f, ok := all[0].(rendezvous.Failed)
	if !ok || f.Round != 7 {
		b.t.Fatalf("event: %+v", all[0])
	}
	return f.Cause
}

const lostPeer = "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:525] Connection closed by peer [127.0.0.1]:40123\n"

func TestRoundIsDoneWhenAllSucceed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newTestRound(t, 2)
		b.round.Start()
		s := b.table.Specs()[1]
		if s.Path != "/prog" || !s.Session || s.Death != syscall.SIGKILL || s.Args[1] != "1" || environ.Get(s.Env, "TORCHELASTIC_ERROR_FILE") != filepath.Join(b.dir, "1", "error.json") {
			t.Errorf("started with %+v", s)
		}
		b.round.Signal(syscall.SIGUSR1)
		if p := b.table.Processes()[1]; !slices.Equal(p.Signals(), []syscall.Signal{syscall.SIGUSR1}) {
			t.Errorf("signals %v", p.Signals())
		}
		b.table.Processes()[1].End(0, 0)
		if got := b.events(); len(got) != 0 {
			t.Fatalf("events while one runs: %+v", got)
		}
		if all := b.round.Workers(); len(all) != 2 || all[0].Exit != nil || all[1].Exit == nil || all[1].PID != 101 || all[1].Rank != 5 || all[1].Stopped {
			t.Errorf("%+v", all)
		}
		b.table.Processes()[0].End(0, 0)
		all := b.events()
		done, ok := all[0].(rendezvous.Done)
		if len(all) != 1 || !ok || done.Round != 7 || len(done.Ends) != 2 || done.Ends[1].Rank != 5 || done.Ends[1].LocalRank != 1 || done.Ends[1].PID != 101 {
			t.Errorf("events: %+v", all)
		}
		b.round.Close() // kills what they left behind
		if got := b.table.Stops(); len(got) != 1 || got[0].Grace != 0 {
			t.Errorf("stops: %+v", got)
		}
	})
}

// TestFailureThenStop checks that a worker's failure is reported once, with its
// place and its last output. The others run on until they are stopped, and what the
// stop does to them is no failure.
func TestFailureThenStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newTestRound(t, 2)
		b.round.Start()
		b.write(1, "stderr.log", "boom\n")
		b.table.Processes()[1].End(9, 0)
		c := b.failed()
		if c.Kind != rendezvous.KindExit || c.ExitCode != 9 || c.Rank != 5 || c.LocalRank != 1 || c.GroupRank != 1 || c.Node != "b" ||
			c.Host != "h" || c.Addr != "10.0.0.2" || c.Role != "r" || c.PID != 101 || !slices.Equal(c.Tail, []string{"boom"}) || c.Consequence {
			t.Errorf("%+v", c)
		}
		over, ok := b.round.Stop(process.StopOptions{Signal: syscall.SIGTERM, Grace: time.Minute})
		if !ok || over.Round != 7 || len(over.Failures) != 1 || over.Failures[0].Rank != 5 || len(over.Ends) != 2 || over.Ends[0].Signal != syscall.SIGTERM {
			t.Errorf("%v, %+v", ok, over)
		}
		if !slices.Equal(b.waited, []int{100, 101}) {
			t.Errorf("waited for the devices of %v", b.waited)
		}
		if all := b.round.Workers(); !all[0].Stopped || all[1].Stopped || all[1].Cause == nil {
			t.Errorf("%+v", all)
		}
		b.failed() // nothing else was posted
	})
}

// TestConsequenceWaitsForItsCause checks that the failure of a worker that lost a peer waits
// for a cause.
func TestConsequenceWaitsForItsCause(t *testing.T) {
	tests := map[string]struct {
		then func(b *testRound)
		rank int // rank of the posted failure; -1: none is posted
		took time.Duration
	}{
		"the peer fails a little later": {func(b *testRound) { time.Sleep(peerWait / 2); b.table.Processes()[1].End(3, 0) }, 5, peerWait / 2},
		"no peer fails":                 {func(*testRound) { time.Sleep(peerWait) }, 4, peerWait},
		"the round is stopped":          {func(b *testRound) { b.round.Stop(process.StopOptions{Grace: time.Minute}) }, -1, 0},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newTestRound(t, 2)
				b.round.Start()
				b.write(0, "stderr.log", lostPeer)
				began := time.Now()
				b.table.Processes()[0].End(1, 0)
				if got := b.events(); len(got) != 0 {
					t.Fatalf("posted at once: %+v", got)
				}
				tt.then(b)
				if tt.rank < 0 {
					if got := b.events(); len(got) != 0 {
						t.Errorf("posted: %+v", got)
					}
				} else if c := b.failed(); c.Rank != tt.rank || c.Consequence != (tt.rank == 4) {
					t.Errorf("%+v", c)
				}
				if took := time.Since(began); took > tt.took+10*time.Millisecond {
					t.Errorf("after %v, want %v", took, tt.took)
				}
			})
		})
	}
}

// TestFindCause checks that a worker's report and its error file win over its exit
// code, and that a signal wins over its report.
func TestFindCause(t *testing.T) {
	tests := map[string]struct {
		prepare func(b *testRound)
		code    int
		signal  syscall.Signal
		kind    rendezvous.Kind
		message string
	}{
		"a report":             {func(b *testRound) { b.reports[4] = "loss is NaN" }, 3, 0, rendezvous.KindReport, "loss is NaN"},
		"a report and a crash": {func(b *testRound) { b.reports[4] = "loss is NaN" }, -1, syscall.SIGSEGV, rendezvous.KindSignal, ""},
		"out of memory":        {func(*testRound) {}, -1, syscall.SIGKILL, rendezvous.KindSignal, ""},
		"an error file": {func(b *testRound) {
			b.write(0, "error.json", `{"message":{"message":"ValueError: x","extraInfo":{"py_callstack":"Traceback","timestamp":"1700000000"}}}`)
		}, 1, 0, rendezvous.KindExit, "ValueError: x"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newTestRound(t, 1)
				b.round.Start()
				tt.prepare(b)
				b.table.Processes()[0].End(tt.code, tt.signal)
				if c := b.failed(); c.Kind != tt.kind || c.Message != tt.message || c.Signal != tt.signal {
					t.Errorf("%+v", c)
				}
			})
		})
	}
}

// refuseFrom returns a Refuse for this process and all later ones.
func refuseFrom(first int) func(int) error {
	return func(i int) error {
		if i >= first {
			return os.ErrPermission
		}
		return nil
	}
}

// TestFailedStartEndsTheRound checks that a failed start is the round's failure, whatever the
// others do.
func TestFailedStartEndsTheRound(t *testing.T) {
	tests := map[string]struct {
		prepare func(b *testRound)
		started int
		code    int
	}{
		"the second process":  {func(b *testRound) { b.table.Refuse = refuseFrom(1) }, 1, 126},
		"the first process":   {func(b *testRound) { b.table.Refuse = refuseFrom(0) }, 0, 126},
		"the second's output": {func(b *testRound) { b.fill(1, "stderr.log") }, 0, 1},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newTestRound(t, 3)
				tt.prepare(b)
				b.round.Start()
				if c := b.failed(); c.Kind != rendezvous.KindStart || c.ExitCode != tt.code || c.Rank != -1 || c.GroupRank != 1 {
					t.Errorf("%+v", c)
				}
				for _, p := range b.table.Processes() {
					p.End(0, 0)
				}
				b.failed() // no Done
				if over, ok := b.round.Stop(process.StopOptions{Grace: time.Minute}); !ok || len(over.Ends) != tt.started {
					t.Errorf("%v, %+v", ok, over)
				}
			})
		})
	}
}

// TestRoundStartsOnce checks that a round starts only once.
func TestRoundStartsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newTestRound(t, 1)
		b.round.Start()
		b.round.Start()
		if c := b.failed(); len(b.table.Processes()) != 1 {
			t.Errorf("%d processes, %+v", len(b.table.Processes()), c)
		}
	})
}

// TestSecondStopShortensTheFirst checks that a second Stop shortens the first, and that only the
// first one reports.
func TestSecondStopShortensTheFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newTestRound(t, 1)
		b.table.IgnoresTERM = true
		b.round.Start()
		began, first := time.Now(), make(chan rendezvous.Over)
		go func() {
			over, _ := b.round.Stop(process.StopOptions{Grace: time.Hour})
			first <- over
		}()
		time.Sleep(time.Second)
		b.round.SkipDeviceWait()
		if _, ok := b.round.Stop(process.StopOptions{}); ok {
			t.Error("the second stop reports")
		}
		over := <-first
		if took := time.Since(began); took > 2*time.Second || len(over.Ends) != 1 || over.Ends[0].Signal != syscall.SIGKILL || len(over.Failures) != 0 {
			t.Errorf("after %v: %+v", took, over)
		}
		if b.waited != nil {
			t.Errorf("it did not skip the wait for the devices of %v", b.waited)
		}
		if got := b.events(); len(got) != 0 {
			t.Errorf("posted: %+v", got)
		}
	})
}

// TestProcessThatCannotEndIsAFailure checks that a process that cannot be ended is a failure of the
// agent, and is not awaited.
func TestProcessThatCannotEndIsAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newTestRound(t, 1)
		b.table.StopErr = errors.New("cannot end process 100")
		b.round.Start()
		over, ok := b.round.Stop(process.StopOptions{Grace: time.Minute})
		if !ok || len(over.Ends) != 0 || len(over.Failures) != 1 || over.Failures[0].Kind != rendezvous.KindAgent || over.Failures[0].Message != "cannot end process 100" {
			t.Errorf("%v, %+v", ok, over)
		}
	})
}

// TestStoppedWorkerExplainsAFailure checks that a stopped worker is a witness if its output explained
// the failure of another worker. What it writes after the stop explains nothing.
func TestStoppedWorkerExplainsAFailure(t *testing.T) {
	const shared = "n1:77:88 [0] init.cc:943 NCCL WARN Duplicate GPU detected : rank 0 and rank 1 both on CUDA device 1000\n"
	synctest.Test(t, func(t *testing.T) {
		b := newTestRound(t, 5)
		b.round.Start()
		for _, local := range []int{1, 2, 3} {
			b.write(local, "stderr.log", shared)
		}
		b.write(4, "stderr.log", "hello\n")
		b.table.Processes()[0].End(1, 0)
		b.failed()
		over, _ := b.round.Stop(process.StopOptions{Grace: time.Minute})
		var ranks []int
		for _, c := range over.Failures {
			if c.Kind == rendezvous.KindWitness {
				ranks = append(ranks, c.Rank)
			}
		}
		if len(over.Failures) != 3 || !slices.Equal(ranks, []int{5, 6}) {
			t.Errorf("witnesses %v of %+v", ranks, over.Failures)
		}
	})
}

// TestReportOrDeviceFailsTheRound checks that a worker's own report, or an error of a device,
// fails a round in which every worker runs.
func TestReportOrDeviceFailsTheRound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newTestRound(t, 1)
		b.round.Start()
		b.round.FailWorker(99, "from no worker")
		b.write(0, "stderr.log", "words\n")
		if !b.round.FailDevice(4, "Xid 79") {
			t.Error("the round is not being stopped")
		}
		if c := b.failed(); c.Kind != rendezvous.KindGPU || c.Message != "Xid 79" || c.Rank != 4 || !slices.Equal(c.Tail, []string{"words"}) {
			t.Errorf("%+v", c)
		}
		b.round.FailWorker(4, "later")
		over, _ := b.round.Stop(process.StopOptions{Grace: time.Minute})
		if len(over.Failures) != 1 || over.Failures[0].Kind != rendezvous.KindGPU {
			t.Errorf("%+v", over.Failures)
		}
		if b.round.FailDevice(-1, "Xid 79") {
			t.Error("the round was stopped")
		}
		b.failed() // it was reported once
	})
}

// TestReportAfterDone checks that a worker that reports a failure and ends with
// exit code 0 has failed, even if its end is known first.
func TestReportAfterDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newTestRound(t, 1)
		b.round.Start()
		b.table.Processes()[0].End(0, 0)
		b.events()
		b.round.FailWorker(4, "loss is NaN")
		all := b.events()
		if f, ok := all[len(all)-1].(rendezvous.Failed); len(all) != 2 || !ok || f.Cause.Kind != rendezvous.KindReport || f.Cause.ExitCode != 1 {
			t.Errorf("%+v", all)
		}
	})
}

// TestRoundOfRealProcesses checks a round of real processes: one fails; after Stop the
// other and its leftovers have ended, and all their output is kept.
func TestRoundOfRealProcesses(t *testing.T) {
	table, err := process.Open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(table.Close)
	dir, files := t.TempDir(), logs.StdSpec{}
	if files, err = logs.ParseStd("3"); err != nil {
		t.Fatal(err)
	}
	events := make(chan rendezvous.Event, 8)
	scripts := []string{"sleep 1000 & echo $! >&2; wait", "echo boom >&2; exit 3"}
	r := New(Options{
		Table: Processes(table),
		Plan: &Plan{
			World:   rendezvous.World{Size: 2, Members: []rendezvous.Member{{Workers: 2}}},
			Program: program.Program{Path: "/bin/sh", Argv: func(local int) []string { return []string{"sh", "-c", scripts[local]} }},
			Places:  &place.Plan{},
		},
		Open: func(local int) (*logs.Worker, error) {
			return logs.Open(logs.WorkerOptions{LocalRank: local, Dir: dir, Tee: files.For(local)})
		},
		ReportedFailure: func(context.Context, int) string { return "" },
		Post:            func(e rendezvous.Event) { events <- e },
	})
	r.Start()
	select {
	case e := <-events:
		if f, ok := e.(rendezvous.Failed); !ok || f.Cause.ExitCode != 3 || f.Cause.Rank != 1 || !slices.Equal(f.Cause.Tail, []string{"boom"}) {
			t.Errorf("%+v", e)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("no event")
	}
	over, ok := r.Stop(process.StopOptions{Grace: 20 * time.Second})
	if !ok || len(over.Ends) != 2 || len(over.Failures) != 1 {
		t.Errorf("%v, %+v", ok, over)
	}
	text, err := os.ReadFile(filepath.Join(dir, "0", "stderr.log"))
	if err != nil {
		t.Fatal(err)
	}
	if pid, err := strconv.Atoi(strings.TrimSpace(string(text))); err == nil && syscall.Kill(pid, 0) != syscall.ESRCH {
		t.Errorf("process %d is left", pid)
	}
	r.Close()
	if len(events) > 0 {
		t.Errorf("%+v", <-events)
	}
}

// TestFirstFailureIsPosted checks that of several failures the first one is posted, also
// when its cause is found last: by the times in the error files, then by the ends.
func TestFirstFailureIsPosted(t *testing.T) {
	const raised = `{"message": {"message": "ValueError: x", "extraInfo": {"py_callstack": "Traceback", "timestamp": "%d"}}}`
	for _, tt := range []struct {
		name   string
		write  func(b *testRound)
		signal syscall.Signal // that ends the first
		want   int
	}{
		{"the first end", func(*testRound) {}, 0, 4},
		{"the same second", func(b *testRound) {
			b.write(0, "error.json", fmt.Sprintf(raised, 1605774851))
			b.write(1, "error.json", fmt.Sprintf(raised, 1605774851))
		}, 0, 4},
		{"the first exception", func(b *testRound) {
			b.write(0, "error.json", fmt.Sprintf(raised, 1605774852))
			b.write(1, "error.json", fmt.Sprintf(raised, 1605774851))
		}, 0, 5},
		{"no consequence", func(b *testRound) { b.write(0, "stderr.log", lostPeer) }, 0, 5},
		{"no broken pipe", func(*testRound) {}, syscall.SIGPIPE, 5},
		{"no closed connection", func(b *testRound) { b.write(0, "stderr.log", "write: Broken pipe\n") }, 0, 5},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newTestRound(t, 2)
				b.round.opts.ReportedFailure = func(ctx context.Context, rank int) string {
					if rank == 4 {
						<-ctx.Done()
					}
					return ""
				}
				b.round.Start()
				tt.write(b)
				b.table.Processes()[0].End(1, tt.signal)
				b.table.Processes()[1].End(1, 0)
				time.Sleep(reportTime)
				if c := b.failed(); c.Rank != tt.want {
					t.Errorf("rank %d, want %d", c.Rank, tt.want)
				}
			})
		})
	}
}

// TestSiblingsMayFail checks that a stop after the failure of a Python worker leaves the
// node's others 100 ms to fail too, and that all other stops begin at once.
func TestSiblingsMayFail(t *testing.T) {
	for _, tt := range []struct {
		name        string
		interpreter string
		signal      syscall.Signal
		grace       time.Duration
		want        int // failures
	}{
		{"Python", "/usr/bin/python3", 0, time.Minute, 2},
		{"Python, a signal", "/usr/bin/python3", syscall.SIGSEGV, time.Minute, 2},
		{"another program", "", 0, time.Minute, 1},
		{"no grace", "/usr/bin/python3", 0, 0, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newTestRound(t, 3)
				b.round.opts.Plan.Program.Interpreter = tt.interpreter
				b.round.Start()
				code := 1
				if tt.signal != 0 {
					code = -1
				}
				b.table.Processes()[1].End(code, tt.signal)
				if c := b.failed(); c.Rank != 5 {
					t.Errorf("%+v", c)
				}
				var wg sync.WaitGroup
				defer wg.Wait()
				wg.Go(func() {
					time.Sleep(50 * time.Millisecond)
					b.table.Processes()[0].End(2, 0)
				})
				began := time.Now()
				over, ok := b.round.Stop(process.StopOptions{Signal: syscall.SIGTERM, Grace: tt.grace})
				if !ok || len(over.Failures) != tt.want {
					t.Fatalf("%v, %d failures, want %d: %+v", ok, len(over.Failures), tt.want, over.Failures)
				}
				if last := over.Failures[tt.want-1]; last.Rank != 5 || tt.want == 2 && (over.Failures[0].Rank != 4 || over.Failures[0].ExitCode != 2) {
					t.Errorf("%+v", over.Failures)
				}
				if took := time.Since(began); tt.want == 2 && took < 90*time.Millisecond || tt.want == 1 && took > 10*time.Millisecond {
					t.Errorf("the stop took %v", took)
				}
			})
		})
	}
}

// A worker fails, and while its cause is being found, the last of the others succeeds.
func TestSuccessBesideAFailureIsNotDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newTestRound(t, 2)
		found := make(chan struct{})
		b.round.opts.ReportedFailure = func(context.Context, int) string {
			<-found
			return ""
		}
		b.round.Start()
		b.table.Processes()[0].End(1, 0)
		synctest.Wait()
		b.table.Processes()[1].End(0, 0)
		if got := b.events(); len(got) != 0 {
			t.Errorf("events before the cause is known: %+v", got)
		}
		close(found)
		if c := b.failed(); c.Rank != 4 || c.ExitCode != 1 {
			t.Errorf("cause: %+v", c)
		}
	})
}
