package rendezvous

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gorun/gorun/internal/term"
)

// Member is one node of a sealed world. Members stand in the order of their
// group ranks; a member's ranks are FirstRank .. FirstRank+Workers-1.
type Member struct {
	ID        NodeID `json:"id"`
	Host      string `json:"host"`
	Addr      string `json:"addr"`
	Control   string `json:"control"`
	Workers   int    `json:"workers"`
	Role      string `json:"role"`
	FirstRank int    `json:"first_rank"`
	RoleRank  int    `json:"role_rank"` // role rank of its first worker
	// Env is the hash of its workers' environment. A node that accepts the world
	// accepts that environment too. It is empty when nothing was decided.
	Env string `json:"env,omitempty"`
}

// Name returns how messages call the member.
func (m *Member) Name() string { return displayName(m.Host, m.Addr) }

// World is the sealed result of one round's rendezvous.
type World struct {
	RunID       string         `json:"run_id"`
	Term        int            `json:"term"`  // of the coordinator that proposed it
	Round       int            `json:"round"` // grows with every proposal, burnt ones included
	Restart     int            `json:"restart"`
	MaxRestarts int            `json:"max_restarts"`
	Coordinator NodeID         `json:"coordinator"`
	Job         string         `json:"job"`   // drawn for the first world, the same in all that follow
	Token       string         `json:"token"` // shared by the workers of this world only
	Store       string         `json:"store"` // host:port, served by group rank 0
	Size        int            `json:"size"`  // number of workers
	Roles       map[string]int `json:"roles"` // workers of each role
	Members     []Member       `json:"members"`
}

// Index returns the group rank of a node, -1 if the node is not in the world.
func (w *World) Index(id NodeID) int {
	return slices.IndexFunc(w.Members, func(m Member) bool { return m.ID == id })
}

// envHash returns the hash of a member's environment, "" without one.
func envHash(env []byte) string {
	if len(env) == 0 {
		return ""
	}
	sum := sha256.Sum256(env)
	return hex.EncodeToString(sum[:])
}

// Digest identifies the world's content. A member accepts exactly this content. The
// digest is a hash of all fields in their order, each with its length. JSON would
// take a world of thousands of nodes longer than reading it.
func (w *World) Digest() string {
	var b []byte
	num := func(n int) { b = binary.AppendVarint(b, int64(n)) }
	text := func(words ...string) {
		for _, s := range words {
			num(len(s))
			b = append(b, s...)
		}
	}
	text(w.RunID, string(w.Coordinator), w.Job, w.Token, w.Store)
	for _, n := range []int{w.Term, w.Round, w.Restart, w.MaxRestarts, w.Size, len(w.Roles)} {
		num(n)
	}
	for _, role := range slices.Sorted(maps.Keys(w.Roles)) {
		text(role)
		num(w.Roles[role])
	}
	for i := range w.Members {
		m := &w.Members[i]
		text(string(m.ID), m.Host, m.Addr, m.Control, m.Role, m.Env)
		num(m.Workers)
		num(m.FirstRank)
		num(m.RoleRank)
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:16])
}

// orderNodes puts nodes into the order of group ranks. Explicit node ranks come
// first; survivors of the last world keep their group rank when the size is the
// same and their order when it is not; the others fill the gaps in the order of
// host name and address.
func orderNodes(nodes []Node, last *World) []Node {
	n := len(nodes)
	slots := make([]*Node, n)
	rest := slices.Clone(nodes)
	slices.SortStableFunc(rest, func(a, b Node) int {
		return cmp.Or(cmp.Compare(oldRank(last, a.ID), oldRank(last, b.ID)), compareNatural(a.Host, b.Host),
			compareNatural(a.Addr, b.Addr), cmp.Compare(a.ID, b.ID))
	})
	place := func(want func(Node) int) {
		rest = slices.DeleteFunc(rest, func(nd Node) bool {
			i := want(nd)
			if i < 0 || i >= n || slots[i] != nil {
				return false
			}
			slots[i] = &nd
			return true
		})
	}
	explicit := slices.ContainsFunc(nodes, func(nd Node) bool { return nd.NodeRank >= n })
	if explicit { // an elastic job below its maximum: the given ranks only order
		slices.SortStableFunc(rest, func(a, b Node) int { return cmp.Compare(uint(a.NodeRank), uint(b.NodeRank)) })
	} else {
		place(func(nd Node) int { return nd.NodeRank })
		if last != nil && len(last.Members) == n {
			place(func(nd Node) int { return last.Index(nd.ID) })
		}
	}
	for i := range slots {
		if slots[i] == nil {
			slots[i], rest = &rest[0], rest[1:]
		}
	}
	out := make([]Node, n)
	for i, s := range slots {
		out[i] = *s
	}
	return out
}

// oldRank returns the node's group rank in the last world, the largest number without
// one.
func oldRank(last *World, id NodeID) int {
	if last != nil {
		if i := last.Index(id); i >= 0 {
			return i
		}
	}
	return int(^uint(0) >> 1)
}

// newWorld numbers the workers of nodes that stand in group order.
func newWorld(nodes []Node, w World) World {
	w.Roles = map[string]int{}
	w.Members = make([]Member, len(nodes))
	w.Size = 0
	for i, n := range nodes {
		w.Members[i] = Member{
			ID: n.ID, Host: n.Host, Addr: n.Addr, Control: n.Control,
			Workers: n.Workers, Role: n.Role, FirstRank: w.Size, RoleRank: w.Roles[n.Role],
		}
		w.Size += n.Workers
		w.Roles[n.Role] += n.Workers
	}
	w.RunID, w.Store = nodes[0].RunID, nodes[0].Store
	return w
}

// compareNatural orders node2 before node10 and 10.0.0.2 before 10.0.0.10.
func compareNatural(a, b string) int {
	for a != "" && b != "" {
		da, db := digits(a), digits(b)
		if da == 0 || db == 0 {
			if a[0] != b[0] {
				return cmp.Compare(a[0], b[0])
			}
			a, b = a[1:], b[1:]
			continue
		}
		na, nb := strings.TrimLeft(a[:da], "0"), strings.TrimLeft(b[:db], "0")
		if c := cmp.Or(cmp.Compare(len(na), len(nb)), cmp.Compare(na, nb)); c != 0 {
			return c
		}
		a, b = a[da:], b[db:]
	}
	return cmp.Compare(len(a), len(b))
}

// digits counts the digits at the beginning of a text.
func digits(s string) int {
	n := 0
	for n < len(s) && s[n] >= '0' && s[n] <= '9' {
		n++
	}
	return n
}

// Limits on what another agent may send. They are far above any job that exists, so
// that a wrong or hostile message costs no more than its own size.
const (
	MaxNodes    = 100_000
	MaxWorkers  = 4096 // of one node
	MaxNetworks = 256  // of one node
	maxName     = 1024 // bytes of a host name, an address, a role
	maxCount    = 1 << 30
	maxFailures = 1024 // of one round that are kept, the earliest ones
)

// validate returns why a world that came from the network is not valid. A valid world
// can be counted, indexed and numbered without another check.
func (w *World) validate() error {
	if n := len(w.Members); n == 0 || n > MaxNodes {
		return fmt.Errorf("it has %d nodes", n)
	}
	for _, n := range []int{w.Term, w.Round, w.Restart, w.MaxRestarts} {
		if n < 0 || n > maxCount {
			return fmt.Errorf("it counts to %d (term %d, round %d, restart %d of %d)", n, w.Term, w.Round, w.Restart, w.MaxRestarts)
		}
	}
	if err := checkNames(string(w.Coordinator), w.Job, w.Token, w.Store); err != nil {
		return err
	}
	seen, roles, size := make(map[NodeID]bool, len(w.Members)), map[string]int{}, 0
	for i := range w.Members {
		m := &w.Members[i]
		if err := checkNames(string(m.ID), m.Host, m.Addr, m.Control, m.Role, m.Env); err != nil {
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

// Validate returns why a node's description of itself is not valid.
func (n *Node) Validate() error {
	if n.ID == "" {
		return errors.New("it has no id")
	}
	if err := checkNames(string(n.ID), n.Version, n.Host, n.Addr, n.Control, n.Store, n.Role); err != nil {
		return err
	}
	if len(n.Networks) > MaxNetworks {
		return fmt.Errorf("it has %d addresses, at most %d are allowed", len(n.Networks), MaxNetworks)
	}
	if err := checkNames(n.Networks...); err != nil {
		return err
	}
	if n.Workers < 1 || n.Workers > MaxWorkers {
		return fmt.Errorf("it has %d workers; a node can have 1 to %d", n.Workers, MaxWorkers)
	}
	return nil
}

// checkNames checks names that are shown to people and put into environments.
func checkNames(ws ...string) error {
	for _, s := range ws {
		if len(s) > maxName {
			return fmt.Errorf("a name has %d bytes, at most %d are allowed", len(s), maxName)
		}
		if strings.ContainsFunc(s, term.Unfit) {
			return fmt.Errorf("a name has control characters: %q", s)
		}
	}
	return nil
}

// clip shortens a name that is only shown.
func clip(s string) string { return cut(s, maxName) }

// cut shortens a text to n bytes and says so.
func cut(s string, n int) string {
	if len(s) > n {
		return strings.ToValidUTF8(s[:n], "") + "..."
	}
	return s
}

// trim bounds the lists of a message. No node has more to report.
func (m *Message) trim() {
	m.Failures = m.Failures[:min(len(m.Failures), MaxWorkers)]
	m.Ends = m.Ends[:min(len(m.Ends), MaxWorkers)]
	if l := m.Last; l != nil {
		l.Failures = l.Failures[:min(len(l.Failures), MaxWorkers)]
		l.Ends = l.Ends[:min(len(l.Ends), MaxWorkers)]
	}
}
