package gossip

import (
	"fmt"
	"maps"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/gorun/gorun/internal/term"
	"github.com/gorun/gorun/rendezvous"
	"github.com/hashicorp/memberlist"
)

// acquaintances is how many agents an agent that serves no endpoint knows at least,
// beside those that serve one.
const acquaintances = 16

// NotifyAlive refuses agents of other runs and protocols, and agents that this one
// need not know. An agent that does not serve its endpoint and finds a stranger there
// has no other agent to join.
func (g *Gossip) NotifyAlive(n *memberlist.Node) error {
	if !plausible(n) {
		return errForeign
	}
	m, err := g.decode(n.Meta)
	if n.Name == string(g.cfg.ID) {
		return nil
	}
	g.mu.Lock()
	if err == nil && m.Run == g.cfg.RunID && m.Protocol == g.protocol {
		defer g.mu.Unlock()
		_, known := g.seen.peers[rendezvous.NodeID(n.Name)]
		if (known || m.Endpoint >= 0 || g.cfg.Serves >= 0 || len(g.seen.peers) <= acquaintances) && g.remember(rendezvous.NodeID(n.Name)) {
			return nil
		}
		return errEnough
	}
	if !g.seen.met && g.cfg.Serves < 0 && m.Endpoint >= 0 && g.endpoint.foreign == "" {
		g.endpoint.other = err != nil || m.Run != g.cfg.RunID
		at := net.JoinHostPort(n.Addr.String(), strconv.Itoa(int(n.Port)))
		switch {
		case err != nil:
			g.endpoint.foreign = otherProgram(at, err)
		case m.Protocol != g.protocol:
			g.endpoint.foreign = fmt.Sprintf("%s is served by %s with protocol %d, this gorun speaks %d; start the same gorun on every node", at, m.Name, m.Protocol, g.protocol)
		default:
			g.endpoint.foreign = fmt.Sprintf("%s is served by %s for run %q, not %q; give both the same --rdzv-id, or this job another port in --rdzv-endpoint", at, m.Name, m.Run, g.cfg.RunID)
		}
		g.wake()
	}
	tell := err == nil && g.cfg.Serves >= 0 && g.cfg.Turned != nil && !g.seen.turned[n.Name] && len(g.seen.turned) < maxTurned
	if tell {
		g.seen.turned[n.Name] = true
	}
	g.mu.Unlock()
	if tell {
		g.cfg.Turned(g.mismatch(m))
	}
	return errForeign
}

// otherProgram says that an endpoint is not gorun's, and why.
func otherProgram(at string, why error) string {
	return fmt.Sprintf("%s is used by a program that is not gorun (%v); choose another port for --rdzv-endpoint", at, why)
}

// maxTurned bounds the agents that Turned reports.
const maxTurned = 64

// mismatch says why an agent is not part of this job.
func (g *Gossip) mismatch(m meta) rendezvous.Refused {
	if m.Run != g.cfg.RunID {
		return rendezvous.Refused{Name: m.Name, Why: fmt.Sprintf("it belongs to run %q, this is run %q; give both the same --rdzv-id, or another --rdzv-endpoint", m.Run, g.cfg.RunID)}
	}
	return rendezvous.Refused{Name: m.Name, Why: fmt.Sprintf("it speaks protocol %d, this job speaks %d; start the same gorun on every node", m.Protocol, g.protocol), Ours: true}
}

// maxID bounds the bytes of an agent's id; an Identity's has 16.
const maxID = 64

// plausible reports whether an agent could describe itself so.
func plausible(n *memberlist.Node) bool {
	return n.Name != "" && len(n.Name) <= maxID && !strings.ContainsFunc(n.Name, term.Unfit) &&
		(len(n.Addr) == net.IPv4len || len(n.Addr) == net.IPv6len)
}

// memory is how long memberlist may know agents that have left.
const memory = 2 * time.Minute

// remember notes the name of an agent that memberlist will know, and reports
// whether there is room for it. The caller holds mu.
func (g *Gossip) remember(id rendezvous.NodeID) bool {
	if _, ok := g.seen.names[id]; ok {
		return true
	}
	if len(g.seen.names) >= g.cfg.Most {
		maps.DeleteFunc(g.seen.names, func(_ rendezvous.NodeID, left time.Time) bool {
			return !left.IsZero() && time.Since(left) >= memory
		})
	}
	if len(g.seen.names) >= g.cfg.Most {
		return false
	}
	g.seen.names[id] = time.Time{}
	return true
}

// decoded is a meta as it travels and what it says.
type decoded struct {
	raw string
	meta
}

// decode is decodeMeta with a memory of the last meta. memberlist asks for a meta
// twice, and gets the same one many times.
func (g *Gossip) decode(b []byte) (meta, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if string(b) == g.seen.last.raw {
		return g.seen.last.meta, nil
	}
	m, err := decodeMeta(b)
	if err == nil {
		g.seen.last = decoded{string(b), m}
	}
	return m, err
}

// events copies what memberlist reports, because its callbacks hold its locks.
type events struct{ g *Gossip }

func (e events) NotifyJoin(n *memberlist.Node) {
	m, err := e.g.decode(n.Meta)
	if err != nil {
		return
	}
	e.g.mu.Lock()
	e.g.seen.peers[rendezvous.NodeID(n.Name)] = m.peer(n.Name)
	delete(e.g.seen.lost, rendezvous.NodeID(n.Name))
	if _, ok := e.g.seen.names[rendezvous.NodeID(n.Name)]; ok {
		e.g.seen.names[rendezvous.NodeID(n.Name)] = time.Time{}
	}
	e.g.seen.met = e.g.seen.met || n.Name != string(e.g.cfg.ID)
	e.g.mu.Unlock()
	e.g.wake()
}

func (e events) NotifyUpdate(n *memberlist.Node) { e.NotifyJoin(n) }

func (e events) NotifyLeave(n *memberlist.Node) {
	e.g.mu.Lock()
	delete(e.g.seen.peers, rendezvous.NodeID(n.Name))
	if len(e.g.seen.lost) < maxLost {
		e.g.seen.lost[rendezvous.NodeID(n.Name)] = n.Address()
	}
	if _, ok := e.g.seen.names[rendezvous.NodeID(n.Name)]; ok {
		e.g.seen.names[rendezvous.NodeID(n.Name)] = time.Now()
	}
	e.g.mu.Unlock()
	e.g.wake()
}

// delegate hands out this agent's meta and nothing else.
type delegate []byte

func (d delegate) NodeMeta(int) []byte { return d }

func (delegate) NotifyMsg([]byte) {}

func (delegate) GetBroadcasts(int, int) [][]byte { return nil }

func (delegate) LocalState(bool) []byte { return nil }

func (delegate) MergeRemoteState([]byte, bool) {}
