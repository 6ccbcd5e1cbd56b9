package logs

import (
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// terminal opens a terminal for gorun. It returns the terminal and what a
// person sees on it.
func terminal(t *testing.T) (tty *os.File, screen *os.File) {
	t.Helper()
	screen, tty, err := openPTY()
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	t.Cleanup(func() { screen.Close(); tty.Close() })
	setSize(t, tty, 123, 45)
	return tty, screen
}

func setSize(t *testing.T, tty *os.File, cols, rows uint16) {
	t.Helper()
	if err := withFD(tty, func(fd int) error {
		return unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Col: cols, Row: rows})
	}); err != nil {
		t.Fatal(err)
	}
}

func TestTerminalGetsBytesUnchanged(t *testing.T) {
	tty, screen := terminal(t)
	c := newCapture(t, devNull(t), tty)
	w := open(t, WorkerOptions{Console: c.Console})
	seen := make(chan string)
	go func() {
		b := make([]byte, len(allBytes()))
		n, _ := io.ReadFull(screen, b)
		seen <- string(b[:n])
	}()
	run(t, w, helper("binary"))
	select {
	case got := <-seen:
		if got != string(allBytes()) {
			t.Error("bytes changed on their way to the terminal")
		}
	case <-limit(t).Done():
		t.Fatal("output is missing")
	}
}

func TestWorkerTerminalHasSize(t *testing.T) {
	tty, screen := terminal(t)
	go io.Copy(io.Discard, screen)
	c := newCapture(t, devNull(t), tty)
	for _, cols := range []uint16{123, 77} {
		w := open(t, WorkerOptions{Console: c.Console})
		if cols == 77 {
			setSize(t, tty, 77, 45)
			w.Resize()
		}
		run(t, w, helper("flags"))
		want := []string{"fd1 nonblock=false", "fd2 nonblock=false", "size 123x45"}
		if cols == 77 {
			want[2] = "size 77x45"
		}
		if got := w.Tail(); !slices.Equal(got, want) {
			t.Errorf("the worker saw %q, want %q", got, want)
		}
		w.Resize() // after the end: nothing happens
	}
}

func TestDrainOfTerminal(t *testing.T) {
	tty, screen := terminal(t)
	go io.Copy(io.Discard, screen)
	c := newCapture(t, devNull(t), tty)
	for range 20 {
		w := open(t, WorkerOptions{Console: c.Console})
		cmd := shell("sleep 60 & for i in 1 2 3; do echo $i >&2; done; printf last >&2; exit 1")
		start(t, w, cmd)
		cmd.Wait()
		if err := w.Drain(limit(t)); err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(w.Tail(), "|"); got != "1|2|3|last" {
			t.Fatalf("tail %q", got)
		}
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestTeeOpensNoTerminal shows that Tee needs no terminal, because lines with a
// prefix cannot show bars.
func TestTeeOpensNoTerminal(t *testing.T) {
	tty, screen := terminal(t)
	go io.Copy(io.Discard, screen)
	w := open(t, WorkerOptions{Tee: Stderr, Console: newCapture(t, devNull(t), tty).Console})
	if w.pty != nil {
		t.Error("a terminal was opened")
	}
}
