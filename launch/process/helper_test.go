package process

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

const (
	// helperFlag, then a mode of runHelper, makes the test binary one of the processes
	// under test. It is an argument and no variable, because processes inherit the
	// environment: an agent would take itself for a keeper and start agents.
	helperFlag = "-helper"
	envToken   = "PROCESS_TEST_TOKEN" // marks all processes that one test started
	patience   = 20 * time.Second
)

func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == helperFlag {
		os.Exit(runHelper(os.Args[2]))
	}
	os.Exit(m.Run())
}

// testTable holds one test's table and the processes that it started.
type testTable struct {
	testing.TB
	*Table
	token string
	procs []*Process
	out   *os.File // output of the processes
	lines *bufio.Reader
	write *os.File
}

var tokens atomic.Int64

func newTestTable(t testing.TB) *testTable {
	t.Helper()
	table, err := Open()
	if err != nil {
		t.Fatal(err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	b := &testTable{TB: t, Table: table, out: r, write: w, lines: bufio.NewReader(r)}
	b.token = fmt.Sprintf("%s=%d.%d", envToken, os.Getpid(), tokens.Add(1))
	t.Cleanup(func() {
		if _, err := b.Stop(context.Background(), StopOptions{}, b.procs...); err != nil {
			t.Error(err)
		}
		b.nothingLeft()
		b.Close()
		r.Close()
		w.Close()
	})
	return b
}

func (b *testTable) start(s Spec) *Process {
	b.Helper()
	if s.Env == nil {
		s.Env = os.Environ()
	}
	s.Env = append(s.Env, b.token)
	if s.Stdout == nil {
		s.Stdout, s.Stderr = b.write, os.Stderr
	}
	p, err := b.Table.Start(s)
	if err != nil {
		b.Fatal(err)
	}
	b.procs = append(b.procs, p)
	return p
}

func shell(script string) Spec {
	return Spec{Path: "/bin/sh", Args: []string{"sh", "-c", script}, Session: true}
}

// shellThen runs a script and then, in the same process, the test binary in a mode of runHelper.
func shellThen(script, mode string) Spec {
	return Spec{Path: "/bin/sh", Args: []string{"sh", "-c", script + ` exec "$0" "$@"`, os.Args[0], helperFlag, mode}, Session: true}
}

func (b *testTable) shell(script string) *Process { b.Helper(); return b.start(shell(script)) }

// helper starts the test binary in a mode of runHelper.
func (b *testTable) helper(mode string) *Process {
	b.Helper()
	return b.start(Spec{Path: "/proc/self/exe", Args: []string{"helper", helperFlag, mode}, Session: true})
}

// line returns the next line that a process of this bench prints.
func (b *testTable) line() string {
	b.Helper()
	b.out.SetReadDeadline(time.Now().Add(patience))
	s, err := b.lines.ReadString('\n')
	if err != nil {
		b.Fatalf("no line within %v: %v", patience, err)
	}
	return strings.TrimSpace(s)
}

// expect reads lines, in any order, until each of want has come.
func (b *testTable) expect(want ...string) {
	b.Helper()
	missing := map[string]int{}
	for _, w := range want {
		missing[w]++
	}
	for n := len(want); n > 0; n-- {
		got := b.line()
		if missing[got] == 0 {
			b.Fatalf("line %q, want one of %v", got, missing)
		}
		missing[got]--
	}
}

func (b *testTable) exit(p *Process) Exit {
	b.Helper()
	select {
	case <-p.Done():
		return p.Exit()
	case <-time.After(patience):
		b.Fatalf("process %d still lives after %v", p.Pid(), patience)
		panic("unreachable")
	}
}

func (b *testTable) stop(o StopOptions, procs ...*Process) (killed int) {
	b.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	killed, err := b.Stop(ctx, o, procs...)
	if err != nil {
		b.Fatal(err)
	}
	if ctx.Err() != nil {
		b.Fatalf("the grace ended only after %v", patience)
	}
	return killed
}

// alive returns the processes that carry the token in their environment.
func alive(token string) (pids []int) {
	files, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, f := range files {
		env, err := os.ReadFile(f) // empty for a zombie
		if err == nil && bytes.Contains(append(env, 0), append([]byte(token), 0)) {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(f)))
			pids = append(pids, pid)
		}
	}
	return pids
}

func (b *testTable) nothingLeft() {
	b.Helper()
	for _, pid := range alive(b.token) {
		cmdline, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		b.Errorf("process %d is left: %q", pid, cmdline)
		syscall.Kill(pid, syscall.SIGKILL)
	}
}

func until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(time.Millisecond) { // sleep: polls a condition
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", patience, what)
		}
	}
}

// daemon is a script that leaves a process of its own session, forked twice. The
// process ignores SIGTERM, SIGINT and SIGHUP and says so.
func daemon(says string) string {
	return `(setsid sh -c 'trap "" TERM INT HUP; echo ` + says + `; sleep 1000; :' &);`
}

// runHelper runs the test binary as one of the processes under test.
func runHelper(mode string) int {
	mode, arg, _ := strings.Cut(mode, ":")
	fail := func(err error) int {
		fmt.Fprintln(os.Stderr, err)
		return 99
	}
	switch mode {
	case "open": // says whether a table can be opened
		if _, err := Open(); err != nil {
			fmt.Println(err)
		} else {
			fmt.Println("opened")
		}
	case "run": // runs a script in a table
		table, err := Open()
		if err != nil {
			return fail(err)
		}
		s := shell(arg)
		s.Stdout, s.Stderr = os.Stdout, os.Stderr
		p, err := table.Start(s)
		if err != nil {
			return fail(err)
		}
		<-p.Done()
		if _, err := table.Stop(context.Background(), StopOptions{Grace: patience}, p); err != nil {
			return fail(err)
		}
		fmt.Println("stopped")
	case "fds":
		names, _ := filepath.Glob("/proc/self/fd/*")
		for _, name := range names {
			link, _ := os.Readlink(name)
			fmt.Println(filepath.Base(name), link)
		}
		fmt.Println("end")
	case "forwarded":
		fmt.Println(Forwarded())
	case "pid1":
		return runPID1()
	case "trace":
		runtime.LockOSThread()
		pid, _ := strconv.Atoi(arg)
		if err := runTracer(pid); err != nil {
			return fail(err)
		}
	case "keeper":
		return runKeeper(arg)
	case "agent":
		return runAgent(arg)
	default:
		return fail(fmt.Errorf("no mode %q", mode))
	}
	return 0
}

// runKeeper runs a keeper of the number of agents that arg says.
func runKeeper(arg string) int {
	n, _ := strconv.Atoi(arg)
	k := Keeper{OnExit: func(i int, e Exit, killed int) {
		fmt.Printf("agent %d %v, killed %v\n", i, e, killed > 0)
	}}
	for i := range n {
		k.Agents = append(k.Agents, Spec{
			Path: "/proc/self/exe", Args: []string{"agent", helperFlag, fmt.Sprintf("agent:%d", i)},
			Stdout: os.Stdout, Stderr: os.Stderr,
		})
	}
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, Forwarded()...)
	k.Signals = signals
	if err := k.Run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 99
	}
	return 0
}

// runAgent starts a worker and a daemon that both ignore signals. It waits for
// SIGTERM (then it ends and leaves all of it) or for the keeper's end (then it
// stops all of it).
func runAgent(name string) int {
	table, err := Open()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 99
	}
	line, err := OpenLifeline(LifelineFD)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 99
	}
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGUSR1)
	line.SendReady()
	s := shell(daemon("daemon "+name) + ` trap "" TERM; echo worker ` + name + `; sleep 1000; :`)
	s.Stdout = os.Stdout
	p, err := table.Start(s)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 99
	}
	fmt.Printf("agent %s pid %d group %v\n", name, os.Getpid(), syscall.Getpgrp() == os.Getpid())
	for {
		select {
		case sig := <-signals:
			fmt.Printf("agent %s got %v\n", name, sig)
			if sig == syscall.SIGTERM {
				return 7
			}
		case <-line.Lost():
			table.Stop(context.Background(), StopOptions{}, p)
			fmt.Printf("agent %s is alone\n", name)
			return 8
		}
	}
}

// runPID1 makes orphans that end, as PID 1, and checks that none stays a zombie.
func runPID1() int {
	table, err := Open()
	if err != nil {
		fmt.Println(err)
		return 99
	}
	p, err := table.Start(shell(`for i in 1 2 3 4 5 6 7 8 9 10; do (sh -c 'exit 3' &); done; (setsid sleep 1000 &)`))
	if err != nil {
		fmt.Println(err)
		return 99
	}
	<-p.Done()
	zombies := func() (n int) {
		pids, _ := table.fs.children(os.Getpid())
		for _, pid := range pids {
			if s, err := table.fs.stat(pid); err == nil && s.isZombie() {
				n++
			}
		}
		return n
	}
	end := time.Now().Add(patience)
	for zombies() > 0 && time.Now().Before(end) {
		time.Sleep(time.Millisecond) // sleep: polls a condition
	}
	_, err = table.Stop(context.Background(), StopOptions{Grace: time.Second}, p)
	fmt.Printf("pid %d zombies %d stop %v\n", os.Getpid(), zombies(), err)
	return 0
}
