package netif

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/gorun/gorun/internal/smallfile"
)

const (
	maxFile    = 1 << 20 // bytes
	maxHostIPs = 32
)

// resolve predicts what getaddrinfo would return for the host name. It follows
// the sources of nsswitch.conf as far as it can without waiting. What stays
// unknown is in HostError. resolve returns it as an error only if the name
// server was asked.
func (o Options) resolve(ctx context.Context, f *Facts) error {
	f.Host = o.Host
	if f.Host == "" {
		f.Host, _ = os.Hostname()
	}
	if f.Host == "" {
		f.HostError = "the machine has no host name"
		return errors.New(f.HostError)
	}
	if ip, err := netip.ParseAddr(f.Host); err == nil {
		f.Hostname, f.HostFrom, f.HostKnown = []string{ip.String()}, "an address itself", true
		return nil
	}
	var other []string // sources that are not asked here and may know the name
	for _, source := range o.sources() {
		var ips []netip.Addr
		switch source {
		case "files", "resolve": // systemd-resolved reads the file, too, and then gives myhostname's answer
			ips, f.HostFrom = parseHosts(o.file("/etc/hosts"), f.Host), "/etc/hosts"
			if len(ips) == 0 && source == "resolve" {
				ips, f.HostFrom = f.globalAddresses(), source
			}
		case "myhostname":
			ips, f.HostFrom = f.globalAddresses(), source
		case "dns":
			if o.NameServer <= 0 {
				f.HostFrom, f.HostError = "", f.Host+" is not in /etc/hosts, and gorun asked no name server"
				return nil
			}
			var err error
			if ips, err = o.resolveName(ctx, f.Host); err != nil {
				f.HostFrom, f.HostError, f.HostSilent = "", err.Error(), true
				return err
			}
			f.HostFrom = "name server"
		case "mymachines", "libvirt", "libvirt_guest": // these know containers and guests
		default:
			if !strings.HasPrefix(source, "mdns") || strings.HasSuffix(f.Host, ".local") {
				other = append(other, source)
			}
		}
		if len(ips) > 0 {
			f.HostKnown = true
			f.Hostname = f.sortAddresses(ips)
			return nil
		}
	}
	if len(other) > 0 {
		f.HostFrom, f.HostError = "", "gorun does not ask "+strings.Join(other, ", ")+", which may have an address of "+f.Host
		return nil
	}
	f.HostFrom, f.HostError, f.HostKnown = "", "no source of host names has an address of "+f.Host, true
	return nil
}

// resolveName asks the name server. An answer that there is no such name is no
// error.
func (o Options) resolveName(ctx context.Context, host string) ([]netip.Addr, error) {
	ctx, cancel := context.WithTimeout(ctx, o.NameServer)
	defer cancel()
	ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	var dns *net.DNSError
	if errors.As(err, &dns) && dns.IsNotFound {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("asking for %s for %s: %w", host, o.NameServer, err)
	}
	return ips, nil
}

// sources returns the sources in nsswitch.conf's line for hosts, without the
// text in brackets.
func (o Options) sources() []string {
	for line := range strings.Lines(o.file("/etc/nsswitch.conf")) {
		line, _, _ = strings.Cut(line, "#")
		rest, ok := strings.CutPrefix(strings.TrimSpace(line), "hosts:")
		if ok {
			return strings.Fields(actions().ReplaceAllString(rest, " "))
		}
	}
	return []string{"files", "dns"}
}

// actions matches the text in brackets between sources.
var actions = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\[[^\]]*\]?`) })

// file returns the start of a configuration file, "" if there is none.
func (o Options) file(path string) string {
	b, _, _ := smallfile.Read(o.Root+path, maxFile)
	return string(b)
}

// parseHosts returns the addresses of a name in the text of /etc/hosts.
func parseHosts(text, host string) []netip.Addr {
	var ips []netip.Addr
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "#")
		fields := strings.Fields(line)
		if len(fields) < 2 || !slices.ContainsFunc(fields[1:], func(s string) bool { return strings.EqualFold(s, host) }) {
			continue
		}
		if ip, err := netip.ParseAddr(fields[0]); err == nil && !slices.Contains(ips, ip) {
			if ips = append(ips, ip); len(ips) == maxHostIPs {
				break
			}
		}
	}
	return ips
}

// globalAddresses returns the node's addresses that others could reach.
func (f Facts) globalAddresses() []netip.Addr {
	var ips []netip.Addr
	for _, a := range f.Addresses {
		if ip, err := netip.ParseAddr(a.IP); err == nil && ip.IsGlobalUnicast() {
			if ips = append(ips, ip); len(ips) == maxHostIPs {
				break
			}
		}
	}
	return ips
}

// sortAddresses puts addresses in the order of getaddrinfo with its default
// table (RFC 3484 as in glibc). Addresses that cannot be reached come last,
// IPv6 before IPv4, near before far; otherwise the order stays.
func (f Facts) sortAddresses(ips []netip.Addr) []string {
	v6 := slices.ContainsFunc(f.globalAddresses(), func(ip netip.Addr) bool { return !ip.Is4() })
	rank := func(ip netip.Addr) int {
		r := 0
		if !ip.Is4() && !ip.IsLoopback() && !v6 {
			r += 4
		}
		if ip.Is4() {
			r += 2
		}
		if !ip.IsLoopback() && !ip.IsLinkLocalUnicast() {
			r++
		}
		return r
	}
	slices.SortStableFunc(ips, func(a, b netip.Addr) int { return rank(a) - rank(b) })
	var out []string
	for _, ip := range ips[:min(len(ips), maxHostIPs)] {
		out = append(out, ip.Unmap().String())
	}
	return out
}
