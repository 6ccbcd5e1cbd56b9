package gossip

import (
	"fmt"
	"net"
	"strconv"

	"github.com/gorun/gorun/rendezvous"
	"github.com/hashicorp/memberlist"
)

// NotifyAlive refuses agents of other runs and protocols. An agent that does
// not serve its endpoint and finds a stranger there has nobody to join.
func (g *Gossip) NotifyAlive(n *memberlist.Node) error {
	m, err := decodeMeta(n.Meta)
	if err == nil && m.Run == g.cfg.RunID && m.Protocol == g.protocol {
		return nil
	}
	if n.Name == string(g.cfg.ID) {
		return nil
	}
	g.mu.Lock()
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

// events copies what memberlist reports: its callbacks hold its locks.
type events struct{ g *Gossip }

func (e events) NotifyJoin(n *memberlist.Node) {
	m, err := decodeMeta(n.Meta)
	if err != nil {
		return
	}
	e.g.mu.Lock()
	e.g.peers[rendezvous.NodeID(n.Name)] = m.peer(n.Name)
	e.g.met = e.g.met || n.Name != string(e.g.cfg.ID)
	e.g.mu.Unlock()
	e.g.wake()
}

func (e events) NotifyUpdate(n *memberlist.Node) { e.NotifyJoin(n) }

func (e events) NotifyLeave(n *memberlist.Node) {
	e.g.mu.Lock()
	delete(e.g.peers, rendezvous.NodeID(n.Name))
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
