package process

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// TestDyingByProc checks what counts as dying: all threads end, with a failure.
func TestDyingByProc(t *testing.T) {
	const runs, exits = "4194304", "4194308"
	thread := func(pid int, flags string, status int) string {
		return fmt.Sprintf("%d (a) b) R 1 1 1%s%s %d\n", pid, strings.TrimSuffix(strings.Replace(tail, runs, flags, 1), "\n"), strings.Repeat(" 0", 26), status)
	}
	for _, tt := range []struct {
		name    string
		process string
		second  string // another thread; "": it has ended
		want    bool
	}{
		{"killed", thread(7, exits, 9), thread(8, exits, 9), true},
		{"the last thread", thread(7, exits, 3<<8), "", true},
		{"success", thread(7, exits, 0), thread(8, exits, 0), false},
		{"it runs", thread(7, runs, 0), thread(8, runs, 0), false},
		{"a stopped process", thread(7, runs, 19), thread(8, runs, 19), false},
		{"only the first thread ends", thread(7, exits, 3<<8), thread(8, runs, 0), false},
		{"a thread writes the core file", thread(7, exits, 11), thread(8, runs, 11), false},
		{"no status", "7 (a) R 1 1 1" + strings.Replace(tail, runs, exits, 1), "", false},
		{"a broken line", thread(7, exits, 9), "x", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			files := map[string]string{"7/stat": tt.process, "7/task/7/stat": tt.process, "7/task/8/comm": ""}
			if tt.second != "" {
				files["7/task/8/stat"] = tt.second
			}
			fs := procfs{root: tree(t, "2", files)}
			if s, dying := fs.dying(7); dying != tt.want {
				t.Errorf("dying %v, %+v", dying, s)
			}
			if _, dying := fs.dying(9); dying {
				t.Error("no process is dying")
			}
		})
	}
}

// TestDying checks processes that the kernel holds in their exit.
func TestDying(t *testing.T) {
	needUnshare(t)
	for _, tt := range []struct {
		name   string
		script string
		kill   syscall.Signal
		want   Exit
	}{
		{"killed", "", syscall.SIGKILL, Exit{Code: -1, Signal: syscall.SIGKILL}},
		{"failed", "trap 'exit 3' TERM;", syscall.SIGTERM, Exit{Code: 3}},
		{"succeeded", "trap 'exit 0' TERM;", syscall.SIGTERM, Exit{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newTestTable(t)
			p, release := b.held(tt.script)
			if exit, dying := p.Dying(); dying {
				t.Errorf("it runs, and is said to be dying: %+v", exit)
			}
			if err := syscall.Kill(p.pid, tt.kill); err != nil {
				t.Fatal(err)
			}
			until(t, "it exits", func() bool { s, err := b.fs.stat(p.pid); return err == nil && s.isExiting() })
			exit, dying := p.Dying()
			at := exit.At
			exit.At = tt.want.At
			if dying != !tt.want.Success() || exit != tt.want {
				t.Errorf("dying %v: %v, want %v", dying, exit, tt.want)
			}
			if again, _ := p.Dying(); again.At != at {
				t.Errorf("it died at %v, then at %v", at, again.At)
			}
			select {
			case <-p.Done():
				t.Fatal("it has ended already, so this test shows nothing")
			default:
			}
			other := b.shell("exit 5")
			otherExit := b.exit(other)
			release()
			got := b.exit(p)
			if got.Code != tt.want.Code || got.Signal != tt.want.Signal || dying && (got.At != at || !otherExit.At.After(at)) {
				t.Errorf("it ended with %+v, and said %v at %v; another ended at %v", got, exit, at, otherExit.At)
			}
			if exit, dying := p.Dying(); dying {
				t.Errorf("it has ended, and is said to be dying: %+v", exit)
			}
		})
	}
}

// held starts a process that the kernel holds in its exit, after it has closed the
// process's files, until release: it is the first of a pid namespace, and its child cannot
// be collected, because a process outside traces the child.
func (b *testTable) held(script string) (p *Process, release func()) {
	b.Helper()
	s := shell(script + " sleep 1000 & echo up; wait")
	s.Around = inNewPIDNamespace
	p = b.start(s)
	b.expect("up")
	children, err := b.fs.children(p.pid)
	if err != nil || len(children) != 1 {
		b.Fatalf("children %v, %v", children, err)
	}
	in, out, err := os.Pipe()
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { out.Close() })
	b.start(Spec{Path: "/proc/self/exe", Args: []string{"helper", helperFlag, fmt.Sprintf("trace:%d", children[0])}, Session: true, Stdin: in})
	in.Close()
	b.expect("traces")
	return p, func() { out.Close() }
}

// inNewPIDNamespace makes the process that start starts the first of a pid namespace.
func inNewPIDNamespace(start func() error) error {
	own, err := os.Open("/proc/self/ns/pid")
	if err != nil {
		return err
	}
	defer own.Close()
	if err := unix.Unshare(unix.CLONE_NEWPID); err != nil {
		return err
	}
	err = start()
	if e := unix.Setns(int(own.Fd()), unix.CLONE_NEWPID); e != nil {
		panic(e) // the thread would start other processes there
	}
	return err
}

// runTracer traces a process until its own standard input ends.
func runTracer(pid int) error {
	_, _, errno := syscall.Syscall6(syscall.SYS_PTRACE, unix.PTRACE_SEIZE, uintptr(pid), 0, 0, 0, 0)
	if errno != 0 {
		return errno
	}
	fmt.Println("traces")
	_, err := io.Copy(io.Discard, os.Stdin)
	return err
}

// TestStopWaitsForDying checks that Stop returns after the end of a process that is dying.
func TestStopWaitsForDying(t *testing.T) {
	needUnshare(t)
	b := newTestTable(t)
	p, release := b.held("")
	_ = p.Signal(syscall.SIGKILL)
	until(t, "it is dying", func() bool { _, dying := p.Dying(); return dying })
	stopped := make(chan bool)
	go func() {
		_, err := b.Stop(context.Background(), StopOptions{Grace: patience}, p)
		select {
		case <-p.Done():
			stopped <- err == nil
		default:
			stopped <- false
		}
	}()
	for range 50 { // steps of the Stop
		_ = b.exit(b.shell("exit 0"))
		select {
		case <-stopped:
			t.Fatal("Stop has returned while the process is dying")
		default:
		}
	}
	release()
	if !<-stopped {
		t.Error("Stop has returned before the process's end, or with an error")
	}
}
