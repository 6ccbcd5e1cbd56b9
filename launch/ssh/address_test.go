package ssh

import (
	"slices"
	"strings"
	"testing"
)

func TestReachable(t *testing.T) {
	for name, tt := range map[string]struct {
		hosts []Hello
		want  string
	}{
		"as ssh reaches them":    {[]Hello{{Server: "10.0.0.1"}, {Server: "2001:db8::1"}}, "10.0.0.1 2001:db8::1"},
		"this machine only":      {[]Hello{{Server: "127.0.0.1"}, {Server: "127.0.0.2"}}, "127.0.0.1 127.0.0.2"},
		"this machine is one":    {[]Hello{{Server: "::1", Addresses: []string{"fd00::1/64", "172.17.0.1/16", "10.0.0.7/24"}}, {Server: "10.0.0.1"}}, "10.0.0.7 10.0.0.1"},
		"no network in common":   {[]Hello{{Server: "127.0.0.1", Addresses: []string{"fd00::1/64", "192.168.1.7/24"}}, {Server: "10.0.0.1"}}, "192.168.1.7 10.0.0.1"},
		"link-local":             {[]Hello{{Server: "fe80::1", Addresses: []string{"10.0.0.7/24"}}, {Server: "10.0.0.1"}}, "10.0.0.7 10.0.0.1"},
		"mapped":                 {[]Hello{{Server: "::ffff:10.0.0.2"}}, "10.0.0.2"},
		"without SSH_CONNECTION": {[]Hello{{Addresses: []string{"10.0.0.7/24"}}}, "10.0.0.7"},
	} {
		got, err := Reachable(tt.hosts)
		if err != nil || strings.Join(got, " ") != tt.want {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	if got, err := Reachable([]Hello{{Server: "10.0.0.1"}, {Addresses: []string{"x"}}}); err == nil || !strings.Contains(err.Error(), "host 2") {
		t.Errorf("%q, %v", got, err)
	}
}

func TestServerAddress(t *testing.T) {
	for text, want := range map[string]string{
		"10.0.0.9 51234 10.0.0.1 22":         "10.0.0.1",
		"fe80::9%eth0 51234 fe80::1%eth0 22": "fe80::1",
		"":                                   "", "a b": "", "1 2 x 4": "",
	} {
		if got := serverAddress(text); got != want {
			t.Errorf("%q: %q", text, got)
		}
	}
}

func TestFreePort(t *testing.T) {
	lo, hi := localPorts()
	port, err := freePort(0, 0)
	if err != nil || port >= lo && port <= hi {
		t.Errorf("port %d of the kernel's range %d-%d, %v", port, lo, hi, err)
	}
	if port, err := freePort(21000, 21999); err != nil || port < 21000 || port > 21999 {
		t.Errorf("port %d, %v", port, err)
	}
	for _, tt := range [][4]int{{32768, 60999, 10000, 32767}, {1024, 60999, 61000, 65535}, {1024, 65535, 1024, 65535}, {10050, 65500, 10050, 65500}} {
		if lo, hi := unassigned(tt[0], tt[1]); !slices.Equal([]int{lo, hi}, tt[2:]) {
			t.Errorf("outside %d-%d: %d-%d", tt[0], tt[1], lo, hi)
		}
	}
}
