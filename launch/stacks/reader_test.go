package stacks

import (
	"bufio"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// newTestReader reads one process as rank 3.
func newTestReader(pid int) *Reader {
	return NewReader(Options{
		Workers: func(context.Context) []Worker { return []Worker{{3, pid}} },
		Ask:     func(context.Context, int) (string, error) { return "", errors.New("it links no package worker") },
		Run: func(ctx context.Context, path string, args ...string) (string, error) {
			out, err := exec.CommandContext(ctx, path, args...).Output()
			return string(out), err
		},
		Find: func(name string) string { path, _ := exec.LookPath(name); return path },
	})
}

// start starts a program and waits for its first line.
func start(t *testing.T, name string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &unix.SysProcAttr{Setpgid: true, Pdeathsig: unix.SIGKILL}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Kill(-cmd.Process.Pid, unix.SIGKILL); _ = cmd.Wait() })
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	return cmd
}

// awaitPlace reads the process until it is where the test wants it.
func awaitPlace(t *testing.T, pid int, want string) Stack {
	t.Helper()
	r := newTestReader(pid)
	for deadline := time.Now().Add(20 * time.Second); ; {
		all := r.Read(t.Context(), Question{})
		if len(all) != 1 || all[0].Rank != 3 {
			t.Fatalf("%+v", all)
		}
		groups := GroupStacks(all)
		if got := groups[0].String(); strings.HasPrefix(got, "rank 3 "+want) {
			return all[0]
		} else if time.Now().After(deadline) {
			t.Fatalf("got %q, want %q: %+v", got, want, all[0])
		}
	}
}

func script(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "train.py")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func python(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("no Python here")
	}
	return path
}

func TestReadPythonThatSleeps(t *testing.T) {
	path := script(t, "import time\ndef load_data():\n    print(1, flush=True)\n    time.sleep(600)\nload_data()\n")
	cmd := start(t, python(t), path)
	awaitPlace(t, cmd.Process.Pid, "in load_data at train.py:4")
	if err := cmd.Process.Signal(unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	s := awaitPlace(t, cmd.Process.Pid, "stopped by a signal (kill -CONT lets it go on), in load_data at train.py:4")
	if s.Source != FromMemory || s.PID != cmd.Process.Pid {
		t.Errorf("%+v", s)
	}
}

func TestReadPythonBelowAShell(t *testing.T) {
	path := script(t, "import time\nprint(1, flush=True)\ntime.sleep(600)\n")
	cmd := start(t, "/bin/sh", "-c", `"$0" "$1"; exit $?`, python(t), path)
	if s := awaitPlace(t, cmd.Process.Pid, "at train.py:3"); s.PID == cmd.Process.Pid {
		t.Error("the stack is the shell's")
	}
}

func TestReadTheHelperThatPythonWaitsFor(t *testing.T) {
	for _, method := range []string{"fork", "spawn"} {
		path := script(t, `
import multiprocessing, sys, time

def load_item(i):
    print(1, flush=True)
    time.sleep(600)

if __name__ == "__main__":
    with multiprocessing.get_context(sys.argv[1]).Pool(2) as pool:
        pool.map(load_item, [1])
`)
		cmd := start(t, python(t), path, method)
		awaitPlace(t, cmd.Process.Pid, "at train.py:10; a process that it started is in load_item at train.py:6")
	}
}

func TestReadProgramInC(t *testing.T) {
	gcc, err := exec.LookPath("gcc")
	if err != nil {
		t.Skip("no C compiler here")
	}
	dir := t.TempDir()
	source, binary := filepath.Join(dir, "h.c"), filepath.Join(dir, "h")
	text := "#include <stdio.h>\n#include <unistd.h>\nint load(int x) { puts(\"1\"); fflush(stdout); pause(); return x; }\nint main(void) { return load(3); }\n"
	if err := os.WriteFile(source, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(gcc, "-g", "-O0", "-o", binary, source).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	cmd := start(t, binary)
	if _, err := exec.LookPath("gdb"); err == nil {
		awaitPlace(t, cmd.Process.Pid, "in load at h.c:3")
	}
	r := newTestReader(cmd.Process.Pid)
	r.opts.Find = func(string) string { return "" }
	s := r.Read(t.Context(), Question{})[0]
	if s.Source != FromKernel || s.Missing == "" || s.Kernel.State != "S" {
		t.Errorf("without a debugger: %+v", s)
	}
}

func TestReadEndsWithItsContext(t *testing.T) {
	cmd := start(t, "/bin/sh", "-c", "echo 1; exec sleep 600")
	r := newTestReader(cmd.Process.Pid)
	r.opts.Find = func(string) string { return "/bin/sleep" }
	r.opts.Run = func(ctx context.Context, _ string, _ ...string) (string, error) {
		<-ctx.Done()
		return "", ctx.Err()
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if s := r.Read(ctx, Question{})[0]; s.Missing == "" || len(s.Frames) > 0 {
		t.Errorf("%+v", s)
	}
	if s := newTestReader(1<<30).Read(t.Context(), Question{})[0]; s.Missing == "" {
		t.Errorf("of a process that is not there: %+v", s)
	}
}
