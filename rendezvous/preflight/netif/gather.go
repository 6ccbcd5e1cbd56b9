package netif

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/gorun/gorun/internal/smallfile"
)

// Options says where Gather reads.
type Options struct {
	Root string // "" is "/"; tests use it to fake /sys, /proc and /etc
	Host string // "" is the machine's host name

	// NameServer is how long the name server may take to look up the host name
	// if /etc/hosts does not have it. With 0 it is not asked, and
	// Facts.HostKnown stays false. Only Gloo needs the answer.
	NameServer time.Duration

	Brief bool // read addresses only, not what /proc and /sys know of interfaces

	dump func(request int) ([]byte, error) // for tests: a netlink dump
}

// maxSys is how many interfaces Gather reads from /sys, with four reads each.
const maxSys = 64

// Gather reads the node's network. The strings say what stays unknown and why.
// Without Options.NameServer it blocks on nothing.
func Gather(ctx context.Context, o Options) (Facts, []string) {
	f := Facts{RPFilter: -1, ARPIgnore: -1}
	var unknown []string
	missing := func(what string, err error) { unknown = append(unknown, what+": "+err.Error()) }

	if o.dump == nil {
		o.dump = func(request int) ([]byte, error) { return syscall.NetlinkRIB(request, syscall.AF_UNSPEC) }
	}
	links, err := o.dump(syscall.RTM_GETLINK)
	if err == nil {
		f.Interfaces, err = parseLinks(links)
	}
	if err != nil {
		missing("interfaces", err)
	}
	addresses, err := o.dump(syscall.RTM_GETADDR)
	if err == nil {
		f.Addresses, err = parseAddresses(addresses, f.Interfaces)
	}
	if err != nil {
		missing("addresses", err)
	}
	if err := ctx.Err(); err != nil {
		missing("the rest of the network", err)
		return f, unknown
	}
	if o.Brief {
		return f, unknown
	}
	o.devices(&f)

	f.Namespace, _ = os.Readlink(filepath.Join(o.Root, "/proc/thread-self/ns/net"))
	f.RPFilter = o.number("/proc/sys/net/ipv4/conf/all/rp_filter", -1)
	f.ARPIgnore = o.number("/proc/sys/net/ipv4/conf/all/arp_ignore", -1)
	_, _ = fmt.Sscan(o.read("/proc/sys/net/ipv4/ip_local_port_range"), &f.PortFirst, &f.PortLast)
	f.Reserved = spans(o.read("/proc/sys/net/ipv4/ip_local_reserved_ports"))
	if err := o.resolve(ctx, &f); err != nil {
		missing("host name", err)
	}
	return f, unknown
}

// devices adds what only /sys knows of the interfaces that have addresses and
// of the interfaces below them.
func (o Options) devices(f *Facts) {
	wanted := map[string]bool{}
	used := map[int]bool{}
	for _, a := range f.Addresses {
		used[a.Index] = true
	}
	for _, i := range f.Interfaces {
		if used[i.Index] {
			wanted[i.Name] = true
			for _, slave := range i.Slaves {
				wanted[slave] = true
			}
		}
	}
	count := 0
	for n := range f.Interfaces {
		i := &f.Interfaces[n]
		if !wanted[i.Name] || i.Loopback || count == maxSys || !filepath.IsLocal(i.Name) {
			continue
		}
		count++
		dir := "/sys/class/net/" + i.Name + "/"
		// In a network namespace /sys may still show the interfaces of another
		// namespace.
		if o.number(dir+"ifindex", 0) != i.Index {
			continue
		}
		info, err := os.Stat(o.Root + dir + "device")
		i.Device = err == nil && info.IsDir()
		switch i.Kind {
		case "", "bond", "team", "vlan", "ipoib": // the speed of other kinds is made up: a veth's is always 10000
			i.Speed = max(o.number(dir+"speed", 0), 0)
		}
	}
}

// spans reads "8080,30000-32767". It leaves out parts that are no span or are
// cut off.
func spans(text string) (out [][2]int) {
	for part := range strings.SplitSeq(text, ",") {
		first, last, isSpan := strings.Cut(part, "-")
		if !isSpan {
			last = first
		}
		lo, err := strconv.Atoi(first)
		hi, err2 := strconv.Atoi(last)
		if err == nil && err2 == nil && lo > 0 && lo <= hi {
			out = append(out, [2]int{lo, hi})
		}
	}
	return out
}

// read returns the first line of a small file, "" if it cannot be read.
func (o Options) read(p string) string {
	b, _, _ := smallfile.Read(o.Root+p, 4<<10)
	s, _, _ := strings.Cut(string(b), "\n")
	return strings.TrimSpace(s)
}

func (o Options) number(p string, otherwise int) int {
	n, err := strconv.Atoi(o.read(p))
	if err != nil {
		return otherwise
	}
	return n
}
