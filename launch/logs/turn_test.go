package logs

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// another opens a file of turns as another process would.
func another(t *testing.T, path string) *os.File {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// newTurn is another process's; the caller has its lock.
func newTurn(t *testing.T, path string) *turn {
	t.Helper()
	held := make(chan struct{}, 1)
	held <- struct{}{}
	return &turn{file: another(t, path), lock: held}
}

func TestTurnsKeepProcessesApart(t *testing.T) {
	for name, connect := range map[string]func() (r, w *os.File, err error){
		"pipe":              openPipe,
		"non-blocking pipe": os.Pipe,
		"terminal":          openPTY,
	} {
		t.Run(name, func(t *testing.T) {
			r, w, err := connect()
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			defer w.Close()
			const processes, lines = 4, 100
			path := t.TempDir() + "/turns"
			var wg sync.WaitGroup
			for i := range processes {
				c := newCapture(t, w, w) // its own locks, as in another process
				c.TakeTurns(another(t, path))
				remarks := c.Remarks(nil)
				line := []byte(strings.Repeat(fmt.Sprint(i), 9_999) + "\n")
				for _, write := range []func(){
					func() { c.stdout.write(line, nil) },
					func() { c.stderr.write(line, nil) },
					func() { _, _ = remarks.Write(line) },
					func() { _ = c.Print(line) },
				} {
					wg.Go(func() {
						for range lines {
							write()
						}
					})
				}
			}
			in := bufio.NewReader(r)
			for range processes * 4 * lines {
				text, err := in.ReadString('\n')
				if err != nil {
					t.Fatal(err)
				}
				text = strings.TrimSuffix(text, "\n")
				if len(text) != 9_999 || strings.Trim(text, text[:1]) != "" {
					t.Fatalf("torn: %d bytes, %.20q", len(text), strings.Trim(text, text[:1]))
				}
			}
			wg.Wait()
		})
	}
}

// Who has just written is not before those who wait: else one loud agent is all
// that is heard.
func TestTurnsAreInOrder(t *testing.T) {
	path := t.TempDir() + "/turns"
	loud, other, look := newTurn(t, path), newTurn(t, path), newTurn(t, path)
	for range 20 {
		loud.take(nil)
		var served atomic.Bool
		done := make(chan struct{})
		go func() {
			defer close(done)
			other.queue(unix.F_OFD_SETLKW) // what take does once it has seen that it has to wait
			served.Store(true)
			other.free()
		}()
		eventually(t, "one that waits", func() bool {
			busy := look.set(unix.F_OFD_SETLK, unix.F_WRLCK, 0)
			if !busy {
				look.set(unix.F_OFD_SETLK, unix.F_UNLCK, 0)
			}
			return busy
		})
		loud.free()
		loud.take(nil)
		if !served.Load() {
			t.Fatal("the one that waited has not written yet")
		}
		loud.free()
		<-done
	}
}

func TestTurnGivenUp(t *testing.T) {
	path := t.TempDir() + "/turns"
	holder, other := newTurn(t, path), newTurn(t, path)
	gaveUp := make(chan struct{})
	close(gaveUp)
	holder.take(nil)
	for range 2 {
		if other.take(gaveUp) {
			t.Error("two have the turn")
		}
		<-other.lock
		other.lock <- struct{}{}
	}
	<-other.lock
	holder.free()
	// What other waited for may come now; it must not keep it.
	for range 3 {
		holder.take(limit(t).Done())
		holder.free()
		other.lock <- struct{}{}
		if !other.take(limit(t).Done()) {
			t.Error("the turn does not come any more")
		}
		other.free()
		<-other.lock
	}
}

func TestTurnOfTheDead(t *testing.T) {
	path := t.TempDir() + "/turns"
	w := open(t, WorkerOptions{})
	cmd := helper("turn " + path)
	start(t, w, cmd)
	eventually(t, "another process's turn", func() bool { return strings.Join(w.Tail(), "") == "mine" })
	next := newTurn(t, path)
	gaveUp := make(chan struct{})
	close(gaveUp)
	if next.take(gaveUp) {
		t.Error("two processes have the turn")
	}
	_ = cmd.Process.Signal(syscall.SIGKILL)
	if !next.take(limit(t).Done()) {
		t.Error("a dead process has the turn")
	}
}

// One that has the turn and was stopped costs nobody the last words.
func TestRemarksInAHurry(t *testing.T) {
	path := t.TempDir() + "/turns"
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	c := newCapture(t, w, w)
	c.TakeTurns(another(t, path))
	stopped := newTurn(t, path)
	stopped.take(nil)
	hurry, said := make(chan struct{}), make(chan struct{})
	remarks := c.Remarks(hurry)
	go func() {
		defer close(said)
		fmt.Fprintln(remarks, "why the job failed")
	}()
	eventually(t, "a remark that waits", func() bool { return len(c.stderr.lock) == 1 })
	select {
	case <-said:
		t.Fatal("written out of turn")
	default:
	}
	close(hurry)
	if line, err := bufio.NewReader(r).ReadString('\n'); line != "why the job failed\n" {
		t.Errorf("%q, %v", line, err)
	}
	<-said
}

func TestFilesNeedNoTurns(t *testing.T) {
	c := captureFiles(t)
	c.TakeTurns(another(t, t.TempDir()+"/turns"))
	if c.stdout.turn != nil || c.stderr.turn != nil {
		t.Error("writing to a file waits for other processes")
	}
}
