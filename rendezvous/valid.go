package rendezvous

import (
	"errors"
	"fmt"
	"maps"
	"strings"

	"github.com/gorun/gorun/internal/term"
)

// Limits of what is believed of another agent: far above any job that exists,
// so that a wrong or hostile message costs no more than its own size.
const (
	MaxNodes    = 100_000
	MaxWorkers  = 4096 // of one node
	MaxNetworks = 256  // of one node
	maxWord     = 1024 // bytes of a host name, an address, a role
	maxCount    = 1 << 30
	maxFailures = 1024 // of one round that are kept, the earliest ones
)

// validate says why a world that came from the network makes no sense. What
// passes can be counted, indexed and numbered without a further look.
func (w *World) validate() error {
	if n := len(w.Members); n == 0 || n > MaxNodes {
		return fmt.Errorf("it has %d nodes", n)
	}
	for _, n := range []int{w.Term, w.Round, w.Restart, w.MaxRestarts} {
		if n < 0 || n > maxCount {
			return fmt.Errorf("it counts to %d (term %d, round %d, restart %d of %d)", n, w.Term, w.Round, w.Restart, w.MaxRestarts)
		}
	}
	if err := words(string(w.Coordinator), w.Job, w.Token, w.Store); err != nil {
		return err
	}
	seen, roles, size := make(map[NodeID]bool, len(w.Members)), map[string]int{}, 0
	for i := range w.Members {
		m := &w.Members[i]
		if err := words(string(m.ID), m.Host, m.Addr, m.Control, m.Role, m.Env); err != nil {
			return fmt.Errorf("node %d: %w", i, err)
		}
		switch {
		case m.ID == "" || seen[m.ID]:
			return fmt.Errorf("node %d has no id of its own (%q)", i, m.ID)
		case m.Workers < 1 || m.Workers > MaxWorkers:
			return fmt.Errorf("node %d has %d workers", i, m.Workers)
		case m.FirstRank != size || m.RoleRank != roles[m.Role]:
			return fmt.Errorf("node %d begins with rank %d (%d of its role), not %d (%d)", i, m.FirstRank, m.RoleRank, size, roles[m.Role])
		}
		seen[m.ID] = true
		size += m.Workers
		roles[m.Role] += m.Workers
	}
	if w.Size != size || !maps.Equal(w.Roles, roles) {
		return fmt.Errorf("it counts %d workers, its nodes have %d", w.Size, size)
	}
	return nil
}

// Validate says why what a node says of itself makes no sense.
func (n *Node) Validate() error {
	if n.ID == "" {
		return errors.New("it has no id")
	}
	if err := words(string(n.ID), n.Version, n.Host, n.Addr, n.Control, n.Store, n.Role); err != nil {
		return err
	}
	if len(n.Networks) > MaxNetworks {
		return fmt.Errorf("it has %d addresses, at most %d are allowed", len(n.Networks), MaxNetworks)
	}
	if err := words(n.Networks...); err != nil {
		return err
	}
	if n.Workers < 1 || n.Workers > MaxWorkers {
		return fmt.Errorf("it has %d workers; a node can have 1 to %d", n.Workers, MaxWorkers)
	}
	return nil
}

// words checks names that are shown to people and put into environments.
func words(ws ...string) error {
	for _, s := range ws {
		if len(s) > maxWord {
			return fmt.Errorf("a name has %d bytes, at most %d are allowed", len(s), maxWord)
		}
		if strings.ContainsFunc(s, term.Unfit) {
			return fmt.Errorf("a name has control characters: %q", s)
		}
	}
	return nil
}

// clip shortens a name that is only shown.
func clip(s string) string { return cut(s, maxWord) }

// cut shortens a text to n bytes and says so.
func cut(s string, n int) string {
	if len(s) > n {
		return strings.ToValidUTF8(s[:n], "") + "..."
	}
	return s
}

// trim bounds the lists of a message: no node has more to tell.
func (m *Message) trim() {
	m.Failures = m.Failures[:min(len(m.Failures), MaxWorkers)]
	m.Ends = m.Ends[:min(len(m.Ends), MaxWorkers)]
	if l := m.Last; l != nil {
		l.Failures = l.Failures[:min(len(l.Failures), MaxWorkers)]
		l.Ends = l.Ends[:min(len(l.Ends), MaxWorkers)]
	}
}
