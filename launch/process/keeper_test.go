package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

func contains(s string, parts ...string) bool {
	for _, p := range parts {
		if !strings.Contains(s, p) {
			return false
		}
	}
	return true
}

// keeper starts a keeper of n agents, waits until all processes are up, and returns
// the agents' pids. Each agent has a worker and a daemon, each with a sleep.
func (b *testTable) keeper(n int) (keeper *Process, agents []int) {
	b.Helper()
	keeper = b.helper(fmt.Sprintf("keeper:%d", n))
	agents = make([]int, n)
	for range 3 * n {
		line := b.line()
		var i, pid int
		if _, err := fmt.Sscanf(line, "agent %d pid %d group true", &i, &pid); err == nil {
			agents[i] = pid
		} else if !strings.HasPrefix(line, "daemon ") && !strings.HasPrefix(line, "worker ") {
			b.Fatalf("unexpected %q", line)
		}
	}
	return keeper, agents
}

func TestKeeperKillsWhatAKilledAgentLeft(t *testing.T) {
	b := newTestTable(t)
	keeper, agents := b.keeper(1)
	syscall.Kill(agents[0], syscall.SIGKILL)
	b.expect("agent 0 was killed by SIGKILL, killed true")
	b.nothingLeftBut(keeper)
	if e := b.exit(keeper); !e.Success() {
		t.Error(e)
	}
}

// nothingLeftBut checks that all of the test's processes except p have ended.
func (b *testTable) nothingLeftBut(p *Process) {
	b.Helper()
	for _, pid := range alive(b.token) {
		if pid != p.Pid() {
			b.Errorf("process %d is left", pid)
		}
	}
}

func TestKeeperKillsWhatAnExitedAgentLeft(t *testing.T) {
	b := newTestTable(t)
	keeper, _ := b.keeper(1)
	syscall.Kill(keeper.Pid(), syscall.SIGTERM) // passed on
	b.expect("agent 0 got terminated")
	b.expect("agent 0 exited with code 7, killed true")
	b.nothingLeftBut(keeper)
	b.exit(keeper)
}

func TestKeeperSparesTheOtherAgent(t *testing.T) {
	b := newTestTable(t)
	keeper, agents := b.keeper(2)
	// A keeper, two agents, two workers and two daemons, each with a sleep.
	until(t, "all 11 processes are there", func() bool { return len(alive(b.token)) == 11 })
	syscall.Kill(agents[0], syscall.SIGKILL)
	b.expect("agent 0 was killed by SIGKILL, killed true")
	if left := alive(b.token); len(left) != 6 {
		t.Errorf("%d processes are left, want 6", len(left))
	}
	syscall.Kill(keeper.Pid(), syscall.SIGTERM)
	b.expect("agent 1 got terminated")
	b.expect("agent 1 exited with code 7, killed true")
	b.exit(keeper)
	b.nothingLeft()
}

func TestAgentSeesKeeperEnd(t *testing.T) {
	b := newTestTable(t)
	keeper, _ := b.keeper(2)
	syscall.Kill(keeper.Pid(), syscall.SIGKILL)
	b.expect("agent 0 is alone", "agent 1 is alone")
	until(t, "the agents have ended", func() bool { return len(alive(b.token)) == 0 })
}

func TestKeeperForwardsOnce(t *testing.T) {
	b := newTestTable(t)
	keeper, agents := b.keeper(2)
	// Signal the whole group, as a terminal does: the agents are not in it.
	if err := keeper.Signal(syscall.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	b.expect("agent 0 got user defined signal 1", "agent 1 got user defined signal 1")
	// A second delivery would be among the lines that follow.
	for i, pid := range agents {
		syscall.Kill(pid, syscall.SIGTERM)
		b.expect(fmt.Sprintf("agent %d got terminated", i))
		b.expect(fmt.Sprintf("agent %d exited with code 7, killed true", i))
	}
	b.exit(keeper)
}

// TestPipeEndsWithTheAgents gives an agent the end of a pipe that another one reads: the
// reader sees the writer's end, because the keeper has no copy.
func TestPipeEndsWithTheAgents(t *testing.T) {
	rd, wr, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	var ends []Exit
	k := Keeper{
		Agents: []Spec{
			{Path: "/bin/true", Args: []string{"true"}, ExtraFiles: []*os.File{wr}},
			{Path: "/bin/sh", Args: []string{"sh", "-c", fmt.Sprintf("cat <&%d", LifelineFD+1)}, ExtraFiles: []*os.File{rd}},
		},
		OnExit: func(_ int, e Exit, _ int) { ends = append(ends, e) },
	}
	if err := k.Run(ctx); err != nil {
		t.Error(err)
	}
	if len(ends) != 2 || !ends[0].Success() || !ends[1].Success() {
		t.Error(ends)
	}
}

// TestAgentThatCannotEnd checks that the exit code that an agent has sent counts if its
// process does not end.
func TestAgentThatCannotEnd(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), endTimeout+20*time.Second)
	defer cancel()
	ends := map[int]Exit{}
	send := func(agent, code int, then string) Spec {
		return Spec{Path: "/bin/sh", Args: []string{"sh", "-c", fmt.Sprintf(`printf '\%03o\000\%03o\%03o' >&%d; %s`, lifelineEnd, agent, code, LifelineFD, then)}}
	}
	k := Keeper{
		Agents: []Spec{send(0, 3, "exec sleep 1000"), send(1, 4, "exit 5")},
		OnExit: func(agent int, e Exit, _ int) { ends[agent] = e },
	}
	if err := k.Run(ctx); err != nil || ctx.Err() != nil {
		t.Error(err, ctx.Err())
	}
	if ends[0].Code != 3 || ends[1].Code != 5 || ends[0].Signal != 0 {
		t.Error(ends)
	}
}

// TestKeeperRun checks the keeper in this process: a cancelled context, a failed
// start.
func TestKeeperRun(t *testing.T) {
	signals := make(chan os.Signal, 1)
	var ends []Exit
	k := Keeper{
		Agents: []Spec{
			{Path: "/bin/sleep", Args: []string{"sleep", "1000"}},
			{Path: "/bin/sleep", Args: []string{"sleep", "1000"}},
		},
		Signals: signals,
		OnExit:  func(_ int, e Exit, killed int) { ends = append(ends, e) },
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := k.Run(ctx); err != nil {
		t.Error(err)
	}
	if len(ends) != 2 || ends[0].Signal != syscall.SIGKILL || ends[1].Signal != syscall.SIGKILL {
		t.Error("cancelled:", ends)
	}

	ends = nil
	signals <- syscall.SIGTERM
	close(signals)
	if err := k.Run(context.Background()); err != nil {
		t.Error(err)
	}
	if len(ends) != 2 || ends[0].Signal != syscall.SIGTERM || ends[1].Signal != syscall.SIGTERM {
		t.Error("signalled:", ends)
	}

	ends = nil
	k.Agents[1].Path = "/no/such/agent"
	if err := k.Run(context.Background()); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	if len(ends) != 0 {
		t.Error("not started:", ends)
	}
	fs, err := openProcfs("/proc", os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	until(t, "no child is left", func() bool {
		left, err := fs.children(os.Getpid())
		return err == nil && len(left) == 0
	})
}

func TestLifeline(t *testing.T) {
	pair := func() (fd int, keepers *os.File) {
		agentEnd, keeperEnd, err := newLifeline()
		if err != nil {
			t.Fatal(err)
		}
		defer agentEnd.Close()
		if fd, err = syscall.Dup(int(agentEnd.Fd())); err != nil {
			t.Fatal(err)
		}
		return fd, keeperEnd
	}
	r, w := pair()
	l, err := OpenLifeline(r)
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-l.Lost():
		t.Error("lost while the other end is open")
	default:
	}
	l.SendReady() // the byte is not read, as with a keeper that is killed at once
	w.Close()
	until(t, "lost", func() bool {
		select {
		case <-l.Lost():
			return true
		default:
			return false
		}
	})
	l.Close()

	r, w = pair()
	defer w.Close()
	if l, err = OpenLifeline(r); err != nil {
		t.Fatal(err)
	}
	l.Close()
	select {
	case <-l.Lost():
		t.Error("lost by closing it")
	default:
	}

	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	for _, fd := range []int{int(null.Fd()), 1 << 20} {
		if _, err := OpenLifeline(fd); err == nil {
			t.Errorf("descriptor %d is taken for a lifeline", fd)
		}
	}
}
