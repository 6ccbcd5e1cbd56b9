package netif

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"
)

// fakeRoot writes files under a folder that stands for "/".
func fakeRoot(t testing.TB, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, content := range files {
		p := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// dumps answers in place of the kernel: eth0, and bond0 over eth1.
func dumps(request int) ([]byte, error) {
	name := func(s string) []byte { return attr(syscall.IFLA_IFNAME, []byte(s+"\x00")) }
	ip := func(index int, last byte) []byte {
		return address(syscall.AF_INET, 24, 0, index, attr(syscall.IFA_LOCAL, []byte{10, 0, 0, last}))
	}
	if request == syscall.RTM_GETADDR {
		return concat(ip(2, 1), ip(4, 2), ip(5, 3)), nil
	}
	kind := func(s string) []byte { return attr(syscall.IFLA_LINKINFO, attr(1, []byte(s))) }
	return concat(link(2, 1, name("eth0")), link(3, 1, name("eth1"), attr(syscall.IFLA_MASTER, number(4))),
		link(4, 1, name("bond0"), kind("bond")), link(5, 1, name("eth9"), kind("veth"))), nil
}

func TestGatherReadsSysAndProc(t *testing.T) {
	root := fakeRoot(t, map[string]string{
		"sys/class/net/eth0/ifindex":                "2\n",
		"sys/class/net/eth0/speed":                  "100000\n",
		"sys/class/net/eth0/device/vendor":          "0x15b3\n",
		"sys/class/net/eth1/ifindex":                "77\n", // another namespace's
		"sys/class/net/eth1/device/vendor":          "0x15b3\n",
		"sys/class/net/bond0/ifindex":               "4\n",
		"sys/class/net/bond0/speed":                 "-1\n",
		"sys/class/net/eth9/ifindex":                "5\n",
		"sys/class/net/eth9/speed":                  "10000\n",
		"proc/sys/net/ipv4/conf/all/rp_filter":      "2\n",
		"proc/sys/net/ipv4/ip_local_port_range":     "32768\t60999\n",
		"proc/sys/net/ipv4/ip_local_reserved_ports": "8080,40000-41000\n",
		"etc/hosts": "127.0.0.1 localhost\n10.0.0.1 other MyHost # comment\n127.0.1.1 myhost.example myhost\n",
	})
	f, unknown := Gather(t.Context(), Options{Root: root, Host: "myhost", dump: dumps})
	if len(unknown) > 0 {
		t.Errorf("unknown: %q", unknown)
	}
	want := Facts{
		Interfaces: []Interface{
			{Index: 2, Name: "eth0", Up: true, Device: true, Speed: 100000},
			{Index: 3, Name: "eth1", Up: true},
			{Index: 4, Name: "bond0", Up: true, Kind: "bond", Slaves: []string{"eth1"}},
			{Index: 5, Name: "eth9", Up: true, Kind: "veth"},
		},
		Addresses: []Address{
			{Index: 2, Label: "eth0", IP: "10.0.0.1", Bits: 24, Scope: "global"},
			{Index: 4, Label: "bond0", IP: "10.0.0.2", Bits: 24, Scope: "global"},
			{Index: 5, Label: "eth9", IP: "10.0.0.3", Bits: 24, Scope: "global"},
		},
		Host: "myhost", Hostname: []string{"127.0.1.1", "10.0.0.1"}, HostFrom: "/etc/hosts", HostKnown: true,
		RPFilter: 2, ARPIgnore: -1, PortFirst: 32768, PortLast: 60999, Reserved: [][2]int{{8080, 8080}, {40000, 41000}},
	}
	if !reflect.DeepEqual(f, want) {
		t.Errorf("got  %+v\nwant %+v", f, want)
	}
}

func TestHostNameFollowsNSSwitch(t *testing.T) {
	for _, c := range []struct {
		name, nsswitch, hosts string
		want, from            string
		known                 bool
	}{
		{"in the file", "hosts: files dns", "10.0.0.1 h", "10.0.0.1", "/etc/hosts", true},
		{"not asked", "hosts: files dns", "", "", "", false},
		{"no nsswitch.conf", "", "", "", "", false},
		{"myhostname", "passwd: files\nhosts: files mdns4_minimal [NOTFOUND=return] myhostname dns", "", "10.0.0.1 10.0.0.2 10.0.0.3", "myhostname", true},
		{"resolved", "hosts: mymachines resolve [!UNAVAIL=return] files myhostname dns", "10.0.0.9 h", "10.0.0.9", "/etc/hosts", true},
		{"only files", "hosts: files", "10.0.0.1 other", "", "", true},
		{"a source that is not asked", "hosts: files nis [NOTFOUND=return SUCCESS=continue]", "10.0.0.1 other", "", "", false},
		{"sources that do not know hosts", "hosts: files mdns4_minimal [NOTFOUND=return SUCCESS=continue] mymachines", "10.0.0.1 other", "", "", true},
		{"IPv6 without a way out comes last", "hosts: files", "fd00::9 h\n10.0.0.1 h", "10.0.0.1 fd00::9", "/etc/hosts", true},
		{"IPv6 loopback", "hosts: files", "127.0.0.1 h\n::1 h", "::1 127.0.0.1", "/etc/hosts", true},
		{"rubbish", "hosts: files", "x h\n10.0.0 h\nh\n\x00", "", "", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			root := fakeRoot(t, map[string]string{"etc/hosts": c.hosts, "etc/nsswitch.conf": c.nsswitch})
			f, _ := Gather(t.Context(), Options{Root: root, Host: "h", dump: dumps})
			if strings.Join(f.Hostname, " ") != c.want || f.HostFrom != c.from || f.HostKnown != c.known {
				t.Errorf("got %q from %q (known %v, %s)", f.Hostname, f.HostFrom, f.HostKnown, f.HostError)
			}
		})
	}
}

func TestSilentNameServerDoesNotDelayGather(t *testing.T) {
	root := fakeRoot(t, map[string]string{"etc/hosts": "", "etc/nsswitch.conf": "hosts: dns"})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	o := Options{Root: root, Host: "no-such-host.invalid", NameServer: time.Hour, dump: dumps}
	f := Facts{}
	if err := o.resolve(ctx, &f); err == nil || f.HostKnown {
		t.Errorf("%v, %+v", err, f)
	}
}

func TestWhatCannotBeReadIsUnknown(t *testing.T) {
	f, unknown := Gather(t.Context(), Options{Root: t.TempDir(), Host: "h", dump: func(int) ([]byte, error) { return nil, errors.New("no netlink here") }})
	if len(unknown) != 2 || !strings.Contains(unknown[0], "interfaces: no netlink here") || f.RPFilter != -1 {
		t.Errorf("%q, %+v", unknown, f)
	}
}

func BenchmarkGather(b *testing.B) {
	for b.Loop() {
		Gather(b.Context(), Options{})
	}
}
