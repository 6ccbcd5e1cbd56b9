package e2e_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// domain is the domain of the pods' services.
const domain = "default.svc.cluster.local"

// pods is a fleet whose machines play the pods of a job: each has its own /etc/hosts, as
// the kubelet writes it, and asks one name server. Pod i, from 1, has the address 10.77.0.i
// and the name train-<i-1>. No pod has a default route.
type pods struct {
	*fleet
	file   string // the name server's records, in the form of /etc/hosts
	server *exec.Cmd
	known  []string
}

const nameServer = "10.77.0.250"

// newPods makes n pods and a name server without records; more are its arguments.
func newPods(t *testing.T, n int, more ...string) *pods {
	t.Helper()
	dnsmasq, err := exec.LookPath("dnsmasq")
	if err != nil {
		dnsmasq = "/usr/sbin/dnsmasq"
		_, err = os.Stat(dnsmasq)
	}
	need(t, err == nil, "dnsmasq, for a name server")
	var nics [][]nic
	for i := range n {
		nics = append(nics, eth0(fmt.Sprintf("10.77.0.%d/24", i+1)))
	}
	p := &pods{fleet: newFleet(t, nics), file: filepath.Join(t.TempDir(), "records")}
	for i, m := range p.machines {
		m.Host = fmt.Sprintf("train-%d", i)
		m.write("etc/hosts", fmt.Sprintf("127.0.0.1 localhost\n%s %s.train.%s %s\n", m.ip(), m.Host, domain, m.Host))
		m.write("etc/resolv.conf", fmt.Sprintf("search %s svc.cluster.local cluster.local\nnameserver %s\noptions ndots:5 timeout:1 attempts:2\n", domain, nameServer))
	}
	p.ip(0, "addr add "+nameServer+"/24 dev lan")
	if err := os.WriteFile(p.file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	ip, err := exec.LookPath("ip")
	if err != nil {
		t.Fatal(err)
	}
	p.server = exec.Command(ip, append([]string{
		"netns", "exec", p.host(0), dnsmasq, "--keep-in-foreground", "--conf-file=/dev/null", "--user=root", "--pid-file=", "--no-resolv", "--no-hosts", "--log-facility=-",
		"--local=/cluster.local/", "--bind-interfaces", "--listen-address=" + nameServer, "--addn-hosts=" + p.file,
	}, more...)...)
	p.server.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out := &output{}
	p.server.Stdout, p.server.Stderr = out, out
	if err := p.server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = p.server.Process.Kill()
		_ = p.server.Wait()
	})
	eventually(t, longWait, "dnsmasq reads its records: "+out.String(), func() bool { return strings.Contains(out.String(), "read "+p.file) })
	return p
}

// name makes the name server know an address by a name below the pods' domain.
func (p *pods) name(name, addr string) {
	p.Helper()
	p.known = append(p.known, fmt.Sprintf("%s %s.%s", addr, name, domain))
	p.publish()
}

// rename makes the name server know only this address by the name.
func (p *pods) rename(name, addr string) {
	p.Helper()
	var known []string
	for _, line := range p.known {
		if !strings.HasSuffix(line, " "+name+"."+domain) {
			known = append(known, line)
		}
	}
	p.known = known
	p.name(name, addr)
}

func (p *pods) publish() {
	p.Helper()
	if err := os.WriteFile(p.file, []byte(strings.Join(p.known, "\n")+"\n"), 0o644); err != nil {
		p.Fatal(err)
	}
	if err := p.server.Process.Signal(syscall.SIGHUP); err != nil {
		p.Fatal(err)
	}
}

// TestPodsOfOneName checks that pods meet under one name that gets their addresses one
// after the other, while the agents already wait.
func TestPodsOfOneName(t *testing.T) {
	t.Parallel()
	p := newPods(t, 3)
	j := p.job(t, "--nproc-per-node", "1")
	j.endpoint = "train:29400"
	as := p.all(j, sh("echo rank $RANK of $WORLD_SIZE")...)
	as[0].waitForStderr("cannot resolve the endpoint")
	for i := 3; i >= 1; i-- { // the first one in the order of the addresses comes last
		p.name("train", fmt.Sprintf("10.77.0.%d", i))
		p.name(fmt.Sprintf("train-%d.train", i-1), fmt.Sprintf("10.77.0.%d", i))
	}
	j.wantExit(longWait, 0, as...)
	out := ""
	for _, a := range as {
		out += a.out.String()
	}
	for rank := range 3 {
		if !strings.Contains(out, fmt.Sprintf("rank %d of 3", rank)) {
			t.Errorf("no rank %d: %s", rank, out)
		}
	}
}

// TestPodsOfOneNameMayShrink checks that an elastic job of pods under one name does not
// begin as two, and goes on when a pod is lost.
func TestPodsOfOneNameMayShrink(t *testing.T) {
	t.Parallel()
	p := newPods(t, 3)
	j := p.job(t, "--rdzv-conf", "last_call_timeout=1", "--max-restarts", "3")
	j.endpoint = "train:29400"
	p.name("train", "10.77.0.1")
	program := sh("echo size $WORLD_SIZE; while [ ! -e $E2E_DIR/go ]; do sleep 0.05; done")
	first := p.start(j, 1, "1:3", program...)
	first.waitForStderr("may stand for 3 nodes") // the last call has passed, and it has not begun alone
	as := []*agent{first}
	for i := 2; i <= 3; i++ {
		p.name("train", fmt.Sprintf("10.77.0.%d", i))
		as = append(as, p.start(j, i, "1:3", program...))
	}
	for _, a := range as {
		a.waitForStdout("size 3", 1)
	}
	j.kill(as[0].keeper())
	for _, a := range as[1:] {
		a.waitForStdout("size 2", 1)
	}
	if err := os.WriteFile(filepath.Join(j.dir, "go"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	j.wantExit(longWait, 0, as[1:]...)
}

// TestPodsOfAServiceRecord checks that pods meet at the targets of a DNS service record.
func TestPodsOfAServiceRecord(t *testing.T) {
	t.Parallel()
	service := "_gorun._tcp.train." + domain
	p := newPods(t, 2,
		fmt.Sprintf("--srv-host=%s,train-0.train.%s,29411", service, domain),
		fmt.Sprintf("--srv-host=%s,train-1.train.%s,29411", service, domain))
	j := p.job(t)
	j.endpoint = "_gorun._tcp.train"
	as := p.all(j, sh("echo rank $RANK of $WORLD_SIZE")...)
	for i := range 2 {
		p.name(fmt.Sprintf("train-%d.train", i), fmt.Sprintf("10.77.0.%d", i+1))
	}
	j.wantExit(longWait, 0, as...)
}

// TestPodsFindEachOther checks that pods of an Indexed Job and of a JobSet meet with
// nothing said but their number.
func TestPodsFindEachOther(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		hosts [2]string
		env   [2][]string
	}{
		{"Indexed Job", [2]string{"train-0", "train-1"}, [2][]string{{"JOB_COMPLETION_INDEX=0"}, {"JOB_COMPLETION_INDEX=1"}}},
		{"JobSet", [2]string{"train-workers-0-0", "train-workers-1-0"}, [2][]string{
			{"JOB_COMPLETION_INDEX=0", "JOBSET_NAME=train"}, {"JOB_COMPLETION_INDEX=0", "JOBSET_NAME=train"},
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := newPods(t, 2)
			j := p.job(t)
			j.env = []string{"GORUN_NNODES=2"}
			var as []*agent
			for i, m := range p.machines {
				m.Host, m.env = tt.hosts[i], tt.env[i]
				m.write("etc/hosts", fmt.Sprintf("127.0.0.1 localhost\n%s %s.train.%s %s\n", m.ip(), m.Host, domain, m.Host))
				as = append(as, j.launch(m.Host, m.on(j.command(sh("echo node $GROUP_RANK is $(hostname)")...))))
			}
			for _, m := range p.machines {
				p.name(m.Host+".train", m.ip())
				p.name("train", m.ip())
			}
			j.wantExit(longWait, 0, as...)
			for i, m := range p.machines {
				if want := fmt.Sprintf("node %d is %s\n", i, m.Host); as[i].out.String() != want {
					t.Errorf("%q, want %q", as[i].out.String(), want)
				}
			}
		})
	}
}

// TestEndpointPodWithoutName checks that the pod whose name is the endpoint serves it before
// DNS knows the name, and that a pod without name and route waits for them.
func TestEndpointPodWithoutName(t *testing.T) {
	t.Parallel()
	p := newPods(t, 2)
	p.machines[1].write("etc/hosts", "127.0.0.1 localhost\n")
	j := p.job(t)
	j.endpoint = "train-0.train:29400"
	as := p.all(j, sh("echo rank $RANK of $WORLD_SIZE")...)
	as[1].waitForStderr("still waiting for an address of this node")
	eventually(t, longWait, "the first pod listens at the endpoint's port", func() bool {
		out, _ := exec.Command("ip", "netns", "exec", p.host(1), "cat", "/proc/net/tcp").Output()
		return strings.Contains(string(out), fmt.Sprintf("01004D0A:%04X 00000000:0000 0A", 29400))
	})
	p.name("train-0.train", "10.77.0.1")
	j.wantExit(longWait, 0, as...)
}

// TestEndpointPodWithNewAddress checks a pod that comes back under a new address while DNS
// has the old one.
func TestEndpointPodWithNewAddress(t *testing.T) {
	t.Parallel()
	p := newPods(t, 3)
	j := p.job(t, "--max-restarts", "1")
	j.endpoint = "train-0.train:29400"
	p.name("train-0.train", "10.77.0.1")
	program := sh("echo restart $TORCHELASTIC_RESTART_COUNT rank $RANK; while [ ! -e $E2E_DIR/go ]; do sleep 0.05; done")
	as := []*agent{p.start(j, 1, "2", program...), p.start(j, 2, "2", program...)}
	for _, a := range as {
		a.waitForStdout("restart 0", 1)
	}
	j.kill(as[0].keeper())
	as[1].waitForStderr("have 1 of 2 nodes")
	p.ip(1, "link set eth0 down") // the old address is gone with the pod
	back := p.machines[2]
	back.Host = "train-0"
	back.write("etc/hosts", fmt.Sprintf("127.0.0.1 localhost\n%s train-0.train.%s train-0\n", back.ip(), domain))
	as[0] = p.start(j, 3, "2", program...)
	as[0].waitForStderr("have 1 of 2 nodes")
	p.rename("train-0.train", back.ip())
	for _, a := range as {
		a.waitForStdout("restart 1", 1)
	}
	if err := os.WriteFile(filepath.Join(j.dir, "go"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	j.wantExit(longWait, 0, as...)
}
