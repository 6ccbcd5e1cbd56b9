package check

import (
	"net/netip"
	"slices"

	"github.com/gorun/gorun/envprop"
	"github.com/gorun/gorun/envprop/ncclenv"
	"github.com/gorun/gorun/rendezvous/preflight"
	"github.com/gorun/gorun/rendezvous/preflight/netif"
	"github.com/gorun/gorun/rendezvous/preflight/probe"
)

// ifaceSource is the source of a variable that --iface set.
const ifaceSource = preflight.IfaceSource

// useCandidate is the use of a listener that only --iface auto may choose.
const useCandidate preflight.Use = "candidate"

// interfaceVariables lists the variables that bind a worker's libraries to one interface.
// NCCL takes a name as a prefix unless it begins with "="; the other libraries take
// exact names only.
func interfaceVariables(iface string) [][2]string {
	return [][2]string{
		{"NCCL_SOCKET_IFNAME", "=" + iface},
		{"GLOO_SOCKET_IFNAME", iface},
		{"TP_SOCKET_IFNAME", iface},
		{"UCX_NET_DEVICES", iface},
	}
}

// IfaceNames lists the variables that --iface sets.
func IfaceNames() (names []string) {
	for _, kv := range interfaceVariables("") {
		names = append(names, kv[0])
	}
	return names
}

// useInterface changes the facts to those of a node whose workers use one
// interface.
func useInterface(f *preflight.Facts, iface string) {
	for _, kv := range interfaceVariables(iface) {
		f.Settings = slices.DeleteFunc(slices.Clone(f.Settings), func(v ncclenv.Value) bool { return v.Name == kv[0] })
		f.Settings = append(f.Settings, ncclenv.Value{Name: kv[0], Value: kv[1], Source: ifaceSource})
	}
}

// requestInterface applies --iface NAME or CIDR.
func requestInterface(f *preflight.Facts, want string) error {
	iface, err := netif.ByRequest(f.Network, want)
	if err == nil {
		useInterface(f, iface)
	}
	return err
}

// chosenVariables lists, for each node, the variables that --iface gives to its
// workers.
func chosenVariables(nodes []preflight.Facts) [][]envprop.Chosen {
	out := make([][]envprop.Chosen, len(nodes))
	for i := range nodes {
		for _, v := range nodes[i].Settings {
			isInterface := slices.ContainsFunc(interfaceVariables(""), func(kv [2]string) bool { return kv[0] == v.Name })
			if isInterface && v.Source == ifaceSource { // a node may send any source
				out[i] = append(out[i], envprop.Chosen{Name: v.Name, Value: v.Value, Rule: "the interface that --iface means on this node", Requested: true})
			}
		}
	}
	return out
}

// chooseInterfaces applies --iface auto. Every node uses its part of the common
// choice, and the other nodes probe it there. If there is no such choice,
// chooseInterfaces returns the reason.
func chooseInterfaces(nodes []preflight.Facts) (why string) {
	p := suggestion(nodes)
	if !p.Works() {
		return p.Why
	}
	for i := range nodes {
		f := &nodes[i]
		pick := p.Nodes[i]
		useInterface(f, pick.Iface)
		f.Listeners = slices.Clone(f.Listeners)
		var chosen []preflight.Listener
		for _, l := range f.Listeners {
			if l.Use == useCandidate && l.Addr == pick.IP {
				l.Use = mainUse(f)
				chosen = append(chosen, l)
			}
		}
		f.Listeners = chosen
	}
	return ""
}

func suggestion(nodes []preflight.Facts) netif.Proposal {
	facts, reached := make([]netif.Facts, len(nodes)), make([]string, len(nodes))
	for i := range nodes {
		facts[i], reached[i] = nodes[i].Network, nodes[i].Node.Addr
	}
	return netif.Suggest(facts, reached)
}

// mainUse returns the first use for which a node's workers need an address.
func mainUse(f *preflight.Facts) preflight.Use {
	if f.GPU.Driver {
		return preflight.UseBootstrap
	}
	return preflight.UseGloo
}

// probeAddresses returns the addresses at which other nodes probe a node: the
// addresses that NCCL would choose or, for torch without a GPU, Gloo. With all it
// adds every address that the user could make the libraries use.
func probeAddresses(f *preflight.Facts, all bool) []probe.Address {
	env := lookup(f.Settings)
	var out []probe.Address
	add := func(iface, ip string, use preflight.Use) {
		if a, err := netip.ParseAddr(ip); err == nil && !a.IsLoopback() {
			out = append(out, probe.Address{Iface: iface, IP: ip, Use: use})
		}
	}
	switch {
	case f.GPU.Driver:
		code := 0
		if n := f.Libraries.NCCL; n != nil {
			code = n.Code
		}
		if first := netif.Bootstrap(f.Network, env, code).Picked; len(first) > 0 {
			add(first[0].Iface, first[0].IP, preflight.UseBootstrap)
		}
		if kind, _, _ := transport(f); kind == "Socket" {
			for _, p := range netif.NCCL(f.Network, env, code).Picked {
				add(p.Iface, p.IP, preflight.UseData)
			}
		}
	case f.Libraries.Torch != "":
		for _, p := range netif.Gloo(f.Network, env).Picked {
			add(p.Iface, p.IP, preflight.UseGloo)
		}
	default:
		return nil
	}
	if all {
		for _, a := range f.Network.Addresses {
			add(a.Label, a.IP, useCandidate)
		}
	}
	return out
}

// lookup returns a function that reads effective variables.
func lookup(values []ncclenv.Value) func(string) string {
	return func(name string) string {
		for _, v := range values {
			if v.Name == name {
				return v.Value
			}
		}
		return ""
	}
}
