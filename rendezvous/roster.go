package rendezvous

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

const rosterFields = 9

// Roster writes the members of a world as text: a line each, fields between
// tabs. Every node reads the whole world of every round, and as JSON that is
// most of the work of a round of thousands. It is not ok if a name has a tab or
// an end of line in it: no world that a node accepts has.
func Roster(members []Member) (text string, ok bool) {
	var b strings.Builder
	for i := range members {
		m := &members[i]
		fields := [rosterFields]string{
			string(m.ID), m.Host, m.Addr, m.Control, m.Role, m.Env,
			strconv.Itoa(m.Workers), strconv.Itoa(m.FirstRank), strconv.Itoa(m.RoleRank),
		}
		for j, f := range fields {
			if strings.ContainsAny(f, "\t\n") {
				return "", false
			}
			if j > 0 {
				b.WriteByte('\t')
			}
			b.WriteString(f)
		}
		b.WriteByte('\n')
	}
	return b.String(), true
}

// ParseRoster reads what Roster has written. What the members say is not judged.
func ParseRoster(text string) ([]Member, error) {
	n := strings.Count(text, "\n")
	if n > MaxNodes {
		return nil, fmt.Errorf("a world of %d nodes", n)
	}
	members := make([]Member, 0, n)
	for text != "" {
		line, rest, ok := strings.Cut(text, "\n")
		if !ok {
			return nil, errors.New("a world's last line has no end")
		}
		text = rest
		var fields [rosterFields]string
		for j := range fields {
			fields[j], line, ok = strings.Cut(line, "\t")
			if ok != (j < rosterFields-1) {
				return nil, fmt.Errorf("node %d of a world has not %d fields", len(members), rosterFields)
			}
		}
		m := Member{ID: NodeID(fields[0]), Host: fields[1], Addr: fields[2], Control: fields[3], Role: fields[4], Env: fields[5]}
		for j, to := range []*int{&m.Workers, &m.FirstRank, &m.RoleRank} {
			var err error
			if *to, err = strconv.Atoi(fields[6+j]); err != nil {
				return nil, fmt.Errorf("node %d of a world: %w", len(members), err)
			}
		}
		members = append(members, m)
	}
	return members, nil
}
