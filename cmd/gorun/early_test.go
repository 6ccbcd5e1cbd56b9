package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

const patience = 20 * time.Second

// TestEarly tests gorun as the Makefile builds it; a test binary never forks.
// What it shares with the other build is tested in package e2e.
func TestEarly(t *testing.T) {
	bin := filepath.Join(t.TempDir(), "gorun")
	out, err := exec.Command("go", "build", "-tags", "grpcnotrace,earlyfork", "-o", bin, ".").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Run("ends", func(t *testing.T) { earlyEnds(t, bin) })
	t.Run("starts nothing", func(t *testing.T) { startsNothing(t, bin) })
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		for _, who := range []string{"keeper", "agent"} {
			t.Run(fmt.Sprintf("%v to %s", sig, who), func(t *testing.T) { earlySignal(t, bin, who, sig) })
		}
	}
}

func earlyEnds(t *testing.T, bin string) {
	job := func(script string, flags ...string) []string {
		return append(flags, "--no-python", "/bin/sh", "-c", script)
	}
	tests := []struct {
		args []string
		code int
		says string // once in the output, if not empty
	}{
		{job("exit 0"), 0, ""},
		{job("exit 7", "run", "--standalone"), 7, "Root Cause"},
		{job("exit 0", "--local-nodes", "2"), 0, ""}, // the agents of --local-nodes start late
		{[]string{"--no-python", "/no/such/program"}, 2, "no such program"},
		{[]string{"--no-such-flag"}, 2, "unknown flag"},
		{[]string{"--help"}, 0, "--rdzv-id"},
		{[]string{"run", "--help"}, 0, "--rdzv-id"},
		{[]string{"check", "--help"}, 0, "\n  gorun check [flags]"},
		{[]string{"env", "--nnodes", "2", "-h"}, 0, "\n  gorun env [flags]"},
		{[]string{"--version"}, 0, "gorun "},
		{[]string{"-v"}, 0, "gorun version"},
		{[]string{"version"}, 0, "gorun version"},
		{[]string{"stat", "/"}, 2, "did you mean gorun status?"},
		{[]string{"--report", strings.Repeat("9", 3000), "/bin/true"}, 2, "file name too long"},
		{[]string{"--local-addr", "no.such.name.invalid", "/bin/true"}, 2, "cannot use --local-addr"},
		{[]string{"run", "stat", "/"}, 0, "Inode"},
		{[]string{"help", "man"}, 0, ".TH"},
		{[]string{agentCommand}, 2, "is for gorun itself"},
		{[]string{probeCommand, "nothing"}, 0, "gorun_gpu_probe"},
	}
	for _, tt := range tests {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		cmd := exec.CommandContext(ctx, bin, tt.args...)
		out, _ := cmd.CombinedOutput()
		cancel()
		if code := cmd.ProcessState.ExitCode(); code != tt.code || tt.says != "" && strings.Count(string(out), tt.says) != 1 {
			t.Errorf("%v: exit code %d, want %d, and once %q in\n%s", tt.args, code, tt.code, tt.says, out)
		}
	}
}

// startsNothing tests that what starts no worker leaves no file, whatever the flags
// of the job are.
func startsNothing(t *testing.T, bin string) {
	for _, first := range []string{"check", "env", "--dry-run"} {
		dir := t.TempDir()
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		cmd := exec.CommandContext(ctx, bin, first, "-t", "3", "-r", "3", "--log-dir", "logs", "--max-restarts", "2", "/bin/true")
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		cancel()
		left, _ := os.ReadDir(dir)
		if err != nil || len(left) > 0 || strings.Contains(string(out), "output is in") {
			t.Errorf("gorun %s: %v, leaves %v:\n%s", first, err, left, out)
		}
	}
}

// earlySignal: whichever process is ended, in whatever way, nothing is left. The
// pipe of standard error says so: it ends with the last process that has it.
func earlySignal(t *testing.T, bin, who string, sig syscall.Signal) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	r.SetReadDeadline(time.Now().Add(patience))
	script := `(trap "" TERM INT HUP; setsid sleep 1000 >&2 &); echo agent $PPID >&2; sleep 1000; :`
	cmd := exec.Command(bin, "--shutdown-timeout", "0", "--no-python", "/bin/sh", "-c", script)
	cmd.Stderr = w
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	defer cmd.Wait()
	defer cmd.Process.Kill()

	pid := map[string]int{"keeper": cmd.Process.Pid}
	lines := bufio.NewReader(r)
	for pid["agent"] == 0 {
		line, err := lines.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		var agent int
		if _, err := fmt.Sscanf(line, "agent %d", &agent); err == nil {
			pid["agent"] = agent
		}
	}
	if pid["agent"] == pid["keeper"] {
		t.Fatal("the keeper and the agent are one process")
	}
	if err := syscall.Kill(pid[who], sig); err != nil {
		t.Fatal(err)
	}
	rest, err := io.ReadAll(lines)
	if err != nil {
		t.Fatalf("something is left: %v\n%s", err, rest)
	}
	cmd.Wait()
	want := 143
	if sig == syscall.SIGKILL {
		want = map[string]int{"keeper": -1, "agent": 137}[who]
	}
	if code := cmd.ProcessState.ExitCode(); code != want {
		t.Errorf("exit code %d, want %d\n%s", code, want, rest)
	}
	said := strings.Contains(string(rest), "gorun: the agent was killed by SIGKILL; ")
	if wanted := sig == syscall.SIGKILL && who == "agent"; said != wanted {
		t.Errorf("said %v, want %v:\n%s", said, wanted, rest)
	}
}
