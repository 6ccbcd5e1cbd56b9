package e2e_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// TestStatusFromEveryNode checks that every node reports the same about the job: nodes,
// the spare, ranks with the kernel's pids, the restart, and when a worker last printed
// something.
func TestStatusFromEveryNode(t *testing.T) {
	t.Parallel()
	j := newJob(t, "--max-restarts", "2")
	script := sh(`echo $$ >$E2E_DIR/pid.$TORCHELASTIC_RESTART_COUNT.$RANK; echo up $TORCHELASTIC_RESTART_COUNT; echo up >&2; ` +
		`[ $RANK.$TORCHELASTIC_RESTART_COUNT = 3.0 ] && { while [ ! -e $E2E_DIR/fail ]; do sleep 0.02; done; exit 5; }; ` +
		`while :; do [ $RANK = 2 ] && [ -e $E2E_DIR/speak ] && echo word >&2; sleep 0.02; done`)
	script = with(script, "--nproc-per-node", "2")
	agents := j.nodes(2, script...)
	for _, a := range agents {
		a.waitForStdout("up 0", 2)
	}
	agents = append(agents, j.node(3, "2", script...))
	agents[2].waitForStderr("the job runs on ")
	j.touch("fail")
	for _, a := range agents[:2] {
		a.waitForStdout("up 1", 2)
	}
	for _, a := range agents {
		eventually(t, longWait, "all ranks run again, by "+a.name, func() bool {
			s := a.status()
			return s.State == "running" && s.Restart == 1 && len(s.Nodes) == 3 && len(s.Nodes[1].Ranks) == 2
		})
		s := a.status()
		if s.RunID != j.id || s.Max != 2 || s.WorldSize != 4 || s.Note != "" || !strings.Contains(s.Failure, "exited with code 5") {
			t.Errorf("%s: %+v", a.name, s)
		}
		for i, n := range s.Nodes {
			group, standing := i, "active"
			if i == 2 {
				group, standing = -1, "spare"
			}
			if n.GroupRank != group || n.Standing != standing || !n.Answered || n.Addr != agents[i].name || n.Keeper != agents[i].keeper() || n.PID != agents[i].pid() {
				t.Errorf("%s, node %d: %+v", a.name, i, n)
			}
			for k, r := range n.Ranks {
				pid, err := os.ReadFile(filepath.Join(j.dir, fmt.Sprintf("pid.1.%d", r.Rank)))
				if err != nil || strings.TrimSpace(string(pid)) != fmt.Sprint(r.PID) || r.Rank != 2*i+k || r.State != "running" {
					t.Errorf("%s, node %d: %+v (its pid is %s, %v)", a.name, i, r, pid, err)
				}
				if _, err := os.Stat(fmt.Sprintf("/proc/%d", r.PID)); err != nil {
					t.Errorf("rank %d: %v", r.Rank, err)
				}
				if r.Seen != "stderr" || r.Output == nil {
					t.Errorf("rank %d: output %v, seen %s", r.Rank, r.Output, r.Seen)
				}
			}
		}
	}
	age := func() int64 { return *agents[0].status().Nodes[1].Ranks[0].Output }
	first := age()
	eventually(t, longWait, "the silence of rank 2 grows", func() bool { return age() > first+200 })
	j.touch("speak")
	eventually(t, longWait, "its word is seen", func() bool { return age() < 200 })
	out, stderr, code := runClient(t, agents[2].client("status"))
	for _, want := range []string{"run " + j.id + ": running", "restart 1 of 2", "127.0.0.3)  spare", "RANK", "nodes: 2 active, 1 waiting; ranks: 4 (4 running)"} {
		if code != 0 || !strings.Contains(out, want) {
			t.Errorf("no %q in the table (exit code %d, %s):\n%s", want, code, stderr, out)
		}
	}
	if _, stderr, code := runClient(t, agents[0].client("abort")); code != 0 {
		t.Errorf("abort: %d, %s", code, stderr)
	}
	j.wantExit(longWait, 143, agents...)
}

// TestStatusWithAStoppedAgent checks that a stopped agent hangs no gorun status, on
// whichever node the user asks.
func TestStatusWithAStoppedAgent(t *testing.T) {
	t.Parallel()
	j := newJob(t, "--rdzv-conf", "keep_alive_max_attempt=60")
	agents := j.nodes(2, sh(printRankForever)...)
	for _, a := range agents {
		a.waitForStdout("up", 1)
	}
	for target, a := range agents {
		other, pid := agents[1-target], a.pid()
		signal := func(sig syscall.Signal) {
			if err := syscall.Kill(pid, sig); err != nil {
				t.Errorf("cannot signal %d: %v", pid, err)
			}
		}
		asking := a.client("status") // which waits until it can be asked
		signal(syscall.SIGSTOP)
		eventually(t, shortWait, fmt.Sprintf("all threads of %d stop", pid), func() bool { return isStopped(pid) })
		s := other.status()
		if target == 1 { // the coordinator reports it
			if len(s.Nodes) != 2 || s.Nodes[1].Answered || !strings.Contains(s.Nodes[1].Trouble, "has not answered") || !s.Nodes[0].Answered {
				t.Errorf("%+v", s)
			}
		} else if s.State != "running" || !strings.Contains(s.Note, "has not answered") || !s.Nodes[1].Answered || s.Nodes[0].Answered {
			t.Errorf("%+v", s)
		}
		out, stderr, code := runClient(t, asking)
		if code != 1 || out != "" || !strings.Contains(stderr, fmt.Sprint(pid)) || !strings.Contains(stderr, "did not answer") {
			t.Errorf("of the stopped one: exit code %d, %q, %q", code, out, stderr)
		}
		signal(syscall.SIGCONT)
		eventually(t, longWait, "all nodes answer again", func() bool {
			s := other.status()
			return !slices.ContainsFunc(s.Nodes, func(n nodeStatus) bool { return !n.Answered })
		})
	}
	agents[0].signal(syscall.SIGTERM)
	j.wantExit(longWait, 143, agents...)
}

// TestManyStatusCalls checks that many calls of gorun status at the same time all get an
// answer, and do not disturb the job.
func TestManyStatusCalls(t *testing.T) {
	t.Parallel()
	j := newJob(t)
	agents := j.nodes(2, sh(`echo up; while [ ! -e $E2E_DIR/go ]; do sleep 0.02; done`)...)
	for _, a := range agents {
		a.waitForStdout("up", 1)
	}
	var wg sync.WaitGroup
	for i := range 40 {
		wg.Go(func() {
			if out, stderr, code := runClient(t, agents[i%2].client("status")); code != 0 || !strings.Contains(out, j.id) {
				t.Errorf("call %d: exit code %d, %q, %q", i, code, out, stderr)
			}
		})
	}
	wg.Wait()
	j.touch("go")
	j.wantExit(longWait, 0, agents...)
}

// TestStatusWatch checks that --watch prints the status every second until the job ends;
// Ctrl-C ends it with 130.
func TestStatusWatch(t *testing.T) {
	t.Parallel()
	j := newJob(t)
	a := j.run("alone", with(sh(printRankForever), "--standalone")...)
	a.waitForStdout("up", 1)
	var outs [2]output
	var cmds [2]*exec.Cmd
	for i := range cmds {
		cmds[i] = a.client("status", "--watch", "--json")
		cmds[i].Stdout = &outs[i]
		if err := cmds[i].Start(); err != nil {
			t.Fatal(err)
		}
		stop := time.AfterFunc(longWait, func() { _ = cmds[i].Process.Kill() })
		t.Cleanup(func() { stop.Stop() })
	}
	for i := range outs {
		eventually(t, longWait, "it is printed again", func() bool { return strings.Count(outs[i].String(), "\n") >= 2 })
	}
	if err := cmds[0].Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	_ = cmds[0].Wait()
	a.signal(syscall.SIGTERM)
	j.wantExit(longWait, 143, a)
	_ = cmds[1].Wait()
	if one, two := cmds[0].ProcessState.ExitCode(), cmds[1].ProcessState.ExitCode(); one != 130 || two != 0 {
		t.Errorf("exit codes %d and %d", one, two)
	}
	for line := range strings.Lines(outs[1].String()) {
		var s jobStatus
		if err := json.Unmarshal([]byte(line), &s); err != nil || len(s.Nodes) != 1 {
			t.Errorf("%v: %q", err, line)
		}
	}
}
