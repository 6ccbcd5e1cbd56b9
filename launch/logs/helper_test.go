package logs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// helperEnv makes the test binary its own worker: with this variable it writes
// and exits.
const helperEnv = "GORUN_LOGS_TEST_HELPER"

func TestMain(m *testing.M) {
	switch mode, arg, _ := strings.Cut(os.Getenv(helperEnv), " "); mode {
	case "":
		os.Exit(m.Run())
	case "binary": // every byte, no newline at the end, in pieces
		all := allBytes()
		for len(all) > 0 {
			n := min(len(all), 1000)
			os.Stdout.Write(all[:n])
			os.Stderr.Write(all[:n])
			all = all[n:]
		}
		os.Exit(0)
	case "pieces": // lines written byte by byte, so that other lines may split them
		for i := range 20 {
			for _, b := range fmt.Appendf(nil, "worker %s line %d%s\n", arg, i, strings.Repeat("x", i)) {
				os.Stderr.Write([]byte{b})
			}
		}
		os.Exit(0)
	case "flags": // are the descriptors in blocking mode, is stderr a terminal of which size?
		for fd := 1; fd <= 2; fd++ {
			flags, _ := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
			fmt.Fprintf(os.Stderr, "fd%d nonblock=%v\n", fd, flags&unix.O_NONBLOCK != 0)
		}
		if size, err := unix.IoctlGetWinsize(2, unix.TIOCGWINSZ); err == nil {
			fmt.Fprintf(os.Stderr, "size %dx%d\n", size.Col, size.Row)
		}
		os.Exit(0)
	default:
		panic("unknown helper mode " + mode)
	}
}

func allBytes() []byte {
	var b []byte
	for i := range 5000 {
		b = append(b, byte(i), byte(i>>8), '\r', byte(i))
	}
	return b
}

func helper(mode string) *exec.Cmd {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), helperEnv+"="+mode)
	return cmd
}

func shell(script string) *exec.Cmd { return exec.Command("/bin/sh", "-c", script) }

// start runs cmd as the worker of w. The test's end kills it.
func start(t *testing.T, w *Worker, cmd *exec.Cmd) {
	t.Helper()
	cmd.Stdout, cmd.Stderr = w.Stdout, w.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	err := cmd.Start()
	w.CloseChildEnds()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		cmd.Wait()
	})
}

// run lets cmd end and waits for its output.
func run(t *testing.T, w *Worker, cmd *exec.Cmd) {
	t.Helper()
	start(t, w, cmd)
	cmd.Wait()
	if err := w.Wait(limit(t)); err != nil {
		t.Fatal(err)
	}
}

func open(t *testing.T, o WorkerOptions) *Worker {
	t.Helper()
	w, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	return w
}

func limit(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// eventually polls until ok reports true, for at most 10 s.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !ok(); time.Sleep(time.Millisecond) { // sleep: between two looks
		if time.Now().After(end) {
			t.Fatalf("%s: not within 10 s", what)
		}
	}
}

// capturedConsole is a console whose output is collected.
type capturedConsole struct {
	*Console
	out, err *os.File // what gorun would have as stdout and stderr
}

// captureFiles makes a console of two files, which take everything at once.
func captureFiles(t *testing.T) capturedConsole {
	t.Helper()
	dir := t.TempDir()
	return newCapture(t, create(t, dir+"/console-out"), create(t, dir+"/console-err"))
}

func create(t *testing.T, path string) *os.File {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func newCapture(t *testing.T, out, err *os.File) capturedConsole {
	t.Helper()
	c, cerr := NewConsole(out, err)
	if cerr != nil {
		t.Fatal(cerr)
	}
	t.Cleanup(c.Close)
	return capturedConsole{Console: c, out: out, err: err}
}

// text returns everything that a console's file contains.
func text(t *testing.T, f *os.File) string {
	t.Helper()
	b, err := io.ReadAll(io.NewSectionReader(f, 0, 1<<30))
	if err != nil && !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	return string(b)
}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
