package e2e_test

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// lan is a switch with n hosts. Each host is a network namespace with the address
// 10.77.0.i. The switch has its own namespace, so that the machine's network stays
// unchanged.
type lan struct {
	testing.TB
	name string
	n    int
}

// newLAN makes hosts 1 to n. It skips the test if this process may not make them.
func newLAN(t testing.TB, n int) *lan {
	t.Helper()
	_, err := exec.LookPath("bridge")
	need(t, err == nil, "iproute2, for network namespaces")
	l := newNamespaces(t, n)
	l.ip(0, "link add br0 type bridge forward_delay 0 stp_state 0")
	l.ip(0, "link set br0 up")
	for i := 1; i <= n; i++ {
		l.ip(0, fmt.Sprintf("link add p%d type veth peer name eth0 netns %s", i, l.host(i)))
		l.ip(0, fmt.Sprintf("link set p%d master br0 up", i))
		l.ip(i, fmt.Sprintf("addr add %s/24 dev eth0", l.addr(i)))
		l.ip(i, "link set lo up")
		l.ip(i, "link set eth0 up")
	}
	eventually(t, longWait, "the switch forwards", func() bool {
		out, _ := exec.Command("bridge", "-n", l.host(0), "link", "show").Output()
		return strings.Count(string(out), "state forwarding") == n
	})
	return l
}

// newNamespaces makes the namespaces of n hosts and of the switch, without interfaces.
func newNamespaces(t testing.TB, n int) *lan {
	t.Helper()
	_, err := exec.LookPath("ip")
	need(t, err == nil && os.Getuid() == 0, "iproute2 and root, for network namespaces")
	l := &lan{TB: t, name: fmt.Sprintf("e2e%d-%d", os.Getpid(), jobs.Add(1)), n: n}
	t.Cleanup(func() {
		for i := range n + 1 {
			_ = exec.Command("ip", "netns", "del", l.host(i)).Run()
		}
	})
	for i := range n + 1 {
		if out, err := exec.Command("ip", "netns", "add", l.host(i)).CombinedOutput(); err != nil {
			need(t, false, "network namespaces: "+string(out))
		}
	}
	return l
}

// host returns the name of a host's namespace; 0 is the switch.
func (l *lan) host(i int) string { return fmt.Sprintf("%s.%d", l.name, i) }

func (l *lan) addr(i int) string { return fmt.Sprintf("10.77.0.%d", i) }

func (l *lan) do(args ...string) {
	l.Helper()
	if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
		l.Fatalf("%s: %v: %s", strings.Join(args, " "), err, out)
	}
}

func (l *lan) ip(host int, args string) {
	l.Helper()
	l.do(append([]string{"ip", "-n", l.host(host)}, strings.Fields(args)...)...)
}

// cut drops every packet from and to a host. Links stay up, and no
// connection is refused.
func (l *lan) cut(host int) time.Time {
	l.Helper()
	l.do("bridge", "-n", l.host(0), "link", "set", "dev", fmt.Sprint("p", host), "state", "0")
	return time.Now()
}

// mend undoes cut.
func (l *lan) mend(host int) {
	l.Helper()
	l.do("bridge", "-n", l.host(0), "link", "set", "dev", fmt.Sprint("p", host), "state", "3")
}

// split moves hosts to another switch. Links stay up, and no connection is refused.
func (l *lan) split(hosts ...int) time.Time {
	l.Helper()
	l.ip(0, "link add br1 type bridge forward_delay 0 stp_state 0")
	l.ip(0, "link set br1 up")
	for _, h := range hosts {
		l.ip(0, fmt.Sprintf("link set p%d master br1", h))
	}
	return time.Now()
}

// join undoes split.
func (l *lan) join(hosts ...int) time.Time {
	l.Helper()
	for _, h := range hosts {
		l.ip(0, fmt.Sprintf("link set p%d master br0", h))
	}
	l.ip(0, "link del br1")
	return time.Now()
}

// nodes starts one agent on each host; the endpoint is host 1's.
func (l *lan) nodes(j *job, nnodes string, args ...string) []*agent {
	l.Helper()
	var out []*agent
	for i := 1; i <= l.n; i++ {
		out = append(out, l.node(j, i, l.addr(1), nnodes, args...))
	}
	return out
}

// node starts an agent on one host.
func (l *lan) node(j *job, i int, endpoint, nnodes string, args ...string) *agent {
	l.Helper()
	return j.launch(l.addr(i), l.command(j, i, endpoint, nnodes, args...))
}

// command makes the command of an agent on one host.
func (l *lan) command(j *job, i int, endpoint, nnodes string, args ...string) *exec.Cmd {
	l.Helper()
	cmd := j.command(append([]string{"--nnodes", nnodes, "--rdzv-endpoint", endpoint, "--rdzv-id", j.id}, args...)...)
	path, err := exec.LookPath("ip")
	if err != nil {
		l.Fatal(err)
	}
	cmd.Args = append([]string{path, "netns", "exec", l.host(i), cmd.Path}, cmd.Args[1:]...)
	cmd.Path = path
	return cmd
}
