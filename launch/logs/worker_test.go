package logs

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

func devNull(t testing.TB) *os.File {
	f, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func TestPassThroughKeepsBytes(t *testing.T) {
	c := captureFiles(t)
	w := open(t, WorkerOptions{Console: c.Console})
	if w.Stdout != c.out {
		t.Error("stdout is not gorun's own")
	}
	run(t, w, helper("binary"))
	for name, f := range map[string]*os.File{"stdout": c.out, "stderr": c.err} {
		if got := text(t, f); got != string(allBytes()) {
			t.Errorf("%s changed on its way: %d bytes of %d", name, len(got), len(allBytes()))
		}
	}
}

func TestPassThroughIsPrompt(t *testing.T) {
	c := captureFiles(t)
	w := open(t, WorkerOptions{Console: c.Console})
	start(t, w, shell("printf 'no line end' >&2; exec sleep 60"))
	eventually(t, "a partial line", func() bool { return text(t, c.err) == "no line end" })
	if w.LastOutput().IsZero() {
		t.Error("no time of the last output")
	}
}

func TestChildEndsAreBlocking(t *testing.T) {
	for _, tee := range []Std{0, Stdout | Stderr} {
		w := open(t, WorkerOptions{Tee: tee, Console: captureFiles(t).Console})
		run(t, w, helper("flags"))
		if got := strings.Join(w.Tail(), "\n"); got != "fd1 nonblock=false\nfd2 nonblock=false" {
			t.Errorf("tee %d: %s", tee, got)
		}
	}
	// The end is in blocking mode by itself: a caller may start the child without
	// os/exec, which sets that mode.
	_, end, err := openPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/bin/sh", "-c", `grep flags /proc/$$/fdinfo/3`)
	cmd.ExtraFiles = []*os.File{end}
	out, err := cmd.Output()
	if err != nil || !regexp.MustCompile(`flags:\s+01\b`).Match(out) {
		t.Errorf("flags of the child's end: %s (%v)", out, err)
	}
}

func TestRedirect(t *testing.T) {
	dir := t.TempDir()
	c := captureFiles(t)
	w := open(t, WorkerOptions{LocalRank: 3, Dir: dir, Redirect: Stdout | Stderr, Console: c.Console})
	if len(w.streams) != 0 {
		t.Error("redirected output is copied")
	}
	run(t, w, shell("echo out; for i in $(seq 30); do echo err $i >&2; done; printf '\\rend' >&2"))
	if got := read(t, dir+"/3/stdout.log"); got != "out\n" {
		t.Errorf("stdout.log has %q", got)
	}
	if got := text(t, c.out) + text(t, c.err); got != "" {
		t.Errorf("the console shows %q", got)
	}
	if got := fmt.Sprint(w.Files()); got != fmt.Sprint([]string{dir + "/3/stdout.log", dir + "/3/stderr.log"}) {
		t.Errorf("files %s", got)
	}
	tail := w.Tail()
	if len(tail) != TailLines || tail[0] != "err 12" || tail[TailLines-1] != "end" {
		t.Errorf("tail %q", tail)
	}
	if since := time.Since(w.LastOutput()); since > time.Minute {
		t.Errorf("last output %v ago", since)
	}
}

func TestTeeWinsOverRedirect(t *testing.T) {
	dir := t.TempDir()
	c := captureFiles(t)
	w := open(t, WorkerOptions{Dir: dir, Redirect: 3, Tee: Stdout, Prefix: "[default0]:", Console: c.Console})
	run(t, w, shell("echo hello; printf 'part\\rial'; echo err >&2"))
	if got, want := text(t, c.out), "[default0]:hello\n[default0]:part\n[default0]:ial\n"; got != want {
		t.Errorf("the console shows %q, want %q", got, want)
	}
	if got := w.Files(); !slices.Contains(got, dir+"/0/stdout.log") || !slices.Contains(got, dir+"/0/stderr.log") || len(got) != 2 {
		t.Errorf("files %q", got)
	}
	if got := read(t, dir+"/0/stdout.log"); got != "hello\npart\rial" {
		t.Errorf("stdout.log has %q", got)
	}
	if got := read(t, dir+"/0/stderr.log"); got != "err\n" || text(t, c.err) != "" {
		t.Errorf("stderr.log has %q, the console shows %q", got, text(t, c.err))
	}
}

func TestTeeIsPrompt(t *testing.T) {
	c := captureFiles(t)
	w := open(t, WorkerOptions{Tee: 3, Prefix: "p:", Console: c.Console})
	start(t, w, shell("echo line; printf part; exec sleep 60"))
	eventually(t, "a line", func() bool { return text(t, c.out) == "p:line\n" })
}

func TestTeeKeepsLinesWhole(t *testing.T) {
	// gorun's stdout and stderr are one pipe, as in `gorun ... 2>&1 | cat`.
	r, pw, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	c := newCapture(t, pw, pw)
	var got bytes.Buffer
	read := make(chan struct{})
	go func() { got.ReadFrom(r); close(read) }()

	const workers, lines = 16, 20
	var wg sync.WaitGroup
	for i := range workers {
		w := open(t, WorkerOptions{LocalRank: i, Tee: 3, Prefix: fmt.Sprintf("[default%d]:", i), Console: c.Console})
		cmd := helper(fmt.Sprintf("pieces %d", i))
		start(t, w, cmd)
		wg.Go(func() {
			cmd.Wait()
			if err := w.Wait(limit(t)); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	c.Close()
	pw.Close()
	<-read

	seen := map[string]bool{}
	line := regexp.MustCompile(`^\[default(\d+)\]:worker (\d+) line (\d+)(x*)$`)
	for text := range strings.Lines(got.String()) {
		m := line.FindStringSubmatch(strings.TrimSuffix(text, "\n"))
		if m == nil || m[1] != m[2] || fmt.Sprint(len(m[4])) != m[3] {
			t.Fatalf("split line: %q", text)
		}
		seen[text] = true
	}
	if len(seen) != workers*lines {
		t.Errorf("%d lines, want %d", len(seen), workers*lines)
	}
}

func TestTailAfterCrash(t *testing.T) {
	for range 20 {
		w := open(t, WorkerOptions{Console: captureFiles(t).Console})
		cmd := shell("for i in 1 2 3; do echo step $i >&2; done; printf 'last words' >&2; kill -9 $$")
		start(t, w, cmd)
		cmd.Wait()
		if err := w.Drain(limit(t)); err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(w.Tail(), "|"); got != "step 1|step 2|step 3|last words" {
			t.Fatalf("tail %q", got)
		}
	}
}

func TestDrainDoesNotWaitForGrandchild(t *testing.T) {
	c := captureFiles(t)
	w := open(t, WorkerOptions{Console: c.Console})
	// The grandchild ends with the process group at the test's end.
	cmd := shell("sleep 60 & echo died of this >&2; exit 3")
	start(t, w, cmd)
	cmd.Wait()
	begin := time.Now()
	if err := w.Drain(limit(t)); err != nil {
		t.Fatal(err)
	}
	if got := w.Tail(); len(got) != 1 || got[0] != "died of this" {
		t.Errorf("tail %q", got)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := w.Wait(ctx); err != nil {
		t.Error(err)
	}
	if took := time.Since(begin); took > 20*time.Second {
		t.Errorf("took %v", took)
	}
	if got := text(t, c.err); got != "died of this\n" {
		t.Errorf("the console shows %q", got)
	}
}

// TestCloseEndsDespiteGrandchild shows that a descendant which never stops
// writing does not keep Close busy.
func TestCloseEndsDespiteGrandchild(t *testing.T) {
	w := open(t, WorkerOptions{Tee: Stderr})
	start(t, w, shell("while :; do echo more >&2; done"))
	eventually(t, "output", func() bool { return len(w.Tail()) > 0 })
	if err := w.Drain(limit(t)); err != nil {
		t.Error(err)
	}
	done := make(chan error)
	go func() { done <- w.Close() }()
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-limit(t).Done():
		t.Fatal("Close hangs")
	}
}

func TestLogFileThatCannotBeWritten(t *testing.T) {
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip("no /dev/full")
	}
	dir := t.TempDir()
	if err := os.MkdirAll(dir+"/0", 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/dev/full", filepath.Join(dir, "0/stderr.log")); err != nil {
		t.Fatal(err)
	}
	c := captureFiles(t)
	var losses []string
	onLoss := func(path string, err error) { losses = append(losses, fmt.Sprint(path, ": ", err)) }
	w := open(t, WorkerOptions{Dir: dir, Tee: Stderr, Prefix: "p:", Console: c.Console, OnLoss: onLoss})
	start(t, w, shell("echo a >&2; until [ -e "+dir+"/go ]; do sleep 0.01; done; echo b >&2"))
	eventually(t, "a line", func() bool { return text(t, c.err) == "p:a\n" })
	create(t, dir+"/go")
	if err := w.Wait(limit(t)); err == nil || !strings.Contains(err.Error(), "no space left") {
		t.Errorf("error %v", err)
	}
	if got := text(t, c.err); got != "p:a\np:b\n" {
		t.Errorf("the console shows %q", got)
	}
	if len(losses) != 1 || !strings.HasPrefix(losses[0], dir+"/0/stderr.log: ") || !strings.Contains(losses[0], "no space left") {
		t.Errorf("losses %q", losses)
	}
}

func TestWaitAfterFailedStart(t *testing.T) {
	w := open(t, WorkerOptions{Dir: t.TempDir(), Tee: 3})
	cmd := exec.Command("/no/such/program")
	cmd.Stdout, cmd.Stderr = w.Stdout, w.Stderr
	if cmd.Start() == nil {
		t.Fatal("it started")
	}
	w.CloseChildEnds()
	if err := w.Wait(limit(t)); err != nil {
		t.Error(err)
	}
}

// TestFilteredLines checks that lines with a text are copied to a file that the workers
// of a node share, wherever else their output goes.
func TestFilteredLines(t *testing.T) {
	for _, redirect := range []Std{0, Stdout} {
		dir := t.TempDir()
		c := captureFiles(t)
		for i := range 2 {
			w := open(t, WorkerOptions{
				LocalRank: i, Dir: dir, Redirect: redirect, Console: c.Console,
				Prefix: fmt.Sprintf("[default%d]:", i), Filter: Filter{Stdout: []string{"loss"}},
			})
			if _, err := fmt.Fprintf(w.Stdout, "step\nloss %d\nthe end", i); err != nil {
				t.Fatal(err)
			}
			w.CloseChildEnds()
			if err := w.Wait(limit(t)); err != nil {
				t.Fatal(err)
			}
		}
		got, err := os.ReadFile(filepath.Join(dir, "filtered_stdout.log"))
		if want := "[default0]:loss 0\n[default1]:loss 1\n"; err != nil || string(got) != want {
			t.Errorf("%q, %v, want %q", got, err, want)
		}
		whole, shown := "step\nloss 0\nthe endstep\nloss 1\nthe end", text(t, c.out)
		if redirect != 0 {
			b, _ := os.ReadFile(filepath.Join(dir, "0", "stdout.log"))
			d, _ := os.ReadFile(filepath.Join(dir, "1", "stdout.log"))
			shown = string(b) + string(d) + shown
		}
		if shown != whole {
			t.Errorf("redirect %v: %q, want %q", redirect, shown, whole)
		}
	}
}
