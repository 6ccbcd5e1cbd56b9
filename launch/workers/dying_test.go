package workers

import (
	"os"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gorun/gorun/launch/logs"
	"github.com/gorun/gorun/launch/process"
	"github.com/gorun/gorun/rendezvous"
)

// TestDyingWorkerFails checks that a worker whose process is dying has failed, with its
// output, before its process has ended; and that Stop waits for that.
func TestDyingWorkerFails(t *testing.T) {
	for _, after := range []time.Duration{0, 5 * time.Millisecond, dyingTime / 4} {
		t.Run(after.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newTestRound(t, 2)
				b.round.Start()
				b.write(1, "stderr.log", "boom\n")
				p := b.table.Processes()[1]
				b.round.LookAt(5)
				b.round.LookAt(5)
				time.Sleep(after)
				if got := b.events(); len(got) != 0 {
					t.Fatalf("posted while it runs: %+v", got)
				}
				p.Die(-1, syscall.SIGKILL)
				time.Sleep(after + firstLook) // the waits double
				if c := b.failed(); c.Kind != rendezvous.KindSignal || c.Signal != syscall.SIGKILL || c.Rank != 5 || c.PID != 101 || !slices.Equal(c.Tail, []string{"boom"}) {
					t.Errorf("%+v", c)
				}
				if all := b.round.Workers(); all[1].Exit == nil || all[1].Exit.Signal != syscall.SIGKILL || all[1].Cause == nil || all[0].Exit != nil {
					t.Errorf("%+v", all)
				}
				b.table.IgnoresTERM = true
				began := time.Now()
				over, ok := b.round.Stop(process.StopOptions{Grace: time.Minute})
				if took := time.Since(began); !ok || took < time.Minute || len(over.Failures) != 1 || len(over.Ends) != 2 || over.Ends[1].Signal != syscall.SIGKILL {
					t.Errorf("%v after %v: %+v", ok, took, over)
				}
				if all := b.round.Workers(); !all[0].Stopped || all[1].Stopped {
					t.Errorf("stopped: %+v", all)
				}
				b.failed() // nothing else was posted
			})
		})
	}
}

// TestNotDying checks what the end of a connection does not make a failure.
func TestNotDying(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newTestRound(t, 1)
		b.round.Start()
		b.round.LookAt(4)
		b.round.LookAt(99) // no rank of this node
		time.Sleep(2 * dyingTime)
		if got := b.events(); len(got) != 0 {
			t.Errorf("posted while it runs: %+v", got)
		}
		b.round.LookAt(4)
		b.table.Processes()[0].Die(0, 0)
		time.Sleep(2 * dyingTime)
		if got := b.events(); len(got) != 0 {
			t.Errorf("posted while it ends with 0: %+v", got)
		}
		b.table.Processes()[0].End(0, 0)
		if all := b.events(); len(all) != 1 {
			t.Errorf("%+v", all)
		} else if _, done := all[0].(rendezvous.Done); !done {
			t.Errorf("%+v", all[0])
		}
	})
}

// TestWorkerIsLookedAtAgain checks that a look without a result hides no later death.
func TestWorkerIsLookedAtAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newTestRound(t, 1)
		b.round.Start()
		b.round.LookAt(4)
		time.Sleep(2 * dyingTime)
		b.table.Processes()[0].Die(-1, syscall.SIGKILL)
		b.round.LookAt(4)
		time.Sleep(firstLook)
		if c := b.failed(); c.Rank != 4 || c.Signal != syscall.SIGKILL {
			t.Errorf("%+v", c)
		}
	})
}

// TestNoDyingWorkerAfterStop checks that the deaths that a stop brings are no failures.
func TestNoDyingWorkerAfterStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newTestRound(t, 1)
		b.table.IgnoresTERM = true
		b.round.Start()
		b.round.LookAt(4)
		go func() {
			time.Sleep(time.Second / 2)
			b.table.Processes()[0].Die(-1, syscall.SIGTERM)
			b.round.LookAt(4)
		}()
		over, ok := b.round.Stop(process.StopOptions{Grace: time.Minute})
		if got := b.events(); !ok || len(over.Failures) != 0 || len(got) != 0 {
			t.Errorf("%v, %+v, posted %+v", ok, over, got)
		}
	})
}

// TestLookAtAll checks that a worker that is dying before a Stop has failed, and is not
// stopped, although nothing else told the round that it dies.
func TestLookAtAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newTestRound(t, 3)
		b.round.Start()
		b.write(0, "stderr.log", "boom\n")
		b.table.Processes()[0].Die(-1, syscall.SIGSEGV)
		b.table.Processes()[1].End(3, 0)
		if c := b.failed(); c.Rank != 5 {
			t.Errorf("%+v", c)
		}
		b.round.LookAtAll()
		b.round.LookAtAll()
		over, ok := b.round.Stop(process.StopOptions{Grace: time.Minute})
		i := slices.IndexFunc(over.Failures, func(c rendezvous.Cause) bool { return c.Rank == 4 })
		if !ok || len(over.Ends) != 3 || len(over.Failures) != 2 || i < 0 {
			t.Fatalf("%v, %+v", ok, over)
		}
		if c := over.Failures[i]; c.Signal != syscall.SIGSEGV || !slices.Equal(c.Tail, []string{"boom"}) {
			t.Errorf("%+v", c)
		}
		if all := b.round.Workers(); all[0].Stopped || all[1].Stopped || !all[2].Stopped {
			t.Errorf("stopped: %+v", all)
		}
		b.failed() // nothing else was posted
		b.table.Processes()[2].Die(3, 0)
		b.round.LookAtAll() // after the Stop: no failure
		if all := b.round.Workers(); all[2].Cause != nil {
			t.Errorf("%+v", all[2])
		}
	})
}

// TestEndOfOutputIsLookedAt checks that the end of a worker's standard error is enough.
func TestEndOfOutputIsLookedAt(t *testing.T) {
	b := newTestRound(t, 1)
	var ends *os.File
	b.round.opts.Open = func(local int) (*logs.Worker, error) {
		w, err := logs.Open(logs.WorkerOptions{LocalRank: local})
		if err == nil {
			fd, e := syscall.Dup(int(w.Stderr.Fd()))
			if e != nil {
				t.Fatal(e)
			}
			ends = os.NewFile(uintptr(fd), "stderr") // as the worker has it
		}
		return w, err
	}
	posted := make(chan rendezvous.Event, 8)
	b.round.opts.Post = func(e rendezvous.Event) { posted <- e }
	b.round.Start()
	b.table.Processes()[0].Die(3, 0)
	if _, err := ends.WriteString("boom\n"); err != nil {
		t.Fatal(err)
	}
	ends.Close()
	select {
	case e := <-posted:
		if f, ok := e.(rendezvous.Failed); !ok || f.Cause.ExitCode != 3 || !slices.Equal(f.Cause.Tail, []string{"boom"}) {
			t.Errorf("%+v", e)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("no event")
	}
}
