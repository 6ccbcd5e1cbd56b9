package launch

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestBrokenOffHelperIsGone: after the end of a helper that was broken off, what
// it started lives no more either, and so makes no more files.
func TestBrokenOffHelperIsGone(t *testing.T) {
	r := newRunner(t)
	note := filepath.Join(t.TempDir(), "pid")
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		for ; ctx.Err() == nil; <-time.After(time.Millisecond) {
			if b, _ := os.ReadFile(note); strings.HasSuffix(string(b), "\n") {
				cancel()
			}
		}
	}()
	script := "setsid sh -c 'trap \"\" TERM; echo $$ >" + note + "; sleep 1000; :' & wait"
	if _, _, err := r.run(ctx, "/bin/sh", []string{"sh", "-c", script}, os.Environ(), "/"); err == nil {
		t.Error("no error")
	}
	b, _ := os.ReadFile(note)
	pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, 0); err != syscall.ESRCH {
		t.Errorf("process %d: %v", pid, err)
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}
