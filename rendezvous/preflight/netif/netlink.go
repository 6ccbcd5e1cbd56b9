package netif

import (
	"encoding/binary"
	"errors"
	"iter"
	"net"
	"net/netip"
	"strings"
	"syscall"
)

// These are the most links and addresses that are kept. A node has a few, a
// Kubernetes node a few hundred.
const (
	maxLinks     = 512
	maxAddresses = 1024
)

// messages iterates over a netlink dump: the type and the payload of each
// message up to the message that ends the dump. A message that does not fit also
// ends the iteration.
func messages(dump []byte) iter.Seq2[uint16, []byte] {
	return func(yield func(uint16, []byte) bool) {
		for len(dump) >= syscall.NLMSG_HDRLEN {
			size := int(binary.NativeEndian.Uint32(dump))
			kind := binary.NativeEndian.Uint16(dump[4:])
			if size < syscall.NLMSG_HDRLEN || size > len(dump) || kind == syscall.NLMSG_DONE || kind == syscall.NLMSG_ERROR {
				return
			}
			if !yield(kind, dump[syscall.NLMSG_HDRLEN:size]) {
				return
			}
			dump = dump[min(align(size), len(dump)):]
		}
	}
}

// attributes iterates over the route attributes of a message.
func attributes(b []byte) iter.Seq2[uint16, []byte] {
	return func(yield func(uint16, []byte) bool) {
		for len(b) >= 4 {
			size := int(binary.NativeEndian.Uint16(b))
			if size < 4 || size > len(b) {
				return
			}
			const flags = 0xc000 // NLA_F_NESTED, NLA_F_NET_BYTEORDER
			if !yield(binary.NativeEndian.Uint16(b[2:])&^flags, b[4:size]) {
				return
			}
			b = b[min(align(size), len(b)):]
		}
	}
}

func align(n int) int { return (n + 3) &^ 3 }

var errTooMany = errors.New("the node has more interfaces or addresses than gorun reads")

// parseLinks reads the answer to RTM_GETLINK, in its order.
func parseLinks(dump []byte) ([]Interface, error) {
	var out []Interface
	masters := map[int][]string{}
	for kind, b := range messages(dump) {
		if kind != syscall.RTM_NEWLINK || len(b) < syscall.SizeofIfInfomsg {
			continue
		}
		if len(out) == maxLinks {
			return out, errTooMany
		}
		flags := binary.NativeEndian.Uint32(b[8:])
		i := Interface{
			Index:    int(int32(binary.NativeEndian.Uint32(b[4:]))),
			Up:       flags&syscall.IFF_UP != 0,
			Running:  flags&syscall.IFF_RUNNING != 0,
			Loopback: flags&syscall.IFF_LOOPBACK != 0,
		}
		master := 0
		for kind, v := range attributes(b[syscall.SizeofIfInfomsg:]) {
			switch {
			case kind == syscall.IFLA_IFNAME:
				i.Name = text(v)
			case kind == syscall.IFLA_MTU && len(v) >= 4:
				i.MTU = int(int32(binary.NativeEndian.Uint32(v)))
			case kind == syscall.IFLA_MASTER && len(v) >= 4:
				master = int(int32(binary.NativeEndian.Uint32(v)))
			case kind == syscall.IFLA_ADDRESS && len(v) <= 32 && strings.Trim(string(v), "\x00") != "":
				i.MAC = net.HardwareAddr(v).String()
			case kind == syscall.IFLA_LINKINFO:
				i.Kind = infoKind(v)
			}
		}
		if master != 0 {
			masters[master] = append(masters[master], i.Name)
		}
		out = append(out, i)
	}
	for n := range out {
		out[n].Slaves = masters[out[n].Index]
	}
	return out, nil
}

func infoKind(b []byte) string {
	const iflaInfoKind = 1
	for kind, v := range attributes(b) {
		if kind == iflaInfoKind {
			return text(v)
		}
	}
	return ""
}

// parseAddresses reads the answer to RTM_GETADDR. It keeps the order of the
// answer, which is also getifaddrs'. links give the names.
func parseAddresses(dump []byte, links []Interface) ([]Address, error) {
	names := map[int]string{}
	for _, l := range links {
		names[l.Index] = l.Name
	}
	var out []Address
	for kind, b := range messages(dump) {
		if kind != syscall.RTM_NEWADDR || len(b) < syscall.SizeofIfAddrmsg {
			continue
		}
		if len(out) == maxAddresses {
			return out, errTooMany
		}
		a := Address{Index: int(int32(binary.NativeEndian.Uint32(b[4:]))), Bits: int(b[1]), Scope: scope(b[3])}
		a.Label = names[a.Index]
		var ip, local netip.Addr
		for kind, v := range attributes(b[syscall.SizeofIfAddrmsg:]) {
			switch kind {
			case syscall.IFA_ADDRESS:
				ip, _ = netip.AddrFromSlice(v)
			case syscall.IFA_LOCAL: // on a point-to-point link IFA_ADDRESS is the other end
				local, _ = netip.AddrFromSlice(v)
			case syscall.IFA_LABEL:
				a.Label = text(v)
			}
		}
		if local.IsValid() {
			ip = local
		}
		if !ip.IsValid() || a.Label == "" || a.Bits > ip.BitLen() {
			continue
		}
		a.IP = ip.String()
		out = append(out, a)
	}
	return out, nil
}

// text returns a name in a netlink attribute; no interface has a longer name.
func text(b []byte) string {
	s, _, _ := strings.Cut(string(b[:min(len(b), syscall.IFNAMSIZ)]), "\x00")
	return strings.ToValidUTF8(s, "?")
}

func scope(b byte) string {
	switch b {
	case syscall.RT_SCOPE_UNIVERSE:
		return "global"
	case syscall.RT_SCOPE_SITE:
		return "site"
	case syscall.RT_SCOPE_LINK:
		return "link"
	default:
		return "host"
	}
}
