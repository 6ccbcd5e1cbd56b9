package netif

import "strings"

// List is a list of names as NCCL reads it from NCCL_SOCKET_IFNAME (interfaces)
// and NCCL_IB_HCA (adapters). "^" excludes names, and "=" compares whole names
// instead of prefixes. Both stand once in front and apply to the whole list.
//
// Source: NCCL's src/misc/utils.cc, parseStringList and matchIfList.
type List struct {
	Not     bool
	Exact   bool
	Entries []Entry
}

// Entry is one name of a List.
type Entry struct {
	Name string
	Port int // -1: any. Text after a second colon (rail, plane) is left out
}

// ParseList reads at most most names. NCCL ignores the names after them.
func ParseList(s string, most int) List {
	var l List
	s, l.Not = strings.CutPrefix(s, "^")
	s, l.Exact = strings.CutPrefix(s, "=")
	// NCCL's reader removes one more of either sign, so "==eth0" is "=eth0".
	if s != "" && (s[0] == '^' || s[0] == '=') {
		s = s[1:]
	}
	for item := range strings.SplitSeq(s, ",") {
		if len(l.Entries) == most {
			break
		}
		name, port, found := strings.Cut(item, ":")
		if name == "" {
			continue
		}
		e := Entry{Name: name, Port: -1}
		if found {
			e.Port = atoi(port)
		}
		l.Entries = append(l.Entries, e)
	}
	return l
}

// Selects reports whether the list selects a name; port is -1 for an interface.
// An empty list selects every name, and an empty exclusion none.
func (l List) Selects(name string, port int) bool {
	return l.matches(name, port) != l.Not
}

func (l List) matches(name string, port int) bool {
	for _, e := range l.Entries {
		if l.Exact && name != e.Name || !strings.HasPrefix(name, e.Name) {
			continue
		}
		if port == -1 || e.Port == -1 || port == e.Port {
			return true
		}
	}
	return len(l.Entries) == 0
}

// String says in words which names the list selects.
func (l List) String() string {
	if len(l.Entries) == 0 {
		if l.Not {
			return "excludes every name"
		}
		return "takes every name"
	}
	names := make([]string, len(l.Entries))
	for i, e := range l.Entries {
		names[i] = e.Name
	}
	list := strings.Join(names, " or ")
	switch {
	case l.Not && l.Exact:
		return "excludes only " + list
	case l.Not:
		return "excludes only names that begin with " + list
	case l.Exact:
		return "takes only " + list
	default:
		return "takes names that begin with " + list
	}
}

// atoi reads a number as C does: blanks, a sign, digits, and it ignores the
// rest. A number too large for a port becomes a number that no port has.
func atoi(s string) int {
	s = strings.TrimLeft(s, " \t\n\v\f\r")
	sign := 1
	if s != "" && (s[0] == '-' || s[0] == '+') {
		if s[0] == '-' {
			sign = -1
		}
		s = s[1:]
	}
	n := 0
	for i := 0; i < len(s) && s[i] >= '0' && s[i] <= '9' && n < 1<<24; i++ {
		n = n*10 + int(s[i]-'0')
	}
	return sign * n
}
