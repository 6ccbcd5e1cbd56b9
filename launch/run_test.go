package launch

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gorun/gorun/launch/spec"
	"golang.org/x/sys/unix"
)

// runAgent runs an agent in this process and checks that nothing of it is left. It
// returns the exit code and what the agent printed.
func runAgent(t *testing.T, flags map[string]string, command []string, opts Options) (int, string) {
	t.Helper()
	t.Setenv("TMPDIR", t.TempDir())
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	printed, err := os.Create(filepath.Join(t.TempDir(), "printed"))
	if err != nil {
		t.Fatal(err)
	}
	defer printed.Close()
	raw := spec.Raw{Flags: flags, Command: command}
	if opts.Spec, err = raw.Resolve(func(string) (string, bool) { return "", false }); err != nil {
		t.Fatal(err)
	}
	opts.Stdin, opts.Stdout, opts.Stderr, opts.Scratch = null, null, printed, "test"
	code, err := Run(t.Context(), opts)
	if err != nil {
		t.Error(err)
	}
	if left, _ := os.ReadDir(os.TempDir()); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	text, _ := os.ReadFile(printed.Name())
	return code, string(text)
}

// TestSignalEndsAnAgentThatJoins checks that an agent that waits for its place in the
// network ends at once, says why and returns the signal's code.
func TestSignalEndsAnAgentThatJoins(t *testing.T) {
	signals := make(chan os.Signal, 1)
	endpoint := func(ctx context.Context) (string, error) {
		signals <- unix.SIGTERM
		<-ctx.Done()
		return "", ctx.Err()
	}
	code, printed := runAgent(t, map[string]string{"local_nodes": "2", "no_python": "1"}, []string{"/bin/true"}, Options{
		Dir: "/", Signals: signals, Local: &LocalNode{Index: 1, Addr: "127.0.0.2", Endpoint: endpoint},
	})
	if code != 143 || !strings.Contains(printed, "received SIGTERM") {
		t.Errorf("%d: %s", code, printed)
	}
}

// TestSignalEndsABuild checks that the build ends with the agent and leaves
// nothing.
func TestSignalEndsABuild(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"prog.go": "package main",
		"go":      "#!/bin/sh\nmkdir ${GOTMPDIR:-$TMPDIR}/go-build1\ntouch " + dir + "/builds\nsleep 100 & wait\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	signals := make(chan os.Signal, 1)
	go func() {
		for end := time.Now().Add(10 * time.Second); time.Now().Before(end); <-time.After(time.Millisecond) {
			if _, err := os.Stat(dir + "/builds"); err == nil {
				break
			}
		}
		signals <- unix.SIGINT
	}()
	env := []string{"PATH=" + dir + ":" + os.Getenv("PATH"), "TMPDIR=" + os.TempDir()}
	code, printed := runAgent(t, nil, []string{"./prog.go"}, Options{Dir: dir, Env: env, Signals: signals})
	if code != 130 || !strings.Contains(printed, "received SIGINT") {
		t.Errorf("%d: %s", code, printed)
	}
}
