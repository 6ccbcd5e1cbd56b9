package envprop

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Target says on which nodes a value is wanted. The zero value is all of them.
type Target struct {
	By   By
	Name string // group rank or role
}

// By is how a target names its nodes.
type By string

const (
	ByNode By = "node" // by its group rank
	ByRole By = "role"
)

// cutTarget splits the target from the name in "node=0:NAME=value" or
// "role=ps:NAME". A value may contain colons. An argument that begins with node= or
// role= always has a target.
func cutTarget(arg string) (t Target, rest string, err error) {
	if t, rest, err = cutOne(arg); err != nil || t == (Target{}) {
		return t, rest, err
	}
	if second, _, err := cutOne(rest); err != nil || second != (Target{}) {
		return t, rest, errors.New("only one target, node=I: or role=R:, is allowed before the name")
	}
	return t, rest, nil
}

// cutOne cuts one target off.
func cutOne(arg string) (t Target, rest string, err error) {
	for _, by := range []By{ByNode, ByRole} {
		after, ok := strings.CutPrefix(arg, string(by)+"=")
		if !ok {
			continue
		}
		name, rest, ok := strings.Cut(after, ":")
		if !ok {
			return t, arg, fmt.Errorf("%s= needs a value, a colon and a variable: %s=0:NAME=value", by, by)
		}
		t = Target{by, name}
		return t, rest, t.check()
	}
	if head, _, _ := strings.Cut(arg, "="); strings.Contains(head, ":") {
		return t, arg, errors.New("a target is node=I: or role=R:, not a host or an address; node=0: is the first node")
	}
	return t, arg, nil
}

// check returns an error for a target that cannot match a node.
func (t Target) check() error {
	switch t.By {
	case "":
		if t.Name != "" {
			return errors.New("a target for all nodes has no name")
		}
	case ByNode:
		if n, err := strconv.Atoi(t.Name); err != nil || n < 0 || strconv.Itoa(n) != t.Name {
			return fmt.Errorf("node=%s: a node's group rank is expected, 0 for the first", line(t.Name))
		}
	case ByRole:
		if t.Name == "" || len(t.Name) > maxName || line(t.Name) != t.Name || strings.ContainsAny(t.Name, " \t") {
			return fmt.Errorf("%s is not a target", t)
		}
	default:
		return fmt.Errorf("%q is not a kind of target", string(t.By))
	}
	return nil
}

// String returns the target as the user writes it, with its colon.
func (t Target) String() string {
	if t == (Target{}) {
		return ""
	}
	return string(t.By) + "=" + line(t.Name) + ":"
}

// weight orders targets. A target with fewer nodes has more weight. A node wins over a
// role, and a role over all nodes.
func (t Target) weight() int {
	switch t.By {
	case ByNode:
		return 2
	case ByRole:
		return 1
	default:
		return 0
	}
}

// targets returns the targets that name the node of a group rank.
func (n Node) targets(rank int) []Target {
	return []Target{{}, {ByRole, n.Role}, {ByNode, strconv.Itoa(rank)}}
}

// displayName returns the name of a node for people.
func (n Node) displayName(rank int) string {
	switch {
	case n.Host != "":
		return line(n.Host)
	case n.Addr != "":
		return line(n.Addr)
	default:
		return fmt.Sprintf("node %d", rank)
	}
}
