package timer

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// play is a server without a clock and without processes of its own.
type play struct {
	*Server
	clock time.Time
	sent  []string
	notes []string
}

func newPlay() *play {
	p := &play{clock: time.Unix(1000, 0)}
	p.Server = &Server{
		timers: map[key]request{}, now: func() time.Time { return p.clock },
		kill: func(pid int, sig syscall.Signal) error {
			p.sent = append(p.sent, fmt.Sprintf("%d %s", pid, name(sig)))
			return nil
		},
		opts: Options{IsWorkers: func(pid int) bool { return pid < 100 }, Note: func(text string) { p.notes = append(p.notes, text) }},
	}
	return p
}

// line applies what a client writes.
func (p *play) line(t *testing.T, pid int, scope string, expiration float64, sig int) {
	t.Helper()
	r, ok := parse(fmt.Appendf(nil, `{"version": 1, "pid": %d, "scope_id": %q, "expiration_time": %f, "signal": %d}`+"\n", pid, scope, expiration, sig))
	if !ok {
		t.Fatal("a request is no request")
	}
	p.apply(r)
}

func TestExpire(t *testing.T) {
	p := newPlay()
	p.line(t, 7, "a", 1005, 9)
	p.line(t, 7, "b", 1000.5, 0) // has no signal
	p.line(t, 8, "a", 1002, 15)
	p.line(t, 9, "a", 1001, 9)
	p.line(t, 9, "a", -1, 0)
	p.line(t, 500, "a", 1001, 9)
	if wait := p.expire(); wait != 500*time.Millisecond || p.sent != nil {
		t.Errorf("a wait of %v, sent %q", wait, p.sent)
	}
	p.clock = p.clock.Add(1500 * time.Millisecond) // b expires and clears all timers of 7, as torch's server does
	if wait := p.expire(); p.sent != nil || len(p.notes) != 1 || !strings.Contains(p.notes[0], "no worker of this node") || wait != 500*time.Millisecond {
		t.Errorf("a wait of %v, sent %q, notes %q", wait, p.sent, p.notes)
	}
	p.line(t, 8, "z", 1001, 10)
	p.clock = p.clock.Add(10 * time.Second)
	if p.expire(); fmt.Sprint(p.sent) != "[8 SIGUSR1]" || len(p.timers) != 0 {
		t.Errorf("sent %q, timers %v", p.sent, p.timers)
	}
}

func TestManyTimers(t *testing.T) {
	p := newPlay()
	for i := range maxTimers + 1 {
		p.line(t, 7, fmt.Sprint(i), 2000, 9)
	}
	for range 3 * maxNotes {
		p.line(t, 7, "one more", 2000, 9)
	}
	if p.line(t, 7, "0", 3000, 9); len(p.timers) != maxTimers || len(p.notes) != maxNotes {
		t.Errorf("%d timers, notes %q", len(p.timers), p.notes)
	}
}

// TestServer checks that a server kills a process, although others write nonsense.
func TestServer(t *testing.T) {
	path := filepath.Join(t.TempDir(), "timers")
	sleeper := exec.Command("sleep", "600")
	if err := sleeper.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = sleeper.Process.Kill() }()
	notes := make(chan string, 100)
	server, err := Open(Options{Path: path, IsWorkers: func(pid int) bool { return Below(map[int]bool{os.Getpid(): true}, pid) }, Note: func(text string) { notes <- text }})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); server.Run(ctx) }()
	write := func(text string) {
		f, err := os.OpenFile(path, os.O_WRONLY|unix.O_NONBLOCK, 0) // as torch's client
		if err == nil {
			_, err = f.WriteString(text)
			f.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	write("nonsense\n")
	write(strings.Repeat("x", 3*maxLine) + "\n")
	write(fmt.Sprintf(`{"version": 1, "pid": %d, "scope_id": "s", "expiration_time": 1.5, "signal": 9}`+"\n", sleeper.Process.Pid))
	for _, want := range []string{"no request", "no request", `the timer "s" of process`} {
		select {
		case got := <-notes:
			if !strings.Contains(got, want) {
				t.Errorf("%q, want %q", got, want)
			}
		case <-time.After(time.Minute):
			t.Fatalf("no note with %q", want)
		}
	}
	_ = sleeper.Wait()
	if ws := sleeper.ProcessState.Sys().(syscall.WaitStatus); ws.Signal() != syscall.SIGKILL {
		t.Errorf("the process has ended with %v", sleeper.ProcessState)
	}
	stop()
	<-done
	if _, err := os.Lstat(path); err == nil {
		t.Error("the pipe outlives the server")
	}
}

func TestOpen(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(dir+"/file", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(dir+"/left", 0o600); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"file": "exists and is no named pipe", "none/x": "mkfifo", "left": "", "new": ""} {
		s, err := Open(Options{Path: filepath.Join(dir, name)})
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
		if err == nil {
			s.Close()
		}
	}
}

func TestBelow(t *testing.T) {
	if pid := os.Getpid(); !Below(map[int]bool{pid: true}, pid) || !Below(map[int]bool{os.Getppid(): true}, pid) || Below(map[int]bool{pid: true}, os.Getppid()) || Below(nil, 1<<30) {
		t.Error("a process and its parent are taken for each other")
	}
}

// FuzzRequests checks that no line makes a server signal a process of others, keep too
// much, or wait for ever.
func FuzzRequests(f *testing.F) {
	f.Add([]byte(`{"version": 1, "pid": 7, "scope_id": "a", "expiration_time": 999.5, "signal": 9}`))
	f.Add([]byte(`{"pid": -1, "expiration_time": 1e308, "signal": 9}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		r, ok := parse(line)
		if !ok {
			return
		}
		p := newPlay()
		p.apply(r)
		if wait := p.expire(); wait <= 0 || wait > maxWait {
			t.Errorf("a wait of %v", wait)
		}
		if len(p.sent) > 0 && (r.PID < 2 || r.PID >= 100 || r.Signal < 1 || r.Signal > maxSignal) {
			t.Errorf("%+v: sent %q", r, p.sent)
		}
	})
}
