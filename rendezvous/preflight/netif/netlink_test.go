package netif

import (
	"encoding/binary"
	"reflect"
	"syscall"
	"testing"
)

// message builds a netlink message: a header of the kind, a fixed part and
// attributes.
func message(kind uint16, fixed []byte, attrs ...[]byte) []byte {
	body := fixed
	for _, a := range attrs {
		body = append(body, a...)
		for len(body)%4 != 0 {
			body = append(body, 0)
		}
	}
	h := make([]byte, syscall.NLMSG_HDRLEN, syscall.NLMSG_HDRLEN+len(body))
	binary.NativeEndian.PutUint32(h, uint32(syscall.NLMSG_HDRLEN+len(body)))
	binary.NativeEndian.PutUint16(h[4:], kind)
	return append(h, body...)
}

func attr(kind uint16, value []byte) []byte {
	b := make([]byte, 4, 4+len(value))
	binary.NativeEndian.PutUint16(b, uint16(4+len(value)))
	binary.NativeEndian.PutUint16(b[2:], kind)
	return append(b, value...)
}

func number(n int) []byte { return binary.NativeEndian.AppendUint32(nil, uint32(n)) }

func link(index int, flags int, attrs ...[]byte) []byte {
	fixed := append(make([]byte, 4), number(index)...)
	fixed = append(fixed, number(flags)...)
	return message(syscall.RTM_NEWLINK, append(fixed, 0, 0, 0, 0), attrs...)
}

func address(family, bits, scope byte, index int, attrs ...[]byte) []byte {
	return message(syscall.RTM_NEWADDR, append([]byte{family, bits, 0, scope}, number(index)...), attrs...)
}

func concat(parts ...[]byte) []byte {
	var out []byte
	for _, p := range parts {
		out = append(out, p...)
	}
	return out
}

func TestNetlinkDumpsAreRead(t *testing.T) {
	const nested = 0x8000
	name := func(s string) []byte { return attr(syscall.IFLA_IFNAME, append([]byte(s), 0)) }
	dump := concat(
		link(1, syscall.IFF_UP|syscall.IFF_RUNNING|syscall.IFF_LOOPBACK, name("lo"), attr(syscall.IFLA_MTU, number(65536)), attr(syscall.IFLA_ADDRESS, make([]byte, 6))),
		link(2, syscall.IFF_UP, name("bond0"), attr(syscall.IFLA_ADDRESS, []byte{2, 0, 0, 0, 0, 1}),
			attr(nested|syscall.IFLA_LINKINFO, concat(attr(2, []byte{1, 2, 3, 4}), attr(1, []byte("bond\x00"))))),
		link(3, 0, name("eth0"), attr(syscall.IFLA_MASTER, number(2))),
		message(syscall.NLMSG_DONE, nil),
		link(4, 0, name("late")),
	)
	links, err := parseLinks(dump)
	want := []Interface{
		{Index: 1, Name: "lo", MTU: 65536, Up: true, Running: true, Loopback: true},
		{Index: 2, Name: "bond0", MAC: "02:00:00:00:00:01", Up: true, Kind: "bond", Slaves: []string{"eth0"}},
		{Index: 3, Name: "eth0"},
	}
	if err != nil || !reflect.DeepEqual(links, want) {
		t.Errorf("links %+v, %v\nwant  %+v", links, err, want)
	}

	v6 := append([]byte{0xfe, 0x80}, make([]byte, 14)...)
	addrs, err := parseAddresses(concat(
		address(syscall.AF_INET, 8, 254, 1, attr(syscall.IFA_ADDRESS, []byte{127, 0, 0, 1}), attr(syscall.IFA_LABEL, []byte("lo\x00"))),
		address(syscall.AF_INET, 32, 0, 2, attr(syscall.IFA_ADDRESS, []byte{10, 0, 0, 9}), attr(syscall.IFA_LOCAL, []byte{10, 0, 0, 1}), attr(syscall.IFA_LABEL, []byte("bond0:1\x00"))),
		address(syscall.AF_INET, 24, 0, 99, attr(syscall.IFA_ADDRESS, []byte{10, 0, 0, 7})),   // a link that no longer exists
		address(syscall.AF_INET, 99, 0, 2, attr(syscall.IFA_ADDRESS, []byte{10, 0, 0, 7})),    // no such prefix
		address(syscall.AF_INET, 24, 0, 2, attr(syscall.IFA_ADDRESS, []byte{10, 0, 0, 7, 1})), // no such address
		address(syscall.AF_INET6, 64, 253, 3, attr(syscall.IFA_ADDRESS, v6)),
	), links)
	wantAddrs := []Address{
		{Index: 1, Label: "lo", IP: "127.0.0.1", Bits: 8, Scope: "host"},
		{Index: 2, Label: "bond0:1", IP: "10.0.0.1", Bits: 32, Scope: "global"},
		{Index: 3, Label: "eth0", IP: "fe80::", Bits: 64, Scope: "link"},
	}
	if err != nil || !reflect.DeepEqual(addrs, wantAddrs) {
		t.Errorf("addresses %+v, %v\nwant      %+v", addrs, err, wantAddrs)
	}
}

func TestNetlinkDumpsAreBounded(t *testing.T) {
	var links, addrs []byte
	for i := range maxAddresses + 10 {
		links = append(links, link(i+1, 0, attr(syscall.IFLA_IFNAME, []byte("x")))...)
		addrs = append(addrs, address(syscall.AF_INET, 8, 0, 1, attr(syscall.IFA_ADDRESS, []byte{10, 0, byte(i >> 8), byte(i)}))...)
	}
	l, err := parseLinks(links)
	if len(l) != maxLinks || err == nil {
		t.Errorf("%d links, %v", len(l), err)
	}
	a, err := parseAddresses(addrs, l)
	if len(a) != maxAddresses || err == nil {
		t.Errorf("%d addresses, %v", len(a), err)
	}
}

func FuzzNetlink(f *testing.F) {
	f.Add(link(1, 1, attr(syscall.IFLA_IFNAME, []byte("eth0")), attr(syscall.IFLA_LINKINFO, attr(1, []byte("veth")))),
		address(syscall.AF_INET, 24, 0, 1, attr(syscall.IFA_LOCAL, []byte{10, 0, 0, 1})))
	f.Add([]byte{16, 0, 0, 0, 16, 0}, []byte{0xff, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, links, addrs []byte) {
		l, _ := parseLinks(links)
		a, _ := parseAddresses(addrs, l)
		facts := Facts{Interfaces: l, Addresses: a}
		NCCL(facts, vars(), 0)
		Suggest([]Facts{facts, facts}, nil)
		for _, a := range a {
			if a.Label == "" || len(a.Label) > syscall.IFNAMSIZ*3 || a.IP == "" {
				t.Errorf("%+v", a)
			}
		}
	})
}
