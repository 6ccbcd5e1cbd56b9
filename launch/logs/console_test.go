package logs

import (
	"os"
	"strings"
	"testing"
)

func TestConsoleClosed(t *testing.T) {
	r, pw, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	r.Close()
	defer pw.Close()
	dir := t.TempDir()
	w := open(t, WorkerOptions{Dir: dir, Tee: 3, Prefix: "p:", Console: newCapture(t, pw, pw).Console})
	cmd := shell("echo out; echo err >&2; exit 7")
	run(t, w, cmd)
	if code := cmd.ProcessState.ExitCode(); code != 7 {
		t.Errorf("the worker ended with %d: %v", code, cmd.ProcessState)
	}
	if got := read(t, dir+"/0/stdout.log") + strings.Join(w.Tail(), "|"); got != "out\nerr" {
		t.Errorf("kept %q", got)
	}
}

func TestConsoleThatDoesNotRead(t *testing.T) {
	r, pw, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer pw.Close()
	pw.Fd() // blocking, as gorun's own stdout is
	c := newCapture(t, pw, pw)
	dir := t.TempDir()
	flood := shell("head -c 100000 /dev/zero >&2; exec sleep 60")
	first := open(t, WorkerOptions{Console: c.Console})
	start(t, first, flood)
	eventually(t, "a console that is full", func() bool { return len(c.stderr.lock) == 1 && !first.LastOutput().IsZero() })

	second := open(t, WorkerOptions{LocalRank: 1, Dir: dir, Tee: Stderr, Console: c.Console})
	cmd := shell("echo my end >&2")
	start(t, second, cmd)
	cmd.Wait()
	if err := second.Close(); err != nil {
		t.Error(err)
	}
	if got := strings.Join(second.Tail(), "|") + read(t, dir+"/1/stderr.log"); got != "my endmy end\n" {
		t.Errorf("kept %q", got)
	}
	if err := first.Close(); err == nil || !strings.Contains(err.Error(), "console") {
		t.Errorf("first worker: %v", err)
	}
}
