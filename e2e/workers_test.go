package e2e_test

import (
	"strings"
	"testing"
	"time"
)

// printRankForever is a worker that runs until a signal ends it.
const printRankForever = `echo up $RANK; while :; do sleep 0.1; done`

// onRank makes rank r run a script while the others stay.
func onRank(r, script string) []string {
	return sh(`if [ "$RANK" = ` + r + ` ]; then ` + script + `; else ` + printRankForever + `; fi`)
}

// TestWorkerFails checks that however a worker fails, every node says which one and how,
// and exits with the same code.
func TestWorkerFails(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, script string
		code         int
		text         string
	}{
		{"exit", "echo oops >&2; exit 3", 3, "exited with code 3"},
		{"killed", "kill -KILL $$", 137, "was killed by SIGKILL"},
		{"segfault", "ulimit -c 0; kill -SEGV $$", 139, "was killed by SIGSEGV"},
		{"terminated by another", "kill -TERM $$", 143, "was killed by SIGTERM"},
		{"exit 255", "exit 255", 255, "exited with code 255"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			j := newJob(t)
			agents := j.nodes(2, with(onRank("2", c.script), "--nproc-per-node", "2")...)
			j.wantExit(longWait, c.code, agents...)
			j.wantCause(agents, "rank 2 on ", c.text, "; exit code ")
			j.wantSameCause(agents...)
			if c.name == "exit" {
				for _, a := range agents {
					if !strings.Contains(a.err.String(), "stderr    : oops") {
						t.Errorf("%s does not report the end of the worker's standard error", a.name)
					}
				}
			}
		})
	}
}

// TestWorkerIgnoresTerm checks that a worker that ignores SIGTERM is killed after the
// grace period, not before.
func TestWorkerIgnoresTerm(t *testing.T) {
	t.Parallel()
	j := newJob(t)
	script := `trap "" TERM; touch $E2E_DIR/ready.$RANK; while :; do sleep 0.1; done`
	fail := `while [ ! -e $E2E_DIR/ready.1 ]; do sleep 0.01; done; date +%s%N >$E2E_DIR/failed; exit 3`
	agents := j.nodes(2, with(sh(`[ $RANK = 0 ] && { `+fail+`; }; `+script), "--shutdown-timeout", "1")...)
	j.wantExit(longWait, 3, agents...)
	j.wantSameCause(agents...)
	for _, a := range agents {
		took := a.ended.Sub(j.stamp("failed"))
		if took < 900*time.Millisecond || took > time.Second+shortWait {
			t.Errorf("%s ended %v after the failure, with a grace period of 1 s", a.name, took)
		}
	}
}

// TestWorkerLeavesDaemons checks that processes that left the worker's session die with
// it. So do processes that a successful worker left behind.
func TestWorkerLeavesDaemons(t *testing.T) {
	t.Parallel()
	daemons := `setsid sh -c '(trap "" TERM HUP; echo $$ >$E2E_DIR/d.$RANK; exec sleep 300) &' & ` +
		`while [ ! -s $E2E_DIR/d.0 ]; do sleep 0.01; done; `
	for name, c := range map[string]struct {
		script string
		code   int
	}{"failure": {"exit 4", 4}, "success": {"exit 0", 0}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := newJob(t, "--shutdown-timeout", "1")
			agents := j.nodes(2, sh(daemons+c.script)...)
			j.wantExit(longWait, c.code, agents...)
		})
	}
}
