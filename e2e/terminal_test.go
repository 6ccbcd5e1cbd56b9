package e2e_test

import (
	"io"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/creack/pty"
)

// terminal starts gorun as the foreground job of a terminal of its own; what it
// prints is on a.out. The result is the other end of the terminal.
func (j *job) terminal(args ...string) (*agent, *os.File) {
	j.Helper()
	ptmx, tty, err := pty.Open()
	if err != nil {
		j.Fatal(err)
	}
	j.Cleanup(func() { ptmx.Close() })
	cmd := j.command(args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = tty, tty, tty
	cmd.Env = append(cmd.Environ(), "TERM=linux") // whatever the terminal of the tests is
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Pdeathsig: syscall.SIGKILL}
	a := j.launch("terminal", cmd)
	tty.Close()
	go func() { _, _ = io.Copy(a.out, ptmx) }() // ends with the last process that has the terminal open
	return a, ptmx
}

// twoWorkers are the flags for two workers: a keeper forks an agent, or starts two.
func twoWorkers() map[string][]string {
	return map[string][]string{
		"one node":    {"--standalone", "--nproc-per-node", "2"},
		"local nodes": {"--local-nodes", "2"},
	}
}

// TestCtrlC checks that Ctrl-C in a terminal reaches every worker once, and ends the job
// with 130.
func TestCtrlC(t *testing.T) {
	t.Parallel()
	for name, flags := range twoWorkers() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := newJob(t)
			a, ptmx := j.terminal(with(sh(noteSignals), flags...)...)
			a.waitForStdout("up", 2)
			if _, err := ptmx.Write([]byte{3}); err != nil {
				t.Fatal(err)
			}
			j.wantExit(shortWait, 130, a)
			for rank := range 2 {
				if got := j.signalsOf(rank); got != "INT" {
					t.Errorf("rank %d got %q, want one INT", rank, got)
				}
			}
			eventually(t, shortWait, "the reason", func() bool { return strings.Contains(a.out.String(), "received SIGINT") })
		})
	}
}

// TestWindowSize checks that the workers' terminals follow the size of gorun's. The
// kernel reports that size only to the keeper's process group.
func TestWindowSize(t *testing.T) {
	t.Parallel()
	const script = `echo up; until [ "$(stty size <&2)" = "33 77" ]; do sleep 0.05; done; echo fits`
	for name, flags := range twoWorkers() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := newJob(t)
			a, ptmx := j.terminal(with(sh(script), flags...)...)
			a.waitForStdout("up", 2)
			if err := pty.Setsize(ptmx, &pty.Winsize{Rows: 33, Cols: 77}); err != nil {
				t.Fatal(err)
			}
			a.waitForStdout("fits", 2)
			j.wantExit(shortWait, 0, a)
		})
	}
}

// TestWorkerSeesTerminal checks that if gorun runs on a terminal, the workers' standard
// error is a terminal too, because progress bars test for one. Otherwise it is a pipe.
func TestWorkerSeesTerminal(t *testing.T) {
	t.Parallel()
	script := `for fd in 1 2; do if [ -t $fd ]; then echo $fd is a terminal; else echo $fd is none; fi; done`
	j := newJob(t)
	a, _ := j.terminal(with(sh(script), "--standalone")...)
	j.wantExit(shortWait, 0, a)
	a.waitForStdout("1 is a terminal", 1)
	a.waitForStdout("2 is a terminal", 1)
	b := j.run("pipes", with(sh(script), "--standalone")...)
	j.wantExit(shortWait, 0, b)
	b.waitForStdout("1 is none", 1)
	b.waitForStdout("2 is none", 1)
}

// TestClosedTerminal checks that a job survives its closed terminal. Only gorun's lines
// there are lost.
func TestClosedTerminal(t *testing.T) {
	t.Parallel()
	j := newJob(t)
	for range 100 {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		r.Close()
		cmd := j.command(with(sh("exit 0"), "--standalone", "--redirects", "3")...)
		cmd.Stderr = w
		err = cmd.Run()
		w.Close()
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestWaitIsRewrittenInOneLine checks that on a terminal a wait is one line that is
// rewritten, never wider than the terminal, and nothing of it is left when the job
// starts or ends.
func TestWaitIsRewrittenInOneLine(t *testing.T) {
	t.Parallel()
	j := newJob(t)
	a, ptmx := j.terminal("--nnodes", "2", "--rdzv-endpoint", j.endpoint, "--rdzv-id", j.id, "--local-addr", "127.0.0.1", "/bin/echo", "done")
	if err := pty.Setsize(ptmx, &pty.Winsize{Rows: 24, Cols: 40}); err != nil {
		t.Fatal(err)
	}
	a.waitForStdout("have 1 of 2", 3)
	j.wantExit(longWait, 0, j.node(2, "2", "/bin/true"), a)
	a.waitForStdout("done", 1) // what the terminal has may still be on its way to the test
	text := a.out.String()
	for line := range strings.SplitSeq(text, "\n") {
		drawn := strings.Split(strings.TrimSuffix(line, "\r"), "\r\x1b[K")
		for _, d := range drawn {
			if strings.Contains(d, "have 1 of 2") && len(d) >= 40 {
				t.Errorf("%d columns: %q", len(d), d)
			}
		}
		if last := drawn[len(drawn)-1]; strings.Contains(last, "have 1") {
			t.Errorf("left on the terminal: %q", last)
		}
	}
	if !strings.Contains(text, "\r\x1b[Kdone") {
		t.Errorf("the worker's line does not begin on a cleared one: %q", text)
	}
}
