package etcdtest

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// member is one etcd process, or what is needed to start it again.
type member struct {
	client string // host:port
	binary string
	args   []string
	log    string
	cmd    *exec.Cmd
	ended  chan struct{} // closed when cmd has been waited for
}

// errPort says that another program took a port that had been free.
var errPort = errors.New("etcd could not bind its port")

// plan chooses ports and arguments for all members.
func (c *Cluster) plan() error {
	ports, err := freePorts(2 * c.opts.Members)
	if err != nil {
		return err
	}
	var peers []string
	for i := range c.opts.Members {
		peers = append(peers, fmt.Sprintf("m%d=http://%s", i, ports[2*i+1]))
	}
	scheme := "http"
	var extra []string
	if c.opts.TLS {
		scheme = "https"
		extra = append(extra, "--cert-file", filepath.Join(c.dir, "server.crt"), "--key-file", filepath.Join(c.dir, "server.key"))
	}
	if c.opts.ClientCert {
		extra = append(extra, "--client-cert-auth", "--trusted-ca-file", c.TLS.CA)
	}
	if help, _ := exec.Command(c.binary, "--help").CombinedOutput(); strings.Contains(string(help), "--unsafe-no-fsync") {
		extra = append(extra, "--unsafe-no-fsync")
	}
	for i := range c.opts.Members {
		name := fmt.Sprintf("m%d", i)
		client, peer := scheme+"://"+ports[2*i], "http://"+ports[2*i+1]
		c.members = append(c.members, &member{
			client: ports[2*i], binary: c.binary, log: filepath.Join(c.dir, name+".log"),
			args: append([]string{
				"--name", name, "--data-dir", filepath.Join(c.dir, name),
				"--listen-client-urls", client, "--advertise-client-urls", client,
				"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
				"--initial-cluster", strings.Join(peers, ","), "--initial-cluster-state", "new", "--initial-cluster-token", filepath.Base(c.dir) + ports[0],
				"--logger", "zap", "--log-level", "warn",
			}, extra...),
		})
	}
	return nil
}

// freePorts returns addresses at which nothing listens now.
func freePorts(n int) ([]string, error) {
	var out []string
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close() // only at the end, so that all are different
		out = append(out, l.Addr().String())
	}
	return out, nil
}

func (m *member) start() error {
	log, err := os.OpenFile(m.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(m.binary, m.args...)
	cmd.Env, cmd.Stdout, cmd.Stderr = environ(), log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan struct{})
	m.cmd, m.ended = cmd, ended
	go func() {
		defer close(ended)
		_ = cmd.Wait()
	}()
	return nil
}

// trouble says why the process has ended, nil while it runs.
func (m *member) trouble() error {
	select {
	case <-m.ended:
	default:
		return nil
	}
	if t := m.tail(); !strings.Contains(t, "address already in use") {
		return fmt.Errorf("etcd ended: %v; %s", m.cmd.ProcessState, t)
	}
	return errPort
}

func (m *member) tail() string {
	b, err := os.ReadFile(m.log)
	if err != nil {
		return err.Error()
	}
	return string(b[max(0, len(b)-2000):])
}

// Kill ends a member with SIGKILL; its data stays.
func (c *Cluster) Kill(i int) {
	if m := c.members[i]; m.cmd != nil {
		_ = m.cmd.Process.Kill()
		<-m.ended
	}
}

// Stop freezes a member's process (SIGSTOP).
func (c *Cluster) Stop(i int) error { return c.members[i].cmd.Process.Signal(syscall.SIGSTOP) }

// Cont lets a frozen member go on.
func (c *Cluster) Cont(i int) error { return c.members[i].cmd.Process.Signal(syscall.SIGCONT) }

// Restart starts a killed member again, with its data, and waits until it
// answers or, in a cluster without a majority, until its process runs.
func (c *Cluster) Restart(i int) error {
	var err error
	for end := time.Now().Add(limit); ; {
		if err = c.members[i].start(); err != nil {
			return err
		}
		alive := 0
		for _, m := range c.members {
			if m.trouble() == nil {
				alive++
			}
		}
		if 2*alive > len(c.members) {
			err = c.await(i)
		}
		if !errors.Is(err, errPort) || time.Now().After(end) {
			return err
		}
		<-time.After(50 * time.Millisecond)
	}
}
