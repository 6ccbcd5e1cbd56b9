package standby

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gorun/gorun/launch/process"
	"github.com/gorun/gorun/launch/workers"
)

// hostVariable tells a copy of this test program to be the host of a task: KEY LOCAL.
const hostVariable = "STANDBY_TEST_HOST"

func TestMain(m *testing.M) {
	if key, local, host := strings.Cut(os.Getenv(hostVariable), " "); host {
		n, _ := strconv.Atoi(local)
		err := RunWorkers(context.Background(), Self{Key: key, Local: n, Env: os.Environ(), Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr}, 10*time.Second)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// node is a node with two tasks; the second one has a host process.
type node struct {
	*Tasks
	t     *testing.T
	table *process.Table
	host  *process.Process
	lost  chan int
	out   *bufio.Scanner // what the host and its workers print
	end   *os.File       // the end of the pipe to write to
}

func newNode(t *testing.T) *node {
	t.Helper()
	n := &node{t: t, lost: make(chan int, 1)}
	var err error
	if n.table, err = process.Open(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.table.Close)
	k := key(t)
	if n.Tasks, err = Listen(k, 2, workers.Processes(n.table), func(local int) { n.lost <- local }); err != nil {
		t.Fatal(err)
	}
	n.Serve()
	t.Cleanup(n.Close)
	rd, wr, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { rd.Close(); wr.Close() })
	_ = rd.SetReadDeadline(time.Now().Add(30 * time.Second))
	n.out, n.end = bufio.NewScanner(rd), wr
	n.host, err = n.table.Start(process.Spec{
		Path: "/proc/self/exe", Args: []string{"host"}, Stdout: wr, Stderr: wr,
		Env: []string{hostVariable + "=" + k + " 1", "OF_THE_TASK=yes"}, Session: true, Death: syscall.SIGKILL,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = n.table.Stop(context.Background(), process.StopOptions{}, n.host) })
	if err := n.Wait(t.Context(), 10*time.Second); err != nil {
		t.Fatal(err)
	}
	return n
}

// start starts a shell command in both tasks and returns the lines that it prints first,
// sorted.
func (n *node) start(command string) (procs []workers.Process, lines []string) {
	n.t.Helper()
	specs := make([]process.Spec, 2)
	for i := range specs {
		specs[i] = process.Spec{
			Path: "/bin/sh", Args: []string{"sh", "-c", command, "worker-of-a-test", strconv.Itoa(i)}, Env: []string{"PATH=" + os.Getenv("PATH"), "TEXT=\xff\n"},
			Dir: "/", Stdout: n.end, Stderr: n.end, Session: true, Death: syscall.SIGKILL,
		}
	}
	procs, err := n.StartAll(specs)
	if err != nil {
		n.t.Fatal(err)
	}
	for range procs {
		if !n.out.Scan() {
			n.t.Fatal("no line: ", n.out.Err())
		}
		lines = append(lines, n.out.Text())
	}
	slices.Sort(lines)
	return procs, lines
}

// TestWorkersRunInTheirTasks checks that each worker is a child of its task, gets what
// the agent says, and that its exit code and signals pass. A task starts a second
// worker after the first.
func TestWorkersRunInTheirTasks(t *testing.T) {
	n := newNode(t)
	if all := n.Workers(true); len(all) != 2 || !slices.Contains(all[1].Env, "OF_THE_TASK=yes") || all[1].Threads.Workers != 2 || all[1].Threads.Cores < 1 {
		t.Errorf("tasks %+v", all)
	}
	for round := range 2 {
		procs, lines := n.start(`(trap "" USR1; exec sleep 600) & trap 'exit $((7 + $1))' USR1; echo "$1 $PPID $(pwd) ${#TEXT}"; wait`)
		for i, parent := range []int{os.Getpid(), n.host.Pid()} {
			if f := strings.Fields(lines[i]); len(f) != 4 || f[0] != strconv.Itoa(i) || f[1] != strconv.Itoa(parent) || f[2] != "/" {
				t.Errorf("round %d: %q, want the child of %d", round, lines[i], parent)
			}
			if err := procs[i].Signal(syscall.SIGUSR1); err != nil {
				t.Error(err)
			}
		}
		for i, p := range procs {
			if e := p.Exit(); e.Code != 7+i || e.Signal != 0 || time.Since(e.At).Abs() > time.Minute {
				t.Errorf("round %d: worker %d: %+v", round, i, e)
			}
			if err := p.Signal(syscall.SIGTERM); !errors.Is(err, os.ErrProcessDone) {
				t.Errorf("signal to an ended worker: %v", err)
			}
		}
		if err := n.Stop(process.StopOptions{}, procs); err != nil {
			t.Error(err)
		}
	}
}

// TestStopEndsWhatAWorkerLeft checks that the stop of a worker in another task ends its
// descendants, too, within the grace period and after it.
func TestStopEndsWhatAWorkerLeft(t *testing.T) {
	n := newNode(t)
	for _, grace := range []time.Duration{10 * time.Second, 0} {
		procs, lines := n.start(`setsid sleep 600 & echo "$!"; wait`)
		if err := n.Stop(process.StopOptions{Grace: grace}, procs); err != nil {
			t.Fatal(err)
		}
		for i, p := range procs {
			if e := p.Exit(); e.Signal == 0 {
				t.Errorf("worker %d: %v", i, e)
			}
			if _, err := os.Stat("/proc/" + lines[i]); err == nil {
				t.Errorf("process %s of worker %d is left", lines[i], i)
			}
		}
	}
}

// TestTaskEnds checks that the worker of a killed task counts as killed, and that the
// next start names the task.
func TestTaskEnds(t *testing.T) {
	n := newNode(t)
	procs, _ := n.start(`echo "$1"; exec sleep 600`)
	if err := n.host.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if e := procs[1].Exit(); e.Signal != syscall.SIGKILL {
		t.Errorf("%v", e)
	}
	if local := <-n.lost; local != 1 {
		t.Errorf("task %d is lost", local)
	}
	if err := n.Stop(process.StopOptions{}, procs); err != nil {
		t.Error(err)
	}
	own := process.Spec{Path: "/bin/true", Stdout: n.end, Stderr: n.end}
	started, err := n.StartAll([]process.Spec{own, own})
	if !errors.Is(err, errLost) || started[0] == nil || started[1] != nil {
		t.Errorf("%v, %v", started, err)
	}
}

// TestAgentEnds checks that a task kills its worker and what that left when the
// connection to the agent ends.
func TestAgentEnds(t *testing.T) {
	n := newNode(t)
	_, lines := n.start(`setsid sleep 600 & echo "$$ $!"; wait`)
	n.Close()
	if e := n.host.Exit(); !e.Success() {
		t.Errorf("the host %v", e)
	}
	left := 0
	for _, line := range lines {
		for _, pid := range strings.Fields(line) {
			if _, err := os.Stat(filepath.Join("/proc", pid)); err == nil {
				left++
			}
		}
	}
	if left != 2 { // those of the agent's own task
		t.Errorf("%d processes are left", left)
	}
	select {
	case local := <-n.lost:
		t.Errorf("task %d counts as lost after Close", local)
	default:
	}
	_, _ = n.table.Stop(context.Background(), process.StopOptions{})
}

// TestStartErrorsKeepTheirMeaning checks that a caller learns why a task cannot start
// its worker.
func TestStartErrorsKeepTheirMeaning(t *testing.T) {
	n := newNode(t)
	ok := process.Spec{Path: "/bin/true", Stdout: n.end, Stderr: n.end}
	missing := process.Spec{Path: "/nonesuch", Args: []string{"nonesuch"}, Stdout: n.end, Stderr: n.end}
	started, err := n.StartAll([]process.Spec{ok, missing})
	if !errors.Is(err, os.ErrNotExist) || started[0] == nil || started[1] != nil {
		t.Errorf("%v, %v", started, err)
	}
}

// TestTaskThatDoesNotAppear checks that the error names the task that did not come, and
// that a stranger's local rank does not count.
func TestTaskThatDoesNotAppear(t *testing.T) {
	k := key(t)
	n, err := Listen(k, 3, nil, func(int) {})
	if err != nil {
		t.Fatal(err)
	}
	n.Serve()
	defer n.Close()
	for _, local := range []int{0, 3} {
		c, err := dial(t.Context(), workersAddress(k), time.Second)
		if err != nil {
			t.Fatal(err)
		}
		if err := send(c, message{Kind: kindHello, Local: local}, os.Stdout, os.Stderr); err != nil {
			t.Fatal(err)
		}
		if _, _, err := receive(c); err == nil {
			t.Errorf("local rank %d: no end", local)
		}
		c.Close()
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := n.Wait(ctx, time.Minute); err == nil || !strings.HasSuffix(err.Error(), "local rank 1, 2") {
		t.Error(err)
	}
}
