package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestRunWith checks that a program reads its input to the end, also if it reads none,
// and that too large an input is refused.
func TestRunWith(t *testing.T) {
	table := newTestTable(t).Table
	for script, want := range map[string]string{"cat; echo end": "inputend\n", "echo end": "end\n"} {
		out, code, err := table.RunWith(t.Context(), []byte("input"), "/bin/sh", []string{"sh", "-c", script}, []string{"PATH=/bin:/usr/bin"}, "/")
		if string(out) != want || code != 0 || err != nil {
			t.Errorf("%q: %q, %d, %v", script, out, code, err)
		}
	}
	if _, _, err := table.RunWith(t.Context(), make([]byte, maxInput+1), "/bin/cat", nil, nil, "/"); err == nil {
		t.Error("too large an input is taken")
	}
}

func TestRun(t *testing.T) {
	table := newTestTable(t).Table
	sh := func(ctx context.Context, script string) (string, int, error) {
		out, code, err := table.Run(ctx, "/bin/sh", []string{"sh", "-c", script}, []string{"WORD=hi", "PATH=/bin:/usr/bin"}, "/")
		return string(out), code, err
	}
	tests := []struct {
		script, out string
		code        int
	}{
		{"echo $WORD; pwd", "hi\n/\n", 0},
		{"echo out; echo err >&2; exit 7", "out\nerr\n", 7},
		{"kill -9 $$", "", 137},
	}
	for _, tt := range tests {
		if out, code, err := sh(t.Context(), tt.script); out != tt.out || code != tt.code || err != nil {
			t.Errorf("%q: %q, %d, %v", tt.script, out, code, err)
		}
	}
	t.Run("much output", func(t *testing.T) {
		out, code, err := sh(t.Context(), "head -c 3000000 /dev/zero; exit 3")
		if len(out) != maxOutput || code != 3 || err != nil {
			t.Errorf("%d bytes, %d, %v", len(out), code, err)
		}
	})
	t.Run("no such program", func(t *testing.T) {
		if _, _, err := table.Run(t.Context(), "/no/such", []string{"x"}, nil, "/"); !errors.Is(err, os.ErrNotExist) {
			t.Error(err)
		}
	})
	t.Run("cancelled", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		began := time.Now()
		if _, _, err := sh(ctx, "trap '' TERM; sleep 60 & wait; sleep 60"); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		if d := time.Since(began); d > 10*time.Second {
			t.Errorf("took %v", d)
		}
	})
	t.Run("a leftover keeps the pipe", func(t *testing.T) {
		began := time.Now()
		out, code, err := sh(t.Context(), "sleep 20 & echo $!")
		if code != 0 || err != nil {
			t.Errorf("%q, %d, %v", out, code, err)
		}
		if d := time.Since(began); d > 10*time.Second {
			t.Errorf("took %v", d)
		}
		var pid int
		if _, err := fmt.Sscan(out, &pid); err == nil && pid > 1 {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	})
}

// TestCancelledRunLeavesNoProcess checks that the processes of a cancelled helper
// have ended when Run returns, and so make no more files.
func TestCancelledRunLeavesNoProcess(t *testing.T) {
	table := newTestTable(t).Table
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
	if _, _, err := table.Run(ctx, "/bin/sh", []string{"sh", "-c", script}, os.Environ(), "/"); err == nil {
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
