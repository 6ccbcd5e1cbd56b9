package envprop

import (
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
)

// Target says on which nodes a value is wanted. The zero value is all of them.
type Target struct {
	By   By
	Name string // host name or address in lower case, group rank, or role
}

// By is how a target names its nodes.
type By string

const (
	ByHost By = "host" // its host name, in full or up to the first dot, or its address
	ByNode By = "node" // its group rank
	ByRole By = "role"
)

// cutTarget splits what stands before the name in "node1:NAME=value",
// "10.0.0.1:NAME", "[fd00::1]:NAME", "node=0:NAME" or "role=ps:NAME". A value may
// hold any colon. Where node= or role= begin the argument they are always a target.
func cutTarget(arg string) (t Target, rest string, err error) {
	for _, by := range []By{ByNode, ByRole} {
		after, ok := strings.CutPrefix(arg, string(by)+"=")
		if !ok {
			continue
		}
		name, rest, ok := strings.Cut(after, ":")
		if !ok {
			return t, arg, fmt.Errorf("%s= is followed by which one, a colon and a variable: %s=0:NAME=value", by, by)
		}
		t = Target{by, name}
		return t, rest, t.check()
	}
	head, _, _ := strings.Cut(arg, "=")
	i := strings.LastIndexByte(head, ':')
	if i < 0 {
		return t, arg, nil
	}
	host := head[:i]
	if inner, ok := strings.CutPrefix(host, "["); ok {
		host = strings.TrimSuffix(inner, "]")
	}
	t = Target{ByHost, canonical(host)}
	return t, arg[i+1:], t.check()
}

// check is the error of a target that no node could have.
func (t Target) check() error {
	switch t.By {
	case "":
		if t.Name != "" {
			return fmt.Errorf("a target for all nodes has no name")
		}
		return nil
	case ByNode:
		if n, err := strconv.Atoi(t.Name); err != nil || n < 0 || strconv.Itoa(n) != t.Name {
			return fmt.Errorf("node=%s: a node's group rank is expected, 0 for the first", line(t.Name))
		}
		return nil
	case ByHost, ByRole:
		if t.Name == "" || len(t.Name) > maxName || line(t.Name) != t.Name || strings.ContainsAny(t.Name, " \t") {
			return fmt.Errorf("%s names no node", t)
		}
		if t.By == ByHost && canonical(t.Name) != t.Name {
			return fmt.Errorf("%s is not how a host is written here", t)
		}
		return nil
	default:
		return fmt.Errorf("%q is no way to name a node", string(t.By))
	}
}

// String is the target as the user writes it, with its colon.
func (t Target) String() string {
	switch t.By {
	case "":
		return ""
	case ByHost:
		if strings.Contains(t.Name, ":") {
			return "[" + line(t.Name) + "]:"
		}
		return line(t.Name) + ":"
	default:
		return string(t.By) + "=" + line(t.Name) + ":"
	}
}

// weight is how closely a target looks: a node counts over a role, and a role
// over all.
func (t Target) weight() int {
	switch t.By {
	case "":
		return 0
	case ByRole:
		return 1
	default:
		return 2
	}
}

// targets are the ways to mean the node of a group rank.
func (n Node) targets(rank int) []Target {
	list := []Target{{}, {ByRole, n.Role}, {ByNode, strconv.Itoa(rank)}}
	addr := n.Addr
	if host, _, err := net.SplitHostPort(addr); err == nil {
		addr = host
	}
	host := canonical(n.Host)
	short, _, _ := strings.Cut(host, ".")
	for _, name := range []string{canonical(addr), host, short} {
		if name != "" {
			list = append(list, Target{ByHost, name})
		}
	}
	return list
}

// canonical is a host name or address as it is compared.
func canonical(host string) string {
	if addr, err := netip.ParseAddr(host); err == nil {
		return addr.Unmap().String()
	}
	return strings.ToLower(strings.TrimSuffix(host, "."))
}

// called is the name of a node for people.
func (n Node) called(rank int) string {
	switch {
	case n.Host != "":
		return line(n.Host)
	case n.Addr != "":
		return line(n.Addr)
	default:
		return fmt.Sprintf("node %d", rank)
	}
}
