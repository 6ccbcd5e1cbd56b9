package e2e_test

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"
)

// Both nodes have a system NCCL 2.17.1, and wheels of two versions in their virtual
// environments. torch loads the wheel, and the finding names the wheel's path.
func TestIncidentVersions(t *testing.T) {
	t.Parallel()
	f := newFleet(t, twoMachines()).healthy()
	for i, version := range []string{"2.14.3", "2.19.3"} {
		f.machines[i].systemNCCL("2.17.1")
		f.machines[i].wheel(version)
	}
	j := f.job(t)
	table := j.refused(f.all(j, script)...)
	wantFindings(t, table, "error V01")
	wantParts(t, table, "node1", "2.14.3", "node2", "2.19.3", "2.17.1")
	golden(t, "versions.txt", table)
}

// backup returns the interfaces of two nodes. NCCL takes the first interface of each; on
// the second node that interface leads only to the backup server. The nodes meet by the
// addresses in 10.37.8.0/24.
func backup() [][]nic {
	return [][]nic{
		{{name: "eth0", addrs: "10.37.8.72/24", net: "compute"}},
		{{name: "eth0", addrs: "10.37.12.78/24", net: "backup"}, {name: "eth1", addrs: "10.37.8.78/24", net: "compute"}},
	}
}

// 10.37.8.72 and 10.37.12.78 cannot reach each other. gorun proposes the network that
// the nodes have in common, and takes it when the user allows that.
func TestIncidentSubnets(t *testing.T) {
	t.Parallel()
	t.Run("refused", func(t *testing.T) {
		t.Parallel()
		f := newFleet(t, backup()).healthy()
		j := f.job(t)
		table := j.refused(f.all(j, script)...)
		wantParts(t, table, "error I02", "10.37.8.72", "10.37.12.78", "gorun --iface 10.37.8.0/24")
		golden(t, "subnets.txt", table)
	})
	t.Run("no network in common", func(t *testing.T) {
		t.Parallel()
		nics := backup()
		nics[1] = nics[1][:1]
		for i, addr := range []string{"192.168.7.1/32 192.168.7.101/24", "192.168.7.2/32 192.168.7.102/24"} {
			// Agents can talk, by an address that no worker may take: it is local.
			_, local, _ := strings.Cut(addr, " ")
			nics[i] = append(nics[i], nic{name: "docker0", addrs: local, net: mgmt})
		}
		f := newFleet(t, nics).healthy()
		j := f.job(t)
		table := j.refused(f.all(j, script)...)
		wantParts(t, table, "error I02")
		golden(t, "subnets-apart.txt", table)
	})
	for _, iface := range []string{"auto", "10.37.8.0/24"} {
		t.Run("iface "+iface, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t, backup()).healthy()
			j := f.job(t, "--iface", iface)
			agents := f.all(j, script)
			j.wantExit(longWait, 0, agents...)
			for i, name := range []string{"eth0", "eth1"} {
				agents[i].waitForStdout("NCCL_SOCKET_IFNAME=="+name+" GLOO_SOCKET_IFNAME="+name+" TP_SOCKET_IFNAME="+name+" UCX_NET_DEVICES="+name+"\n", 1)
				if table := agents[i].table(); table != "" {
					t.Errorf("%s says:\n%s", agents[i].name, table)
				}
			}
		})
	}
}

// NCCL_NET=IB is forced where libibverbs is missing, and so is an address family without
// any address.
func TestIncidentForcedNetwork(t *testing.T) {
	t.Parallel()
	f := newFleet(t, twoMachines()).healthy()
	for _, m := range f.machines {
		m.env = append(m.env, "NCCL_NET=IB", "NCCL_SOCKET_FAMILY=AF_INET6")
	}
	j := f.job(t)
	table := j.refused(f.all(j, script)...)
	wantFindings(t, table, "error N01", "error I09")
	wantParts(t, table, "libibverbs.so.1", "NCCL_NET=IB", "AF_INET6")
	golden(t, "forced.txt", table)
}

// Two ranks use one device, in an all-to-all job whose most visible lines are about
// something else. The report, and explain on the captured output, name the device and
// its ranks, whichever rank ended first.
func TestIncidentAllToAll(t *testing.T) {
	t.Parallel()
	logs, err := filepath.Abs("testdata/alltoall")
	if err != nil {
		t.Fatal(err)
	}
	for name, first := range map[string]string{"culprit": "1", "victim": "3"} {
		t.Run(name+" ends first", func(t *testing.T) {
			t.Parallel()
			f := newFleet(t, twoMachines())
			j := f.job(t, "--nproc-per-node", "2")
			// In the order of the ranks, so that the output is always the same.
			agents := f.all(j, sh(`while [ $(ls $E2E_DIR | wc -l) -lt $RANK ]; do sleep 0.01; done
				cat `+logs+`/rank$RANK.log >&2; touch $E2E_DIR/$RANK
				while [ ! -e $E2E_DIR/3 ]; do sleep 0.01; done
				[ $RANK = `+first+` ] || sleep 30; exit 1`)...)
			j.wantExit(longWait, 1, agents...)
			j.wantSameCause(agents...)
			captured := ""
			for _, a := range agents {
				captured += a.out.String() + a.err.String()
			}
			for _, a := range agents {
				wantParts(t, a.err.String(), "likely cause: ranks 0, 1 on node1: two ranks use the same GPU [D01]", "set_device(LOCAL_RANK)")
			}
			cmd := exec.Command(os.Getenv(envGorun), "explain", "-")
			cmd.Stdin = strings.NewReader(captured)
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Errorf("gorun explain: %v", err)
			}
			cause, _, _ := strings.Cut(string(out), "\n\n")
			wantParts(t, cause, "two ranks use the same GPU [D01]", "blame: ranks 0, 1 on node1", "1a000", "set_device(LOCAL_RANK)")
			// Both ranks report it, and either report may arrive first.
			cause = strings.NewReplacer("node1:4243:4311", "node1:4242:4310", "rank 1 and rank 0", "rank 0 and rank 1").Replace(cause)
			golden(t, "alltoall.txt", regexp.MustCompile(`(?m)^  -:\d+:`).ReplaceAllString(cause+"\n", "  -:LINE:"))
		})
	}
}

// With NCCL 2.26.5 a query of RAS can crash a rank. gorun makes no query, and warns a
// user that enables RAS.
func TestIncidentRAS(t *testing.T) {
	t.Parallel()
	for name, env := range map[string][]string{
		"asked":     {"NCCL_RAS_ENABLE=1", "NCCL_RAS_ADDR=localhost:28028"},
		"not asked": nil,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t, twoMachines()).healthy()
			var queries atomic.Int64
			for i, m := range f.machines {
				m.wheel("2.26.5")
				m.env = append(m.env, env...)
				f.listen(i+1, "tcp", ":28028", func(net.Conn) { queries.Add(1) })
			}
			j := f.job(t)
			agents := f.all(j, script)
			j.wantExit(longWait, 0, agents...)
			if n := queries.Load(); n != 0 {
				t.Errorf("RAS was asked %d times", n)
			}
			table := agents[0].table() + agents[1].table()
			if env == nil {
				wantFindings(t, table)
				return
			}
			wantFindings(t, table, "warning V04")
			golden(t, "ras.txt", table)
		})
	}
}

// listen serves connections on a machine until the test ends.
func (f *fleet) listen(host int, network, addr string, serve func(net.Conn)) {
	f.Helper()
	l, err := listenIn("/run/netns/"+f.host(host), network, addr)
	if err != nil {
		f.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			serve(conn)
			conn.Close()
		}
	}()
	f.Cleanup(func() {
		l.Close()
		<-done
	})
}

// listenIn makes a listener in a network namespace. The thread must go back to its own,
// and no thread of these tests may end: it may have started a process of another test,
// which the kernel then kills (Pdeathsig).
func listenIn(namespace, network, addr string) (l net.Listener, err error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	own, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		return nil, err
	}
	defer own.Close()
	other, err := os.Open(namespace)
	if err != nil {
		return nil, err
	}
	defer other.Close()
	if err := unix.Setns(int(other.Fd()), unix.CLONE_NEWNET); err != nil {
		return nil, err
	}
	defer func() {
		if err := unix.Setns(int(own.Fd()), unix.CLONE_NEWNET); err != nil {
			panic(err) // no test may go on in another network
		}
	}()
	return net.Listen(network, addr)
}
