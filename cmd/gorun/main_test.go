package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/pflag"
)

const patience = 20 * time.Second

// TestMain makes this binary gorun where it is started by that name, as its own
// keeper starts an agent, and an agent its probes.
func TestMain(m *testing.M) {
	if os.Args[0] == "gorun" {
		os.Exit(run(os.Args[1:]))
	}
	os.Exit(m.Run())
}

// gorun returns the command line of this binary as gorun.
func gorun(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, selfPath, args...)
	cmd.Args[0] = "gorun"
	return cmd
}

// parseJob returns the options that a command line gives run, check or env.
func parseJob(args []string) (*jobOptions, error) {
	root, o := newRootCommand(), &jobOptions{}
	args, err := parseLikeArgparse(root, args)
	if err != nil {
		return o, err
	}
	cmd, args, err := root.Find(args)
	if err != nil {
		return o, err
	}
	if err := cmd.ParseFlags(args); err != nil {
		return o, cmd.FlagErrorFunc()(cmd, err)
	}
	if help, _ := cmd.Flags().GetBool("help"); help {
		return o, pflag.ErrHelp
	}
	o.complete(cmd, cmd.Flags().Args())
	return o, nil
}

// flagNames returns the names of flags in their order.
func flagNames(groups ...flagGroup) []string {
	var names []string
	for _, g := range groups {
		for _, f := range g.flags {
			names = append(names, f.name)
		}
	}
	return names
}

func TestExitCodes(t *testing.T) {
	job := func(script string, flags ...string) []string {
		return append(flags, "--no-python", "/bin/sh", "-c", script)
	}
	tests := []struct {
		args []string
		code int
		text string // once in the output, if not empty
	}{
		{job("exit 0"), 0, ""},
		{job("exit 7", "run", "--standalone"), 7, "Root Cause"},
		{job("exit 0", "--local-nodes", "2"), 0, ""},
		{[]string{"--no-python", "/no/such/program"}, 2, "no such program"},
		{[]string{"--no-such-flag"}, 2, "unrecognized arguments"},
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
		{[]string{"run", "--" + agentFlag + "=x", "/bin/true"}, 2, "is for gorun itself"},
		{[]string{probeCommand, "nothing"}, 0, "gorun_gpu_probe"},
	}
	for _, tt := range tests {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		cmd := gorun(ctx, tt.args...)
		out, _ := cmd.CombinedOutput()
		cancel()
		if code := cmd.ProcessState.ExitCode(); code != tt.code || tt.text != "" && strings.Count(string(out), tt.text) != 1 {
			t.Errorf("%v: exit code %d, want %d, and once %q in\n%s", tt.args, code, tt.code, tt.text, out)
		}
	}
}

// TestJobWithoutWorkersWritesNoFile checks that a command that starts no worker writes
// no file, with any flags.
func TestJobWithoutWorkersWritesNoFile(t *testing.T) {
	for _, first := range []string{"check", "env", "--dry-run"} {
		dir := t.TempDir()
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		cmd := gorun(ctx, first, "-t", "3", "-r", "3", "--log-dir", "logs", "--max-restarts", "2", "/bin/true")
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		cancel()
		left, _ := os.ReadDir(dir)
		if err != nil || len(left) > 0 || strings.Contains(string(out), "output is in") {
			t.Errorf("gorun %s: %v, leaves %v:\n%s", first, err, left, out)
		}
	}
}

// TestNoProcessIsLeft checks that a signal that ends the keeper or the agent leaves no
// process.
func TestNoProcessIsLeft(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		for _, target := range []string{"keeper", "agent"} {
			t.Run(fmt.Sprintf("%v to %s", sig, target), func(t *testing.T) { signalAndCheck(t, target, sig) })
		}
	}
}

// signalAndCheck sends a signal to the keeper or the agent. The pipe of standard error
// ends with the last process that has it.
func signalAndCheck(t *testing.T, target string, sig syscall.Signal) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	r.SetReadDeadline(time.Now().Add(patience))
	script := `(trap "" TERM INT HUP; setsid sleep 1000 >&2 &); echo agent $PPID >&2; sleep 1000; :`
	cmd := gorun(t.Context(), "--shutdown-timeout", "0", "--no-python", "/bin/sh", "-c", script)
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
	if err := syscall.Kill(pid[target], sig); err != nil {
		t.Fatal(err)
	}
	rest, err := io.ReadAll(lines)
	if err != nil {
		t.Fatalf("something is left: %v\n%s", err, rest)
	}
	cmd.Wait()
	want := 143
	if sig == syscall.SIGKILL {
		want = map[string]int{"keeper": -1, "agent": 137}[target]
	}
	if code := cmd.ProcessState.ExitCode(); code != want {
		t.Errorf("exit code %d, want %d\n%s", code, want, rest)
	}
	said := strings.Contains(string(rest), "gorun: the agent was killed by SIGKILL; ")
	if wanted := sig == syscall.SIGKILL && target == "agent"; said != wanted {
		t.Errorf("said %v, want %v:\n%s", said, wanted, rest)
	}
}
