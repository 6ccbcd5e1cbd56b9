package e2e_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/gorun/gorun/rendezvous/etcd/etcdtest"
)

// munged is a munged of a test, with its own key and socket.
type munged struct{ dir string }

// newMunged starts a munged that ends with the test.
func newMunged(t testing.TB) munged {
	t.Helper()
	program := "/usr/sbin/munged"
	_, err := exec.LookPath("unmunge")
	_, missing := os.Stat(program)
	need(t, err == nil && missing == nil && os.Getuid() == 0, "munge and root, for credentials of two users")
	dir, err := os.MkdirTemp("", "gorun-munge-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	m := munged{dir}
	if err := os.Chmod(dir, 0o755); err != nil { // munged asks for it
		t.Fatal(err)
	}
	if err := os.WriteFile(m.path("key"), []byte(jobSecret+otherSecret), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, "--foreground", "--num-threads=2", "--key-file="+m.path("key"), "--socket="+m.path("socket"),
		"--pid-file="+m.path("pid"), "--log-file="+m.path("log"), "--seed-file="+m.path("seed"))
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	eventually(t, longWait, "munged answers", func() bool {
		return exec.Command("munge", "--no-input", "--socket="+m.path("socket")).Run() == nil
	})
	return m
}

func (m munged) path(name string) string { return filepath.Join(m.dir, name) }

// program returns a copy of gorun that every user can start.
func (m munged) program(t testing.TB) string {
	t.Helper()
	text, err := os.ReadFile(os.Getenv(envGorun))
	if err == nil {
		err = os.WriteFile(m.path("gorun"), text, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	return m.path("gorun")
}

// inStep returns the variables of node i, from 0, of a Slurm step with n nodes.
func (m munged) inStep(i, n int) []string {
	return []string{
		"MUNGE_SOCKET=" + m.path("socket"), "SLURM_JOB_ID=7", "SLURM_STEP_ID=0", "SLURM_LOCALID=0", "SLURM_CPUS_ON_NODE=1",
		fmt.Sprintf("SLURM_PROCID=%d", i), fmt.Sprintf("SLURM_NODEID=%d", i), fmt.Sprintf("SLURM_STEP_NUM_NODES=%d", n),
		fmt.Sprintf("SLURM_STEP_TASKS_PER_NODE=1(x%d)", n), fmt.Sprintf("SLURM_STEP_NODELIST=h[1-%d]", n), fmt.Sprintf("SLURMD_NODENAME=h%d", i+1),
	}
}

// task starts the agent of node i, from 0, of a step of two nodes.
func (m munged) task(j *job, i int, args ...string) *agent {
	j.Helper()
	j.env = m.inStep(i, 2)
	return j.node(i+1, "2", append([]string{"--report-on", "all"}, args...)...)
}

// Nodes of a Slurm step have a secret without any flag, over gossip and static: agents
// without it are refused, no warning is printed, and variables that run code travel.
func TestSecretByMunge(t *testing.T) {
	t.Parallel()
	m := newMunged(t)
	for _, kind := range []string{"gossip", "static"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			l := newLAN(t, 2)
			j := newJob(t)
			var agents []*agent
			for i := range 2 {
				flags := []string{"--report-on", "all"}
				if kind == "static" {
					flags = append(flags, "--rdzv-backend", "static", "--node-rank", fmt.Sprint(i))
				}
				if i == 0 {
					flags = append(flags, "-x", "PYTHONSTARTUP=/x.py")
				}
				j.env = m.inStep(i, 2)
				agents = append(agents, l.node(j, i+1, l.addr(1), "2", with(sh(`echo "startup $PYTHONSTARTUP"; env -0 >$E2E_DIR/env.$RANK`), flags...)...))
			}
			j.wantExit(longWait, 0, agents...)
			for rank, a := range agents {
				if strings.Contains(a.err.String(), "secret") || !strings.Contains(a.out.String(), "startup /x.py") {
					t.Errorf("rank %d prints %s%s", rank, a.out, a.err)
				}
			}
		})
	}
}

// A second user cannot join a step's job, with gorun as it is or without the step's
// variables, and cannot take the first node's place. The job goes on without that user.
func TestOtherUserIsRefused(t *testing.T) {
	t.Parallel()
	m := newMunged(t)
	program := m.program(t)
	nobody := func(j *job, i int, env []string, args ...string) *agent {
		j.env, j.wd = env, "/"
		cmd := j.command(append([]string{
			"--nnodes", "2", "--rdzv-endpoint", j.endpoint, "--rdzv-id", j.id, "--local-addr", fmt.Sprintf("127.0.0.%d", i+1), "--report-on", "all",
		}, args...)...)
		cmd.Args = append([]string{"setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups", program}, cmd.Args[1:]...)
		path, err := exec.LookPath("setpriv")
		if err != nil {
			t.Fatal(err)
		}
		cmd.Path = path
		return j.launch(fmt.Sprint("nobody as node ", i), cmd)
	}
	t.Run("as a node", func(t *testing.T) {
		t.Parallel()
		j := newJob(t)
		first := m.task(j, 0, sh("echo up")...)
		first.waitForStderr("have 1 of 2 nodes")
		second := nobody(j, 1, m.inStep(1, 2), sh("echo up")...)
		j.wantExit(longWait, 75, second)
		j.wantCause([]*agent{second}, "cannot get this job's secret from "+j.endpoint+": munge refuses its credential", "Unauthorized credential")
		third := nobody(j, 1, nil, sh("echo up")...)
		j.wantExit(longWait, 75, third)
		j.wantCause([]*agent{third}, j.endpoint+" "+otherSecretText)
		if out := first.out.String() + second.out.String() + third.out.String(); strings.Contains(out, "up") || !first.running() {
			t.Errorf("workers were started, or the first agent ended: %s", out)
		}
		j.wd = ""
		j.wantExit(longWait, 0, m.task(j, 1, sh("echo up")...), first)
	})
	t.Run("in the first node's place", func(t *testing.T) {
		t.Parallel()
		j := newJob(t)
		stranger := nobody(j, 0, m.inStep(0, 2), sh("echo up")...)
		stranger.waitForStderr("have 1 of 2 nodes")
		j.wd = ""
		second := m.task(j, 1, sh("echo up")...)
		j.wantExit(longWait, 75, second)
		j.wantCause([]*agent{second}, "munge refuses its credential", "Unauthorized credential")
		stranger.signal(syscall.SIGTERM)
		j.wantExit(longWait, 143, stranger)
	})
}

// A node without munge, or without the user's secret, says so, and so does the first
// node. A node whose first node is not there yet says what it waits for.
func TestSecretOfSomeNodes(t *testing.T) {
	t.Parallel()
	m := newMunged(t)
	for name, c := range map[string]struct {
		first, second string // variable that differs
		text, report  string
	}{
		"no munge on the second":  {"", "MUNGE_SOCKET=/nonexistent", "that node hands it out by munge, which this node cannot use", "handed out by munge, which that node cannot use"},
		"no munge on the first":   {"MUNGE_SOCKET=/nonexistent", "", "munge works on this node and not on that one", "munge works on that node and not on this one"},
		"the user's on the first": {"GORUN_SECRET=" + jobSecret, "", "the user gave it to that node and not to this one", "this job's secret is the user's"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := newJob(t, "--report-on", "all")
			start := func(i int, variable string) *agent {
				j.env = append(m.inStep(i, 2), variable)
				return j.node(i+1, "2", sh("echo up")...)
			}
			second := start(1, c.second)
			second.waitForStderr("waiting for this job's secret from the first node")
			first := start(0, c.first)
			j.wantExit(longWait, 75, second)
			j.wantCause([]*agent{second}, c.text)
			first.waitForStderr(c.report)
			first.signal(syscall.SIGTERM)
			j.wantExit(longWait, 143, first)
		})
	}
}

// A secret of the user wins over munge.
func TestSecretOfUserBeforeMunge(t *testing.T) {
	t.Parallel()
	m := newMunged(t)
	j := newJob(t)
	var agents []*agent
	for i := range 2 {
		j.env = append(m.inStep(i, 2), "MUNGE_SOCKET=/nonexistent")
		agents = append(agents, j.node(i+1, "2", append(j.secretFile(jobSecret), sh("true")...)...))
	}
	j.wantExit(longWait, 0, agents...)
}

// Nodes that meet in etcd over TLS have a secret. Where etcd asks for no certificate,
// strangers can read it, so variables that run code do not travel.
func TestSecretInEtcd(t *testing.T) {
	t.Parallel()
	for name, private := range map[string]bool{"with a client certificate": true, "without": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := etcdtest.Start(t, etcdtest.Options{TLS: true, ClientCert: private})
			flags := []string{"--etcd-cacert", c.TLS.CA}
			if private {
				flags = append(flags, "--etcd-cert", c.TLS.Cert, "--etcd-key", c.TLS.Key)
			}
			j := newEtcdJob(t, c, flags...)
			agents := j.nodes(2, append([]string{"--dry-run"}, sh("true")...)...)
			j.wantExit(longWait, 0, agents...)
			for _, a := range agents {
				if !strings.Contains(a.out.String(), "secret from etcd at "+c.Endpoints()[0]) {
					t.Errorf("%s prints %s", a.name, a.out)
				}
			}
			agents = []*agent{
				j.node(1, "2", append([]string{"--node-rank", "0", "-x", "PYTHONSTARTUP=/x.py"}, sh("true")...)...),
				j.node(2, "2", append([]string{"--node-rank", "1"}, sh(`echo "startup $PYTHONSTARTUP"`)...)...),
			}
			j.wantExit(longWait, 0, agents...)
			if got := strings.Contains(agents[1].out.String(), "startup /x.py"); got != private {
				t.Errorf("the variable travels: %v, want %v", got, private)
			}
			wantEtcdEmpty(t, c)
		})
	}
}
