package netif

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

const listProgram = `
#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdio.h>
int main(void) {
	struct ifaddrs *all, *a;
	if (getifaddrs(&all)) return 1;
	for (a = all; a; a = a->ifa_next) {
		char ip[64];
		int bits = 0, size;
		const unsigned char *mask;
		const void *addr;
		if (!a->ifa_addr || !a->ifa_netmask) continue;
		if (a->ifa_addr->sa_family == AF_INET) {
			addr = &((struct sockaddr_in *)a->ifa_addr)->sin_addr;
			mask = (void *)&((struct sockaddr_in *)a->ifa_netmask)->sin_addr;
			size = 4;
		} else if (a->ifa_addr->sa_family == AF_INET6) {
			addr = &((struct sockaddr_in6 *)a->ifa_addr)->sin6_addr;
			mask = (void *)&((struct sockaddr_in6 *)a->ifa_netmask)->sin6_addr;
			size = 16;
		} else continue;
		for (int i = 0; i < size * 8; i++) bits += mask[i / 8] >> (7 - i % 8) & 1;
		printf("%s %s/%d%s%s\n", a->ifa_name, inet_ntop(a->ifa_addr->sa_family, addr, ip, sizeof ip), bits,
			a->ifa_flags & IFF_RUNNING ? " running" : "", a->ifa_flags & IFF_LOOPBACK ? " loopback" : "");
	}
	return 0;
}
`

// need skips the test where a tool is missing, but not in CI.
func need(t *testing.T, ok bool, what string) {
	t.Helper()
	if ok {
		return
	}
	if os.Getenv("CI") == "true" {
		t.Fatalf("CI lacks %s", what)
	}
	t.Skipf("needs %s", what)
}

func do(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.Command(args[0], args[1:]...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v: %s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// TestAddressesAreGetifaddrs checks that the addresses are getifaddrs', name by
// name and in its order. It uses a network namespace with aliases, further
// addresses, IPv6, a point-to-point link, links created in another order than
// their names', and one link without a carrier.
func TestAddressesAreGetifaddrs(t *testing.T) {
	gcc, err := exec.LookPath("gcc")
	need(t, err == nil, "gcc")
	_, err = exec.LookPath("ip")
	need(t, err == nil && os.Getuid() == 0, "iproute2 and root, for a network namespace")

	dir := t.TempDir()
	source, program := filepath.Join(dir, "list.c"), filepath.Join(dir, "list")
	if err := os.WriteFile(source, []byte(listProgram), 0o600); err != nil {
		t.Fatal(err)
	}
	do(t, gcc, "-o", program, source)

	ns := fmt.Sprintf("netif%d", os.Getpid())
	if out, err := exec.Command("ip", "netns", "add", ns).CombinedOutput(); err != nil {
		need(t, false, "network namespaces: "+string(out))
	}
	t.Cleanup(func() { _ = exec.Command("ip", "netns", "del", ns).Run() })
	for _, args := range []string{
		"link set lo up",
		"link add zeta type veth peer name zeta1",
		"link add eth0 type veth peer name eth1",
		"link add alpha type bridge",
		"link add ppp0 type veth peer name ppp1",
		"link add v0 type veth peer name v1",
		"addr add 10.9.0.1/24 dev zeta",
		"addr add fd00:9::1/64 dev zeta nodad",
		"addr add 10.1.0.1/24 dev eth0",
		"addr add 10.1.0.2/24 dev eth0 label eth0:1",
		"addr add 10.2.0.1/16 dev eth0",
		"addr add fd00:1::1/64 dev eth0 nodad",
		"addr add fd00:2::1/64 dev eth0 nodad",
		"addr add 172.17.0.1/16 dev alpha",
		"addr add 10.8.0.1 peer 10.8.0.2/32 dev ppp0",
		"addr add 10.3.0.1/24 dev v0",
		"link set zeta up", "link set zeta1 up", "link set eth0 up", "link set eth1 up", "link set alpha up", "link set ppp0 up", "link set ppp1 up",
		"link set v0 up", // its other end is down: no carrier
	} {
		do(t, append([]string{"ip", "-n", ns}, strings.Fields(args)...)...)
	}

	// The kernel adds link-local addresses and sets the running flag after a while, and
	// later where other tests change links. Both lists are read again until the
	// namespace is complete and nothing changed between the two readings.
	lines := []string{"lo 127.0.0.1/8 running loopback\n", "eth0:1 10.1.0.2/24 running\n", "ppp0 10.8.0.1/32 running\n", "v0 10.3.0.1/24\n", "alpha 172.17.0.1/16", "fd00:9::1/64"}
	lacks := func(list string) (missing []string) {
		for _, line := range lines {
			if !strings.Contains(list, line) {
				missing = append(missing, line)
			}
		}
		if strings.Count(list, "fe80::") < 3 {
			missing = append(missing, "three link-local addresses")
		}
		return missing
	}
	var got, want string
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); {
		want = do(t, "ip", "netns", "exec", ns, program)
		if got = inside(t, ns); got == want && len(lacks(want)) == 0 {
			return
		}
		time.Sleep(20 * time.Millisecond) // sleep: between two readings of what the kernel adds by itself
	}
	if got != want {
		t.Errorf("gathered:\n%s\ngetifaddrs:\n%s", got, want)
	}
	if missing := lacks(want); len(missing) > 0 {
		t.Errorf("the namespace lacks %q:\n%s", missing, want)
	}
}

// inside runs Gather in a network namespace, on a thread that ends with it, and
// prints as the program does.
func inside(t *testing.T, ns string) string {
	t.Helper()
	type result struct {
		facts   Facts
		unknown []string
	}
	done := make(chan result)
	go func() {
		defer close(done)
		runtime.LockOSThread() // never unlocked: the thread stays in the namespace and ends
		f, err := os.Open("/var/run/netns/" + ns)
		if err != nil {
			t.Error(err)
			return
		}
		defer func() { _ = f.Close() }()
		if err := unix.Setns(int(f.Fd()), unix.CLONE_NEWNET); err != nil {
			t.Error(err)
			return
		}
		facts, unknown := Gather(t.Context(), Options{})
		done <- result{facts, unknown}
	}()
	r := <-done
	if len(r.unknown) > 0 {
		t.Errorf("unknown: %q", r.unknown)
	}
	links := byIndex(r.facts)
	var b strings.Builder
	for _, a := range r.facts.Addresses {
		fmt.Fprintf(&b, "%s %s/%d", a.Label, a.IP, a.Bits)
		if links[a.Index].Running {
			b.WriteString(" running")
		}
		if links[a.Index].Loopback {
			b.WriteString(" loopback")
		}
		b.WriteString("\n")
	}
	return b.String()
}
