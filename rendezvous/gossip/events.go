package gossip

import (
	"fmt"
	"net"
	"strconv"

	"github.com/gorun/gorun/rendezvous"
	"github.com/hashicorp/memberlist"
)

// acquaintances are the agents that one which serves no endpoint knows at least,
// beside those that serve one.
const acquaintances = 16

// NotifyAlive refuses agents of other runs and protocols, and whom this one need
// not know. An agent that does not serve its endpoint and finds a stranger there
// has nobody to join.
func (g *Gossip) NotifyAlive(n *memberlist.Node) error {
	m, err := g.decode(n.Meta)
	if n.Name == string(g.cfg.ID) {
		return nil
	}
	g.mu.Lock()
	if err == nil && m.Run == g.cfg.RunID && m.Protocol == g.protocol {
		defer g.mu.Unlock()
		_, known := g.peers[rendezvous.NodeID(n.Name)]
		if known || m.Endpoint >= 0 || g.cfg.Serves >= 0 || len(g.peers) <= acquaintances {
			return nil
		}
		return errEnough
	}
	if !g.met && g.cfg.Serves < 0 && m.Endpoint >= 0 && g.foreign == "" {
		at := net.JoinHostPort(n.Addr.String(), strconv.Itoa(int(n.Port)))
		switch {
		case err != nil:
			g.foreign = fmt.Sprintf("%s is used by a program that is not gorun (%v); choose another port for --rdzv-endpoint", at, err)
		case m.Protocol != g.protocol:
			g.foreign = fmt.Sprintf("%s is served by %s with protocol %d, this gorun speaks %d; start the same gorun on every node", at, m.Name, m.Protocol, g.protocol)
		default:
			g.foreign = fmt.Sprintf("%s is served by %s for run %q, not %q; give both the same --rdzv-id, or this job another port in --rdzv-endpoint", at, m.Name, m.Run, g.cfg.RunID)
		}
		g.wake()
	}
	g.mu.Unlock()
	return errForeign
}

// decoded is a meta as it travels and what it says.
type decoded struct {
	raw string
	meta
}

// decode is decodeMeta; memberlist asks for one twice, and is told of the same one
// many times.
func (g *Gossip) decode(b []byte) (meta, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if string(b) == g.last.raw {
		return g.last.meta, nil
	}
	m, err := decodeMeta(b)
	if err == nil {
		g.last = decoded{string(b), m}
	}
	return m, err
}

// events copies what memberlist reports: its callbacks hold its locks.
type events struct{ g *Gossip }

func (e events) NotifyJoin(n *memberlist.Node) {
	m, err := e.g.decode(n.Meta)
	if err != nil {
		return
	}
	e.g.mu.Lock()
	e.g.peers[rendezvous.NodeID(n.Name)] = m.peer(n.Name)
	delete(e.g.lost, rendezvous.NodeID(n.Name))
	e.g.met = e.g.met || n.Name != string(e.g.cfg.ID)
	e.g.mu.Unlock()
	e.g.wake()
}

func (e events) NotifyUpdate(n *memberlist.Node) { e.NotifyJoin(n) }

func (e events) NotifyLeave(n *memberlist.Node) {
	e.g.mu.Lock()
	delete(e.g.peers, rendezvous.NodeID(n.Name))
	if len(e.g.lost) < maxLost {
		e.g.lost[rendezvous.NodeID(n.Name)] = n.Address()
	}
	e.g.mu.Unlock()
	e.g.wake()
}

// delegate hands out this agent's meta and carries nothing else.
type delegate []byte

func (d delegate) NodeMeta(int) []byte { return d }

func (delegate) NotifyMsg([]byte) {}

func (delegate) GetBroadcasts(int, int) [][]byte { return nil }

func (delegate) LocalState(bool) []byte { return nil }

func (delegate) MergeRemoteState([]byte, bool) {}
