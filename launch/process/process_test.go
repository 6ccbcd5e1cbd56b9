package process

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestExit(t *testing.T) {
	b := newTestTable(t)
	for _, tt := range []struct {
		script string
		want   Exit
		status int
		words  string
	}{
		{"exit 0", Exit{}, 0, "exited with code 0"},
		{"exit 3", Exit{Code: 3}, 3, "exited with code 3"},
		{"exit 255", Exit{Code: 255}, 255, "exited with code 255"},
		{"kill -9 $$", Exit{Code: -1, Signal: syscall.SIGKILL}, 137, "was killed by SIGKILL"},
		{"ulimit -c 0; kill -SEGV $$", Exit{Code: -1, Signal: syscall.SIGSEGV}, 139, "was killed by SIGSEGV"},
	} {
		got := b.exit(b.shell(tt.script))
		if since := time.Since(got.At); since < 0 || since > patience {
			t.Errorf("%s: seen %v ago", tt.script, since)
		}
		got.At = time.Time{}
		if got != tt.want || got.Status() != tt.status || got.String() != tt.words {
			t.Errorf("%s: %+v (%s, status %d), want %+v", tt.script, got, got, got.Status(), tt.want)
		}
		if got.Success() != (tt.status == 0) {
			t.Errorf("%s: success %v", tt.script, got.Success())
		}
	}
}

func TestSpec(t *testing.T) {
	b := newTestTable(t)
	dir := t.TempDir()
	s := shell(`read x; echo "$0 $GREETING $PWD [$x] $(cat <&4)"; cat <&3`)
	s.Args = append(s.Args, "name")
	s.Env = []string{"GREETING=hello", "PATH=" + os.Getenv("PATH")}
	s.Dir = dir
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	fmt.Fprintln(w, "from the pipe")
	w.Close()
	s.ExtraFiles = []*os.File{r, nil}
	b.start(s)
	if got, want := b.line(), "name hello "+dir+" [] "; strings.TrimRight(got, " ") != strings.TrimRight(want, " ") {
		t.Errorf("got %q, want %q", got, want)
	}
	b.expect("from the pipe")

	for _, tt := range []struct {
		spec Spec
		want func(group, session int) bool
	}{
		{Spec{}, func(g, s int) bool { return g == syscall.Getpgrp() }},
		{Spec{Group: true}, func(g, s int) bool { return g > 0 && g != syscall.Getpgrp() && s != g }},
		{Spec{Session: true}, func(g, s int) bool { return g == s && g != syscall.Getpgrp() }},
		{Spec{Session: true, Group: true}, func(g, s int) bool { return g == s && g != syscall.Getpgrp() }},
	} {
		tt.spec.Path, tt.spec.Args = "/bin/sleep", []string{"sleep", "1000"}
		p := b.start(tt.spec)
		st, err := b.fs.stat(p.Pid())
		if err != nil {
			t.Fatal(err)
		}
		if !tt.want(st.group, st.session) {
			t.Errorf("%+v: pid %d group %d session %d", tt.spec, p.Pid(), st.group, st.session)
		}
	}
}

func TestStartErrors(t *testing.T) {
	b := newTestTable(t)
	dir := t.TempDir()
	file := func(name, text string, mode os.FileMode) string {
		name = dir + "/" + name
		if err := os.WriteFile(name, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return name
	}
	for _, tt := range []struct {
		spec Spec
		want string
		is   error
	}{
		{Spec{Path: dir + "/absent"}, dir + "/absent: no such file", os.ErrNotExist},
		{Spec{Path: "/bin/true", Dir: dir + "/nowhere"}, "working directory", os.ErrNotExist},
		{Spec{Path: "/bin/true", Dir: file("plain", "", 0o600)}, "is not a directory", nil},
		{Spec{Path: file("script", "#!/no/such/python\n", 0o700)}, "interpreter", os.ErrNotExist},
		{Spec{Path: file("data", "x", 0o600)}, "chmod +x", os.ErrPermission},
		{Spec{Path: file("junk", "junk", 0o700)}, "#!", syscall.ENOEXEC},
		{Spec{Path: "/bin/true", Env: []string{strings.Repeat("x", 1<<20)}}, "too large", syscall.E2BIG},
	} {
		p, err := b.Table.Start(tt.spec)
		if err == nil || p != nil {
			t.Errorf("%+v: no error", tt.spec)
			continue
		}
		if !strings.HasPrefix(err.Error(), "cannot start ") || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%q does not say %q", err, tt.want)
		}
		if tt.is != nil && !errors.Is(err, tt.is) {
			t.Errorf("%q is not %v", err, tt.is)
		}
	}
	b.Close()
	if _, err := b.Table.Start(Spec{Path: "/bin/true"}); !errors.Is(err, os.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

// TestLimitsAreNamed checks the errors of limits, which a test cannot reach for itself alone.
func TestLimitsAreNamed(t *testing.T) {
	for errno, want := range map[syscall.Errno]string{syscall.EAGAIN: "ulimit -u", syscall.EMFILE: "ulimit -n"} {
		if err := explain(Spec{Path: "/bin/true"}, errno); !errors.Is(err, errno) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v", errno, err)
		}
	}
}

// TestAround checks that Around starts the process, and that its error counts if it
// does not.
func TestAround(t *testing.T) {
	b := newTestTable(t)
	s := shell("echo started")
	calls := 0
	s.Around = func(start func() error) error { calls++; return start() }
	if e := b.exit(b.start(s)); !e.Success() || calls != 1 {
		t.Errorf("%v, %d calls", e, calls)
	}
	b.line()

	refused := errors.New("refused")
	for _, tt := range []struct {
		path   string
		around func(start func() error) error
		want   string
	}{
		{"/bin/true", func(func() error) error { return refused }, "cannot start /bin/true: refused"},
		{"/bin/true", func(func() error) error { return nil }, "not called"},
		{"/bin/absent", func(start func() error) error { return start() }, "cannot start /bin/absent: no such file"},
	} {
		if p, err := b.Table.Start(Spec{Path: tt.path, Around: tt.around}); err == nil || p != nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%v, %v, want %q", p, err, tt.want)
		}
	}

	// A process that runs is not lost, whatever Around returns.
	s.Around = func(start func() error) error { _ = start(); return refused }
	if e := b.exit(b.start(s)); !e.Success() {
		t.Error(e)
	}
	b.line()
}

func TestSignal(t *testing.T) {
	b := newTestTable(t)
	// The group gets the signal: the shell and its child.
	p := b.shell(`trap 'echo shell; exit 4' USR1; sh -c 'trap "echo child; exit" USR1; echo ready; while :; do sleep 0.01; done' & wait; wait`)
	b.expect("ready")
	if err := p.Signal(syscall.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	b.expect("shell", "child")
	if e := b.exit(p); e.Code != 4 {
		t.Error(e)
	}
	if err := p.Signal(syscall.SIGTERM); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("after the end: %v", err)
	}
}

// TestFastExits checks that a process that ends before Start has returned is
// collected, and that nothing stays behind: no zombie, no descriptor.
func TestFastExits(t *testing.T) {
	b := newTestTable(t)
	before := openFiles(t)
	procs := make([]*Process, 1000)
	for i := range procs {
		procs[i] = b.start(Spec{Path: "/bin/true"})
	}
	for _, p := range procs {
		if e := b.exit(p); !e.Success() {
			t.Fatal(e)
		}
	}
	if left, err := b.fs.children(os.Getpid()); err != nil || len(left) > 0 {
		t.Errorf("children %v, %v", left, err)
	}
	if after := openFiles(t); after > before {
		t.Errorf("%d open files, %d before", after, before)
	}
}

func openFiles(t *testing.T) int {
	t.Helper()
	names, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(names)
}

func TestDescriptorsDoNotLeak(t *testing.T) {
	var pipe [2]int // without close-on-exec, as an inherited one
	if err := syscall.Pipe(pipe[:]); err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(pipe[0])
	defer syscall.Close(pipe[1])
	b := newTestTable(t)
	p := b.helper("fds")
	stdout, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", b.write.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	for {
		line := b.line()
		if line == "end" {
			break
		}
		fd, link, _ := strings.Cut(line, " ")
		switch {
		case fd == "0" && link == "/dev/null", fd == "1" && link == stdout, fd == "2":
		case link == "", strings.HasPrefix(link, "anon_inode:"), strings.HasPrefix(link, "/proc/"): // the child's own
		case strings.HasPrefix(link, "/sys/fs/cgroup"): // the Go runtime's
		default:
			t.Errorf("the child has descriptor %s", line)
		}
	}
	b.exit(p)
}

// TestChildrenGetOriginalLimitsAndSignals checks that children do not get what the
// Go runtime changes for itself.
func TestChildrenGetOriginalLimitsAndSignals(t *testing.T) {
	b := newTestTable(t)
	b.start(shellThen(`ulimit -Sn 256; trap "" HUP;`, `run:ulimit -Sn; grep -E "Sig(Ign|Blk)" /proc/self/status | tr -d "\t" | sed 's/Ign:.*\(.......\)$/Ign:\1/'`))
	// Bit 0 is SIGHUP. The bits above the low 28 are signals of libc, which some
	// callers have ignored.
	b.expect("256", "SigBlk:0000000000000000", "SigIgn:0000001", "stopped")

	b.start(shellThen(`trap "" HUP;`, "forwarded"))
	b.expect("[terminated interrupt quit user defined signal 1 user defined signal 2 window changed]")
}

func TestInheritedChildrenAreLeftAlone(t *testing.T) {
	b := newTestTable(t)
	up := t.TempDir() + "/up"
	p := b.start(shellThen(`sleep 1000 & echo $!;`,
		fmt.Sprintf("run:"+`(setsid sh -c 'trap "" TERM; echo > %[1]s; sleep 1000; :' &); until [ -e %[1]s ]; do sleep 0.01; done`, up)))
	var inherited int
	if _, err := fmt.Sscan(b.line(), &inherited); err != nil {
		t.Fatal(err)
	}
	b.expect("stopped")
	b.exit(p)
	if left := alive(b.token); len(left) != 1 || left[0] != inherited {
		t.Errorf("alive: %v, want only %d", left, inherited)
	}
}

func TestOpenInForeignProc(t *testing.T) {
	needUnshare(t)
	b := newTestTable(t)
	b.start(Spec{Path: "/usr/bin/unshare", Args: []string{"unshare", "--pid", "--fork", "--kill-child", os.Args[0], helperFlag, "open"}})
	if got := b.line(); !strings.Contains(got, "--mount-proc") {
		t.Errorf("got %q", got)
	}
}

func TestPID1(t *testing.T) {
	needUnshare(t)
	b := newTestTable(t)
	b.start(Spec{Path: "/usr/bin/unshare", Args: []string{"unshare", "--pid", "--fork", "--kill-child", "--mount-proc", os.Args[0], helperFlag, "pid1"}})
	b.expect("pid 1 zombies 0 stop <nil>")
}

func needUnshare(t *testing.T) {
	t.Helper()
	if _, err := os.Stat("/usr/bin/unshare"); err == nil && os.Getuid() == 0 {
		return
	}
	if os.Getenv("CI") == "true" {
		t.Fatal("a pid namespace needs root and unshare(1)")
	}
	t.Skip("a pid namespace needs root and unshare(1)")
}
