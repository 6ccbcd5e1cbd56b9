package e2e_test

import (
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// noteSignals is a worker that notes which signals it gets and ends with 0.
const noteSignals = `for s in TERM INT HUP QUIT; do trap "echo $s >>$E2E_DIR/got.$RANK; exit 0" $s; done; ` + printRankForever

// signalsOf returns the signals that a worker noted.
func (j *job) signalsOf(rank int) string {
	b, _ := os.ReadFile(filepath.Join(j.dir, fmt.Sprint("got.", rank)))
	return strings.Join(strings.Fields(string(b)), " ")
}

// TestSignalEndsJob checks that a signal to one gorun ends the whole job: every worker
// on every node gets exactly that signal, once, and every node exits with 128+n.
func TestSignalEndsJob(t *testing.T) {
	t.Parallel()
	for _, sig := range []syscall.Signal{unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGQUIT} {
		for target, where := range map[int]string{0: "endpoint", 1: "member"} {
			t.Run(unix.SignalName(sig)+" to "+where, func(t *testing.T) {
				t.Parallel()
				if signal.Ignored(sig) {
					t.Skip("this signal is ignored here, as under nohup, and gorun respects that")
				}
				j := newJob(t)
				agents := j.nodes(2, with(sh(noteSignals), "--nproc-per-node", "2")...)
				for _, a := range agents {
					a.waitForStdout("up", 2)
				}
				agents[target].signal(sig)
				j.wantExit(shortWait, 128+int(sig), agents...)
				j.wantCause(agents, "stopped:", "127.0.0."+fmt.Sprint(target+1), "received "+unix.SignalName(sig))
				j.wantSameCause(agents...)
				for rank := range 4 {
					if got, want := j.signalsOf(rank), strings.TrimPrefix(unix.SignalName(sig), "SIG"); got != want {
						t.Errorf("rank %d got %q, want %q", rank, got, want)
					}
				}
			})
		}
	}
}

// TestSecondSignalKills checks that a second signal ends the grace period everywhere,
// for workers that ignore the first.
func TestSecondSignalKills(t *testing.T) {
	t.Parallel()
	for target, where := range []string{"endpoint", "member"} {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			j := newJob(t)
			agents := j.nodes(2, with(sh(`trap "" TERM INT; `+printRankForever), "--nproc-per-node", "2")...)
			for _, a := range agents {
				a.waitForStdout("up", 2)
			}
			agents[target].signal(unix.SIGINT)
			for _, a := range agents {
				a.waitForStderr("stopping the workers")
			}
			second := time.Now()
			agents[target].signal(unix.SIGINT)
			j.wantExit(shortWait, 130, agents...)
			for _, a := range agents {
				if took := a.ended.Sub(second); took > shortWait {
					t.Errorf("%s ended %v after the second signal", a.name, took)
				}
			}
			j.wantNoProcess()
		})
	}
}

// TestSignalWhileWaiting checks that a signal while the nodes meet ends that node; the
// others go on waiting.
func TestSignalWhileWaiting(t *testing.T) {
	t.Parallel()
	for target, where := range []string{"endpoint", "member"} {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			j := newJob(t, "--rdzv-conf", "join_timeout=6")
			two := []*agent{j.node(1, "3", sh("exit 0")...), j.node(2, "3", sh("exit 0")...)}
			for _, a := range two {
				a.waitForStderr("have 2 of 3 nodes")
			}
			two[target].signal(unix.SIGTERM)
			j.wantExit(shortWait, 143, two[target])
			j.wantCause(two[target:target+1], "received SIGTERM")
			if code := two[1-target].wait(longWait); code != 143 && code != 75 {
				t.Errorf("the other ended with %d", code)
			}
		})
	}
}

// TestUserSignals checks that USR1 and USR2 reach the workers of that node, once each,
// and end nothing.
func TestUserSignals(t *testing.T) {
	t.Parallel()
	j := newJob(t)
	note := `for s in USR1 USR2; do trap "echo $s >>$E2E_DIR/got.$RANK" $s; done; `
	agents := j.nodes(2, with(sh(note+untilGo), "--nproc-per-node", "2")...)
	for _, a := range agents {
		a.waitForStdout("up", 2)
	}
	for i, want := range []string{"USR1", "USR1 USR2"} {
		agents[0].signal([]syscall.Signal{unix.SIGUSR1, unix.SIGUSR2}[i])
		eventually(t, longWait, "both workers got "+want, func() bool { return j.signalsOf(0) == want && j.signalsOf(1) == want })
	}
	j.touch("go")
	j.wantExit(shortWait, 0, agents...)
	for rank, want := range []string{"USR1 USR2", "USR1 USR2", "", ""} {
		if got := j.signalsOf(rank); got != want {
			t.Errorf("rank %d got %q, want %q", rank, got, want)
		}
	}
}
