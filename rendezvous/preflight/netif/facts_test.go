package netif

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// node makes facts of lines such as "eth0:1 10.0.0.2/24 kind=veth down": a
// label, whose part before the colon is the interface, and an address or "-".
// Flags: down (no carrier), hw, speed=N, kind=K, in=BRIDGE, mac=M.
func node(t testing.TB, lines ...string) Facts {
	t.Helper()
	var f Facts
	for _, line := range lines {
		words := strings.Fields(line)
		name, _, _ := strings.Cut(words[0], ":")
		n := slices.IndexFunc(f.Interfaces, func(i Interface) bool { return i.Name == name })
		if n < 0 {
			n = len(f.Interfaces)
			f.Interfaces = append(f.Interfaces, Interface{Index: n + 1, Name: name, MTU: 1500, Up: true, Running: true, Loopback: name == "lo"})
		}
		i := &f.Interfaces[n]
		for _, w := range words[2:] {
			key, value, _ := strings.Cut(w, "=")
			switch key {
			case "down":
				i.Running = false
			case "hw":
				i.Device = true
			case "kind":
				i.Kind = value
			case "mac":
				i.MAC = value
			case "speed":
				i.Speed, _ = strconv.Atoi(value)
			case "in":
				m := slices.IndexFunc(f.Interfaces, func(i Interface) bool { return i.Name == value })
				f.Interfaces[m].Slaves = append(f.Interfaces[m].Slaves, name)
			default:
				t.Fatalf("unknown flag %q", w)
			}
		}
		if words[1] == "-" {
			continue
		}
		p := netip.MustParsePrefix(words[1])
		label := words[0]
		if !p.Addr().Is4() {
			label = name
		}
		f.Addresses = append(f.Addresses, Address{Index: i.Index, Label: label, IP: p.Addr().String(), Bits: p.Bits(), Scope: "global"})
	}
	slices.SortStableFunc(f.Addresses, func(a, b Address) int {
		a6, b6 := strings.Contains(a.IP, ":"), strings.Contains(b.IP, ":")
		switch {
		case a6 == b6:
			return a.Index - b.Index
		case a6:
			return 1
		default:
			return -1
		}
	})
	return f
}

// vars returns an environment of "NAME=value" words.
func vars(words ...string) func(string) string {
	return func(name string) string {
		for _, w := range words {
			if v, ok := strings.CutPrefix(w, name+"="); ok {
				return v
			}
		}
		return ""
	}
}

// picks returns what was picked, as "eth0 10.0.0.1".
func picks(c Choice) string {
	var out []string
	for _, p := range c.Picked {
		out = append(out, p.Iface+" "+p.IP)
	}
	return strings.Join(out, ", ")
}
