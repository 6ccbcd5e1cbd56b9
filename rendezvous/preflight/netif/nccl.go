package netif

import (
	"fmt"
	"net/netip"
	"strings"
)

// maxInterfaces is how many interfaces NCCL keeps, and how many names it reads
// from a list (MAX_IFS).
const maxInterfaces = 16

// sinceRunning is the first version that leaves out interfaces that are not
// RUNNING and puts virbr behind lo.
const sinceRunning = 22803

// NCCL reproduces the addresses that NCCL uses for NET/Socket; NET/IB's own
// connections use the first of them. code is NCCL's version as ncclGetVersion
// returns it (0: unknown, treated as the newest). env is the workers'
// environment. Without NCCL_COMM_ID the bootstrap uses the first address, too:
// see Bootstrap.
//
// Source: src/misc/socket.cc (ncclFindInterfaces), src/os/linux.cc
// (ncclOsFindInterfaces) of 2.30; the same in src/misc/socket.cc before.
func NCCL(f Facts, env func(string) string, code int) Choice {
	s := newSearch(f, env, code)
	if len(f.Addresses) == 0 {
		return Choice{Unknown: true, Why: "the node's interfaces are not known"}
	}
	if v := env("NCCL_SOCKET_IFNAME"); len(v) > 1 {
		l := ParseList(v, maxInterfaces)
		return s.explain(s.find(l), "NCCL_SOCKET_IFNAME="+v+" "+l.String())
	}
	var down []string
	try := func(list string) Choice {
		c := s.find(ParseList(list, maxInterfaces))
		for _, name := range c.Down {
			down = addOnce(down, name)
		}
		return c
	}
	if c := try("ib"); len(c.Picked) > 0 {
		return s.explain(c, "NCCL_SOCKET_IFNAME is not set, and names that begin with ib come first")
	}
	hint := ""
	if v := env("NCCL_COMM_ID"); len(v) > 1 {
		c := s.subnet(v)
		if len(c.Picked) > 0 || c.fatal {
			return c.Choice
		}
		hint = "; " + c.Why
	}
	steps := []struct{ list, why string }{
		{"^docker,lo,virbr", "every name but docker*, lo* and virbr*"},
		{"docker", "docker*, because there is nothing else"},
		{"lo", "lo*, because there is nothing else"},
		{"virbr", "virbr*, because there is nothing else"},
	}
	if !s.running {
		steps[0].list, steps[0].why = "^docker,lo", "every name but docker* and lo*"
		steps = steps[:3]
	}
	for _, step := range steps {
		if c := try(step.list); len(c.Picked) > 0 {
			c.Down = down
			return s.explain(c, "NCCL_SOCKET_IFNAME is not set: NCCL takes "+step.why+hint)
		}
	}
	return s.explain(Choice{Down: down}, "NCCL_SOCKET_IFNAME is not set"+hint)
}

// Bootstrap reproduces the one address that NCCL's bootstrap listens on. It is
// the first address of NCCL's choice. With NCCL_COMM_ID it is the address in
// the subnet of NCCL_COMM_ID, whatever NCCL_SOCKET_IFNAME says.
//
// Source: src/bootstrap.cc, bootstrapNetInit.
func Bootstrap(f Facts, env func(string) string, code int) Choice {
	if v := env("NCCL_COMM_ID"); v != "" && len(f.Addresses) > 0 {
		c := newSearch(f, env, code).subnet(v)
		return c.Choice
	}
	c := NCCL(f, env, code)
	if len(c.Picked) > 1 {
		c.Picked = c.Picked[:1]
	}
	return c
}

// search is what NCCL reads from getifaddrs and the environment.
type search struct {
	facts   Facts
	links   map[int]Interface
	family  string // NCCL_SOCKET_FAMILY if it decides
	running bool   // leave out interfaces that are not RUNNING
}

func newSearch(f Facts, env func(string) string, code int) search {
	s := search{facts: f, links: byIndex(f), running: code == 0 || code >= sinceRunning}
	if v := env("NCCL_SOCKET_FAMILY"); v == "AF_INET" || v == "AF_INET6" {
		s.family = v
	}
	return s
}

func byIndex(f Facts) map[int]Interface {
	m := make(map[int]Interface, len(f.Interfaces))
	for _, i := range f.Interfaces {
		m[i.Index] = i
	}
	return m
}

// find returns the first address of each name that the list selects.
func (s search) find(l List) Choice {
	var c Choice
	for _, a := range s.facts.Addresses {
		if len(c.Picked) == maxInterfaces {
			break
		}
		ip, err := netip.ParseAddr(a.IP)
		if err != nil || s.family == "AF_INET" && !ip.Is4() || s.family == "AF_INET6" && ip.Is4() {
			continue
		}
		if !ip.Is4() && ip.IsLoopback() || !l.Selects(a.Label, -1) {
			continue
		}
		if !s.links[a.Index].Running {
			c.Down = addOnce(c.Down, a.Label)
			if s.running {
				continue
			}
		}
		if !c.has(a.Label) {
			c.Picked = append(c.Picked, a.pick())
		}
	}
	return c
}

func (c Choice) has(label string) bool {
	for _, p := range c.Picked {
		if p.Iface == label {
			return true
		}
	}
	return false
}

func (a Address) pick() Pick { return Pick{Iface: a.Label, Index: a.Index, IP: a.IP, Bits: a.Bits} }

// explain adds to why what a person needs to understand an unusual choice.
func (s search) explain(c Choice, why string) Choice {
	if s.family != "" {
		why += "; NCCL_SOCKET_FAMILY=" + s.family + " leaves only " + map[string]string{"AF_INET": "IPv4", "AF_INET6": "IPv6"}[s.family]
	}
	if s.running && len(c.Down) > 0 {
		why += fmt.Sprintf("; %s left out: no carrier", strings.Join(c.Down, ", "))
	}
	switch {
	case len(c.Picked) == 0:
		why += "; nothing is left of " + s.facts.ListLabels()
	case s.links[c.Picked[0].Index].Loopback:
		why += "; " + c.Picked[0].Iface + " comes first, which no other node can reach"
	}
	c.Why = why
	return c
}

// ListLabels lists the names that have addresses, for messages.
func (f Facts) ListLabels() string {
	var names []string
	for _, a := range f.Addresses {
		if names = addOnce(names, a.Label); len(names) > 8 {
			names[8] = "..."
			break
		}
	}
	return strings.Join(names, ", ")
}

func addOnce(list []string, s string) []string {
	for _, have := range list {
		if have == s {
			return list
		}
	}
	return append(list, s)
}
