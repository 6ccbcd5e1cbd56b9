package e2e_test

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/gorun/gorun/internal/porttest"
)

// ports are the sockets at which a process can be reached.
type ports struct{ tcp, udp []netip.AddrPort }

// portsOf reads what a process listens at.
func portsOf(t testing.TB, pid int) ports {
	t.Helper()
	inodes := map[string]bool{}
	fds, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	for _, fd := range fds {
		if link, err := os.Readlink(fd); err == nil && strings.HasPrefix(link, "socket:[") {
			inodes[strings.Trim(link, "socket:[]")] = true
		}
	}
	read := func(file, state string) (out []netip.AddrPort) {
		for _, suffix := range []string{"", "6"} {
			b, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/%s%s", pid, file, suffix))
			if err != nil {
				continue
			}
			for line := range strings.Lines(string(b)) {
				f := strings.Fields(line)
				if len(f) < 10 || f[3] != state || !inodes[f[9]] {
					continue
				}
				addr, err := parseAddr(f[1])
				if err != nil {
					t.Fatal(err)
				}
				out = append(out, addr)
			}
		}
		return out
	}
	return ports{tcp: read("tcp", "0A"), udp: read("udp", "07")}
}

// parseAddr reads an address of /proc/net/tcp: words of the machine's byte
// order in hexadecimal, a colon, the port.
func parseAddr(s string) (netip.AddrPort, error) {
	host, port, _ := strings.Cut(s, ":")
	b, err := hex.DecodeString(host)
	p, err2 := hex.DecodeString(port)
	if err != nil || err2 != nil || len(b)%4 != 0 || len(p) != 2 {
		return netip.AddrPort{}, fmt.Errorf("%q is no address", s)
	}
	for i := 0; i < len(b); i += 4 {
		binary.NativeEndian.PutUint32(b[i:], binary.BigEndian.Uint32(b[i:]))
	}
	ip, _ := netip.AddrFromSlice(b)
	return netip.AddrPortFrom(ip.Unmap(), binary.BigEndian.Uint16(p)), nil
}

// TestPortRange checks that with --port-range every port of every agent, but for the
// endpoint, lies in it.
func TestPortRange(t *testing.T) {
	t.Parallel()
	lo := porttest.Row(t, "", 20)
	j := newJob(t, "--port-range", fmt.Sprintf("%d-%d", lo, lo+19))
	agents := j.nodes(2, sh(`echo up $MASTER_PORT; while [ ! -e $E2E_DIR/go ]; do sleep 0.05; done`)...)
	for _, a := range agents {
		a.waitForStdout("up", 1)
	}
	endpoint := netip.MustParseAddrPort(j.endpoint)
	for i, a := range agents {
		p := portsOf(t, a.pid())
		if len(p.tcp) < 3 || len(p.udp) < 1 {
			t.Errorf("%s: only %v: this test looks at the wrong process", a.name, p)
		}
		for _, at := range slices.Concat(p.tcp, p.udp) {
			inside := int(at.Port()) >= lo && int(at.Port()) < lo+20
			if !inside && (i != 0 || at != endpoint) {
				t.Errorf("%s listens at %v, outside %d-%d", a.name, at, lo, lo+19)
			}
			if at.Addr().String() != a.name {
				t.Errorf("%s listens at %v, which is not its --local-addr", a.name, at)
			}
		}
	}
	j.touch("go")
	j.wantExit(longWait, 0, agents...)
}

// TestWorkersListenInThePortRange checks that --port-range confines the ports that Go workers
// open for each other, at their node's address.
func TestWorkersListenInThePortRange(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	lo := porttest.Row(t, "", 20)
	j := newJob(t, "--nproc-per-node", "2", "--port-range", fmt.Sprintf("%d-%d", lo, lo+19), "--shutdown-timeout", "5")
	agents := j.nodes(2, self, playFlag, playLoops)
	waitForRanks(t, j.dir, 4)
	workers := 0
	for _, p := range j.processes() {
		if !strings.HasSuffix(p.cmdline, playFlag+" "+playLoops) || !strings.HasPrefix(p.cmdline, self) {
			continue
		}
		workers++
		open := portsOf(t, p.pid)
		if len(open.tcp) != 1 || len(open.udp) > 0 {
			t.Errorf("%v listens at %v", p, open)
		}
		for _, at := range open.tcp {
			if int(at.Port()) < lo || int(at.Port()) >= lo+20 || at.Addr().String() != agents[0].name && at.Addr().String() != agents[1].name {
				t.Errorf("%v listens at %v, outside %d-%d of its node", p, at, lo, lo+19)
			}
		}
	}
	if workers != 4 {
		t.Errorf("%d workers", workers)
	}
	agents[0].signal(syscall.SIGTERM)
	j.wantExit(longWait, 143, agents...)
}

// TestPortRangeFull checks that a range without room is an error that says so.
func TestPortRangeFull(t *testing.T) {
	t.Parallel()
	lo := porttest.Row(t, "", 1)
	j := newJob(t, "--port-range", fmt.Sprintf("%d-%d", lo, lo))
	a := j.node(1, "2", sh("exit 0")...)
	if code := a.wait(longWait); code == 0 {
		t.Error("exit code 0")
	}
	j.wantCause(j.agents, fmt.Sprintf("%d-%d", lo, lo), "all are taken")
}

// touch makes a file in the job's folder, for workers that wait for it.
func (j *job) touch(name string) {
	j.Helper()
	if err := os.WriteFile(filepath.Join(j.dir, name), nil, 0o600); err != nil {
		j.Fatal(err)
	}
}
