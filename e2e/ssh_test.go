package e2e_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// sshHosts are hosts of a lan with a real sshd each, and one more host, the last, on
// which the user is. The hosts share the files of this machine, but each user has a home
// of its own there.
type sshHosts struct {
	*lan
	j      *job
	gorun  string // the user's gorun, in a folder of its own
	config string // of the user's ssh
}

// sshHost says in what a host differs from the others.
type sshHost struct {
	refuses bool // it has none of the user's keys
	bare    bool // the folder with the user's gorun is not there
}

// newSSHHosts makes the hosts n1, n2, ... The program of j is started by ssh.
func newSSHHosts(t testing.TB, hosts ...sshHost) *sshHosts {
	t.Helper()
	sshd := "/usr/sbin/sshd"
	_, err := os.Stat(sshd)
	need(t, err == nil, "openssh-server")
	_, err = exec.LookPath("ssh")
	need(t, err == nil, "openssh-client")
	s := &sshHosts{j: newJob(t), lan: newLAN(t, len(hosts)+1)}
	s.gorun = s.path("here/gorun")
	s.do("cp", "--reflink=auto", os.Getenv(envGorun), s.gorun)
	s.config = s.path("config")
	for _, key := range []string{"user", "server", "stranger"} {
		s.do("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", key, "-f", s.path(key))
	}
	var config, known strings.Builder
	for i, h := range hosts {
		s.serve(sshd, i+1, h)
		fmt.Fprintf(&config, "Host n%d\n  HostName %s\n", i+1, s.addr(i+1))
		fmt.Fprintf(&known, "[%s]:2222 %s", s.addr(i+1), s.read("server.pub"))
	}
	fmt.Fprintf(&config, "Host *\n  User root\n  Port 2222\n  IdentityFile %s\n  IdentitiesOnly yes\n  UserKnownHostsFile %s\n", s.path("user"), s.path("known"))
	s.write("known", known.String())
	s.write("config", config.String())
	return s
}

// path returns the path of a file of the test, in an existing folder, or of such a
// folder: a name with / at its end.
func (s *sshHosts) path(name string) string {
	s.Helper()
	path := filepath.Join(s.j.dir, name)
	folder := filepath.Dir(path)
	if strings.HasSuffix(name, "/") {
		folder = path
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		s.Fatal(err)
	}
	return path
}

func (s *sshHosts) write(name, text string) {
	s.Helper()
	if err := os.WriteFile(s.path(name), []byte(text), 0o600); err != nil {
		s.Fatal(err)
	}
}

func (s *sshHosts) read(name string) string {
	s.Helper()
	b, err := os.ReadFile(s.path(name))
	if err != nil {
		s.Fatal(err)
	}
	return string(b)
}

// serve starts the sshd of a host and waits until it listens.
func (s *sshHosts) serve(sshd string, i int, h sshHost) {
	s.Helper()
	keys := "user.pub"
	if h.refuses {
		keys = "stranger.pub"
	}
	home := s.path(fmt.Sprintf("home%d/", i))
	config := fmt.Sprintf("sshd%d.conf", i)
	s.write(config, fmt.Sprintf(`ListenAddress %s:2222
HostKey %s
AuthorizedKeysFile %s
StrictModes no
UsePAM no
PasswordAuthentication no
KbdInteractiveAuthentication no
PidFile none
SetEnv %s %s=%s HOME=%s PATH=/usr/bin:/bin OMP_NUM_THREADS=1 %s
`, s.addr(i), s.path("server"), s.path(keys), s.j.token, envDir, s.j.dir, home, hideGPUs))
	script := "mount -t tmpfs none /run && mkdir /run/sshd && hostname n" + fmt.Sprint(i)
	if h.bare {
		script += " && mount -t tmpfs none " + filepath.Dir(s.gorun)
	}
	cmd := exec.Command("ip", "netns", "exec", s.host(i), "unshare", "--mount", "--uts", "sh", "-c", script+" && exec "+sshd+" -D -e -f "+s.path(config))
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	log := &output{}
	cmd.Stderr = log
	if err := cmd.Start(); err != nil {
		s.Fatal(err)
	}
	cmd.WaitDelay = shortWait
	s.Cleanup(func() {
		for _, pid := range append(childrenOf(cmd.Process.Pid), cmd.Process.Pid) { // a cut connection has an sshd for hours
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		_ = cmd.Wait()
		if s.Failed() {
			s.Logf("sshd of n%d:\n%s", i, log)
		}
	})
	eventually(s, longWait, "sshd listens", func() bool { return strings.Contains(log.String(), "Server listening") })
}

// childrenOf returns the pids of the children of a process.
func childrenOf(pid int) []int {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", pid))
	var pids []int
	for _, word := range strings.Fields(string(b)) {
		if child, err := strconv.Atoi(word); err == nil {
			pids = append(pids, child)
		}
	}
	return pids
}

// run starts gorun ssh on the user's host.
func (s *sshHosts) run(args ...string) *agent {
	s.Helper()
	return s.runIn("", args...)
}

// runIn starts gorun ssh in a folder of the test.
func (s *sshHosts) runIn(dir string, args ...string) *agent {
	s.Helper()
	cmd := s.j.command(args...)
	ip, err := exec.LookPath("ip")
	if err != nil {
		s.Fatal(err)
	}
	args = append([]string{"ip", "netns", "exec", s.host(s.n), s.gorun, "ssh", "--ssh", "ssh -F " + s.config}, cmd.Args[1:]...)
	cmd.Path, cmd.Args, cmd.Dir = ip, args, s.path(dir)
	return s.j.launch("gorun ssh", cmd)
}

// A job on three hosts: each host has its slots, the caller's folder and the values of
// -x; all prove the secret to each other, which no command line and no environment shows.
func TestSSHJob(t *testing.T) {
	t.Parallel()
	s := newSSHHosts(t, sshHost{}, sshHost{}, sshHost{})
	s.write("hosts", fmt.Sprintf("# hosts\nn1 slots=2\nroot@%s:2222 slots=1 max_slots=2\nn3 slots=1\n", s.addr(2)))
	s.j.env = []string{"GORUN_SECRET=" + jobSecret, "MINE=it's mine", "HF_TOKEN=hidden", "GORUN_MAX_RESTARTS=1"}
	a := s.run(with(sh(`test $TORCHELASTIC_RESTART_COUNT = 0 && exit 3
echo "rank $RANK/$WORLD_SIZE of $GROUP_RANK on $(hostname) in $PWD: $MINE $HF_TOKEN"; while ! [ -e go ]; do sleep 0.05; done; test -z "$GORUN_SECRET"`),
		"--hostfile", "hosts", "-x", "MINE", "-x", "HF_TOKEN")...)
	host := func(i int) string { return []string{"n1", "n1", "root@" + s.addr(2) + ":2222", "n3"}[i] }
	for rank, name := range []string{"n1", "n1", "n2", "n3"} {
		a.waitForStdout(fmt.Sprintf("[%s] rank %d/4 of %d on %s in %s: it's mine hidden\n", host(rank), rank, max(0, rank-1), name, s.j.dir), 1)
	}
	for _, secret := range []string{jobSecret, "hidden"} {
		for _, p := range s.j.processes() {
			environ, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", p.pid))
			isUsers := p.pid == a.keeper() || p.name == "ssh"
			if strings.Contains(p.cmdline, secret) || secret == jobSecret && bytes.Contains(environ, []byte(secret)) && (p.name == "ssh" || !isUsers) {
				t.Errorf("process %d (%s) shows %q", p.pid, p.cmdline, secret)
			}
		}
	}
	s.write("go", "")
	s.j.wantExit(longWait, 0, a)
	if text := a.err.String(); strings.Count(text, "[n1] gorun: round 0") > 1 || strings.Contains(text, "no secret") {
		t.Errorf("says:\n%s", text)
	}
}

// The exit code is that of the job, also 255, and one host prints the report.
func TestSSHFailure(t *testing.T) {
	t.Parallel()
	s := newSSHHosts(t, sshHost{}, sshHost{})
	a := s.run(with(sh(`[ $RANK = 0 ] || exit 255; sleep 60`), "--hosts", "n1,n2", "--report", "report.json")...)
	s.j.wantExit(longWait, 255, a)
	if text := a.err.String(); strings.Count(text, "Root Cause") != 1 || !strings.Contains(text, "[n1] gorun: rank 1 on n2") || strings.Contains(text, "connection is lost") {
		t.Errorf("says:\n%s", text)
	}
	if report := s.read("report.json"); !strings.Contains(report, "255") {
		t.Errorf("report:\n%s", report)
	}
	// A line that is wrong on one host ends the job on all.
	a = s.run("--hosts", "n1,n2", "--no-prefix", "nosuchprogram")
	s.j.wantExit(longWait, 2, a)
}

// A host that refuses the key, one that does not answer and one that has no such folder
// are named, and nothing is started. An elastic job goes on without them.
func TestSSHUnusableHosts(t *testing.T) {
	t.Parallel()
	s := newSSHHosts(t, sshHost{}, sshHost{refuses: true}, sshHost{})
	script := sh(`echo rank $RANK/$WORLD_SIZE; >ran`)
	a := s.run(with(script, "--hosts", "n1,n2,n3")...)
	s.j.wantExit(longWait, 75, a)
	if text := a.err.String(); !strings.Contains(text, "gorun: n2: ") || !strings.Contains(text, "Permission denied (publickey)") || strings.Contains(text, "[n1]") {
		t.Errorf("says:\n%s", text)
	}
	if _, err := os.Stat(s.path("ran")); err == nil {
		t.Error("a worker ran")
	}
	a = s.run(with(script, "--hosts", "n1,n2,n3", "--nnodes", "2:3", "--rdzv-conf", "last_call_timeout=0.1")...)
	s.j.wantExit(longWait, 0, a)
	a.waitForStdout("[n1] rank 0/2\n", 1)
	a.waitForStdout("[n3] rank 1/2\n", 1)

	s.cut(3)
	a = s.run(with(script, "--hosts", "n1,n3")...)
	a.waitForStderr("1 of 2 hosts have answered; waiting for n3 (no answer yet)")
	a.signal(syscall.SIGINT)
	s.j.wantExit(shortWait, 130, a)
}

// A host without gorun is named with what to do. With --copy it gets the user's own,
// once.
func TestSSHCopy(t *testing.T) {
	t.Parallel()
	s := newSSHHosts(t, sshHost{}, sshHost{bare: true})
	script := sh(`echo rank $RANK by $(readlink /proc/$PPID/exe)`)
	a := s.run(with(script, "--hosts", "n1,n2")...)
	s.j.wantExit(longWait, 75, a)
	if text := a.err.String(); !strings.Contains(text, "gorun: n2: it has no gorun: --copy sends this one there") {
		t.Errorf("says:\n%s", text)
	}
	copies := func() []string {
		found, err := filepath.Glob(s.path("home2/.cache/gorun/*/*"))
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	var first os.FileInfo
	for range 2 {
		a = s.run(with(script, "--hosts", "n1,n2", "--copy")...)
		s.j.wantExit(longWait, 0, a)
		found := copies()
		if len(found) != 1 || !strings.Contains(a.out.String(), "[n2] rank 1 by "+found[0]+"\n") {
			t.Fatalf("copies %q; output:\n%s", found, a.out)
		}
		info, err := os.Stat(found[0])
		if err != nil || first != nil && !os.SameFile(first, info) {
			t.Errorf("the second job copied again: %v", err)
		}
		first = info
		s.do("cmp", found[0], s.gorun)
	}
	a = s.runIn("here/sub/", with(script, "--hosts", "n1,n2", "--copy")...)
	s.j.wantExit(longWait, 75, a)
	if text := a.err.String(); !strings.Contains(text, "gorun: n2: it has no folder "+s.path("here/sub/")+", in which you are (no such file or directory)") {
		t.Errorf("says:\n%s", text)
	}
}

// Signals reach the workers on all hosts: the first leaves them time, the second does
// not.
func TestSSHSignals(t *testing.T) {
	t.Parallel()
	s := newSSHHosts(t, sshHost{}, sshHost{})
	script := sh(`trap 'echo $RANK got USR1' USR1; trap 'echo $RANK got TERM; sleep 0.3; echo $RANK saved; exit' TERM; trap 'echo $RANK got INT' INT; echo $RANK ready; while :; do sleep 0.1; done`)
	start := func() *agent {
		a := s.run(with(script, "--hosts", "n1,n2")...)
		a.waitForStdout("ready\n", 2)
		return a
	}
	a := start()
	a.signal(syscall.SIGUSR1)
	a.waitForStdout("got USR1\n", 2)
	a.signal(syscall.SIGTSTP)
	a.waitForStderr("it goes on")
	a.signal(syscall.SIGTERM)
	s.j.wantExit(longWait, 143, a)
	a.waitForStdout("saved\n", 2)
	a = start()
	a.signal(syscall.SIGINT)
	a.waitForStdout("got INT\n", 2)
	a.signal(syscall.SIGINT)
	s.j.wantExit(shortWait, 130, a)
}

// Nothing is left on any host when gorun ssh is killed, or one of its connections.
func TestSSHKilled(t *testing.T) {
	t.Parallel()
	s := newSSHHosts(t, sshHost{}, sshHost{})
	for _, victim := range []string{"gorun ssh", "ssh"} {
		a := s.run(with(sh(`echo $RANK ready; sleep 60`), "--hosts", "n1,n2")...)
		a.waitForStdout("ready\n", 2)
		pid := a.keeper()
		for _, p := range s.j.processes() {
			if victim == "ssh" && p.parent == a.keeper() {
				pid = p.pid
			}
		}
		s.j.kill(pid)
		s.j.wantNoProcess()
		code := a.wait(shortWait)
		if victim == "ssh" && (code == 0 || !strings.Contains(a.err.String(), "its connection is lost")) {
			t.Errorf("exit code %d; says:\n%s", code, a.err)
		}
	}
}

// A host whose connection is cut ends its part by itself, and the others end theirs by
// gorun's rules: a job of fixed size is over, an elastic one goes on.
func TestSSHCutConnection(t *testing.T) {
	t.Parallel()
	for name, size := range map[string]string{"fixed": "3", "elastic": "2:3"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSSHHosts(t, sshHost{}, sshHost{}, sshHost{})
			a := s.run(with(sh(`echo $RANK/$WORLD_SIZE ready; while ! [ -e go ]; do sleep 0.05; done; [ $WORLD_SIZE = 2 ]`), "--hosts", "n1,n2,n3", "--nnodes", size,
				"--max-restarts", "1", "--rdzv-conf", "keep_alive_interval=0.5,keep_alive_max_attempt=6,last_call_timeout=0.1")...)
			a.waitForStdout("/3 ready\n", 3)
			s.cut(3)
			if name == "fixed" {
				s.j.wantExit(longWait, 137, a)
			} else {
				a.waitForStdout("/2 ready\n", 2)
				eventually(t, longWait, "n3 has ended its part", func() bool {
					for _, p := range s.j.processes() {
						environ, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", p.pid))
						if bytes.Contains(environ, []byte("home3")) {
							return false
						}
					}
					return true
				})
				s.write("go", "")
				s.j.wantExit(longWait, 0, a)
			}
			if text := a.err.String(); !strings.Contains(text, "gorun: n3: its connection is lost") {
				t.Errorf("says:\n%s", text)
			}
		})
	}
}
