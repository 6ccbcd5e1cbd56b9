package probe

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/gorun/gorun/rendezvous/preflight"
)

// These are the bounds of a plan, which comes from the coordinator. At most a
// plan makes a node connect once to each of MaxTargets ports, each at an
// address of one host, on MaxPeers nodes.
const (
	MaxPeers   = 128
	MaxTargets = allPairs * perNode
	// MaxBytes bounds a plan and a report as JSON.
	MaxBytes = 2 << 20

	maxData = 16 // the most interfaces that NCCL uses (MAX_IFS)
	maxGloo = 4
	maxMore = 32 // further ports
	perNode = 1 + maxData + maxGloo + maxMore
	maxRank = 100_000
	maxName = 64 // of an interface's name, in bytes
)

// Plan lists the targets that one node connects to, in this order.
type Plan struct {
	Node    int      `json:"node"` // its group rank
	Targets []Target `json:"targets"`
}

// Target is one address to connect to.
type Target struct {
	To     int           `json:"to"` // group rank
	ID     string        `json:"id"` // of the node that must answer
	Use    preflight.Use `json:"use"`
	Iface  string        `json:"iface"`           // of this side
	Source string        `json:"source"`          // IP address to connect from
	Target string        `json:"target"`          // IP address and port
	Large  bool          `json:"large,omitempty"` // 64 KiB each way, too
}

// Decode reads a plan that came from the network.
func Decode(data []byte) (Plan, error) {
	var raw struct {
		Node    int             `json:"node"`
		Targets json.RawMessage `json:"targets"`
	}
	if len(data) > MaxBytes {
		return Plan{}, fmt.Errorf("a plan of probes of %d bytes; at most %d are allowed", len(data), MaxBytes)
	}
	if err := json.Unmarshal(data, &raw); err != nil {
		return Plan{}, fmt.Errorf("not a plan of probes: %w", err)
	}
	targets, err := decodeList[Target](raw.Targets, MaxTargets)
	if err != nil {
		return Plan{}, fmt.Errorf("not a plan of probes: %w", err)
	}
	p := Plan{Node: raw.Node, Targets: targets}
	if err := p.validate(); err != nil {
		return Plan{}, fmt.Errorf("an invalid plan of probes: %w", err)
	}
	return p, nil
}

func (p Plan) validate() error {
	if p.Node < 0 || p.Node > maxRank {
		return fmt.Errorf("it is for node %d", p.Node)
	}
	peers, seen := map[int]int{}, map[Target]bool{}
	for i, t := range p.Targets {
		if err := t.validate(p.Node); err != nil {
			return fmt.Errorf("target %d: %w", i, err)
		}
		peers[t.To]++
		switch {
		case seen[t]:
			return fmt.Errorf("target %d: it is twice in the plan", i)
		case len(peers) > MaxPeers:
			return fmt.Errorf("more than %d nodes", MaxPeers)
		case peers[t.To] > perNode:
			return fmt.Errorf("more than %d addresses of node %d", perNode, t.To)
		}
		seen[t] = true
	}
	return nil
}

func (t Target) validate(self int) error {
	source, err := netip.ParseAddr(t.Source)
	if err != nil {
		return err
	}
	target, err := netip.ParseAddrPort(t.Target)
	switch {
	case err != nil:
		return err
	case !isOneHost(source) || !isOneHost(target.Addr()) || target.Port() == 0:
		return fmt.Errorf("from %s to %s: not an address of one host", t.Source, t.Target)
	case source.Is4() != target.Addr().Is4():
		return fmt.Errorf("from %s to %s: two families", t.Source, t.Target)
	case t.To < 0 || t.To > maxRank || t.To == self:
		return fmt.Errorf("it is node %d's", t.To)
	case len(t.ID) > maxID || len(t.Iface) > maxName:
		return errors.New("a name is too long")
	case !slices.Contains([]preflight.Use{preflight.UseBootstrap, preflight.UseData, preflight.UseGloo, preflight.UsePorts}, t.Use):
		return fmt.Errorf("for %q", t.Use)
	}
	return nil
}

// isOneHost reports whether a connection to the address leads to one other
// host.
func isOneHost(a netip.Addr) bool {
	return a.IsValid() && !a.Is4In6() && !a.IsUnspecified() && !a.IsMulticast() && !a.IsLoopback() &&
		a != netip.AddrFrom4([4]byte{255, 255, 255, 255}) && len(a.Zone()) <= maxName
}
