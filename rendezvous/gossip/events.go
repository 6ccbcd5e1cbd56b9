package gossip

import (
	"fmt"
	"maps"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gorun/gorun/internal/term"
	"github.com/gorun/gorun/rendezvous"
	"github.com/hashicorp/memberlist"
)

// minKnown is how many agents an agent that serves no endpoint knows at least, beside
// those that serve one.
const minKnown = 16

// NotifyAlive refuses agents of other runs and protocols, and agents that this agent
// need not know. memberlist calls it for every agent that it hears of.
func (g *Gossip) NotifyAlive(n *memberlist.Node) error {
	if !isPlausible(n) {
		return errForeign
	}
	m, err := g.decode(n.Meta)
	if n.Name == string(g.cfg.ID) {
		return nil
	}
	if err == nil && m.Run == g.cfg.RunID && m.Protocol == g.protocol {
		return g.admit(rendezvous.NodeID(n.Name), m)
	}
	g.noteForeign(n, m, err)
	if err == nil {
		g.reportRefusal(n.Name, m)
	}
	return errForeign
}

// admit returns an error if this agent need not know an agent of its run.
func (g *Gossip) admit(id rendezvous.NodeID, m meta) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	_, known := g.seen.peers[id]
	if (known || m.Endpoint >= 0 || g.names.serves >= 0 || len(g.seen.peers) <= minKnown) && g.reserveName(id) {
		return nil
	}
	return errKnowsEnough
}

// noteForeign notes that another job, protocol or program has an endpoint. bad is the
// error of decoding m.
func (g *Gossip) noteForeign(n *memberlist.Node, m meta, bad error) {
	at := net.JoinHostPort(n.Addr.String(), strconv.Itoa(int(n.Port)))
	switch {
	case m.Endpoint < 0:
	case bad != nil:
		g.failJoin(otherProgram(at, bad))
	case m.Protocol != g.protocol:
		g.failJoin(&Foreign{fmt.Sprintf("%s is served by %s with protocol %d, this gorun speaks %d; start the same gorun on every node", at, m.Name, m.Protocol, g.protocol), m.Run != g.cfg.RunID})
	default:
		g.failJoin(&Foreign{fmt.Sprintf("%s is served by %s for run %q, not %q; give both the same --rdzv-id, or this job another port in --rdzv-endpoint", at, m.Name, m.Run, g.cfg.RunID), true})
	}
}

// failJoin makes Run return a Foreign error if this agent serves no endpoint and has
// seen no other agent, because it then has no agent to join. It reports whether Run
// fails.
func (g *Gossip) failJoin(f *Foreign) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.seen.foundPeer || g.names.serves >= 0 {
		return false
	}
	if g.endpoint.foreign == nil {
		g.endpoint.foreign = f
		g.wake()
	}
	return true
}

// otherProgram is the error of an endpoint at which a program other than gorun listens.
func otherProgram(at string, why error) *Foreign {
	return &Foreign{fmt.Sprintf("%s is used by a program that is not gorun (%v); choose another port for --rdzv-endpoint", at, why), true}
}

// maxRefused bounds the agents that Config.Refused is called for.
const maxRefused = 64

// reportRefusal calls Config.Refused, once for each agent, if this agent serves an
// endpoint.
func (g *Gossip) reportRefusal(name string, m meta) {
	g.mu.Lock()
	report := g.names.serves >= 0 && g.cfg.Refused != nil && !g.seen.refused[name] && len(g.seen.refused) < maxRefused
	if report {
		g.seen.refused[name] = true
	}
	g.mu.Unlock()
	if report {
		g.cfg.Refused(g.refusal(m))
	}
}

// refusal says why an agent is not part of this job.
func (g *Gossip) refusal(m meta) rendezvous.Refused {
	if m.Run != g.cfg.RunID {
		return rendezvous.Refused{Name: m.Name, Why: fmt.Sprintf("it belongs to run %q, this is run %q; give both the same --rdzv-id, or another --rdzv-endpoint", m.Run, g.cfg.RunID)}
	}
	return rendezvous.Refused{Name: m.Name, Why: fmt.Sprintf("it speaks protocol %d, this job speaks %d; start the same gorun on every node", m.Protocol, g.protocol), SameRun: true}
}

// maxID bounds the bytes of an agent's id; an Identity's has 16.
const maxID = 64

// isPlausible reports whether an agent could describe itself so.
func isPlausible(n *memberlist.Node) bool {
	return n.Name != "" && len(n.Name) <= maxID && !strings.ContainsFunc(n.Name, term.Unfit) &&
		(len(n.Addr) == net.IPv4len || len(n.Addr) == net.IPv6len)
}

// forgetAfter is how long memberlist may know agents that have left.
const forgetAfter = 2 * time.Minute

// reserveName notes the name of an agent that memberlist will know, and reports
// whether there is room for it. The caller holds mu.
func (g *Gossip) reserveName(id rendezvous.NodeID) bool {
	if _, ok := g.seen.names[id]; ok {
		return true
	}
	if len(g.seen.names) >= g.cfg.MaxAgents {
		maps.DeleteFunc(g.seen.names, func(_ rendezvous.NodeID, left time.Time) bool {
			return !left.IsZero() && time.Since(left) >= forgetAfter
		})
	}
	if len(g.seen.names) >= g.cfg.MaxAgents {
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

// decode is decodeMeta with a cache of the last meta. memberlist asks for a meta
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

// events keeps what memberlist reports. memberlist calls its methods while it holds its
// own lock, so they must not call memberlist: they only update Gossip.seen and wake Run.
type events struct{ g *Gossip }

func (e events) NotifyJoin(n *memberlist.Node) {
	m, err := e.g.decode(n.Meta)
	if err != nil {
		return
	}
	id, seen := rendezvous.NodeID(n.Name), &e.g.seen
	e.g.mu.Lock()
	seen.peers[id] = m.peer(n.Name)
	delete(seen.lost, id)
	if _, ok := seen.names[id]; ok {
		seen.names[id] = time.Time{}
	}
	seen.foundPeer = seen.foundPeer || id != e.g.cfg.ID
	e.g.mu.Unlock()
	e.g.wake()
}

func (e events) NotifyUpdate(n *memberlist.Node) { e.NotifyJoin(n) }

func (e events) NotifyLeave(n *memberlist.Node) {
	id, seen := rendezvous.NodeID(n.Name), &e.g.seen
	e.g.mu.Lock()
	delete(seen.peers, id)
	if len(seen.lost) < maxLost {
		seen.lost[id] = n.Address()
	}
	if _, ok := seen.names[id]; ok {
		seen.names[id] = time.Now()
	}
	e.g.mu.Unlock()
	e.g.wake()
}

// delegate hands out this agent's meta and nothing else.
type delegate struct{ meta atomic.Pointer[[]byte] }

func (d *delegate) NodeMeta(int) []byte { return *d.meta.Load() }

func (*delegate) NotifyMsg([]byte) {}

func (*delegate) GetBroadcasts(int, int) [][]byte { return nil }

func (*delegate) LocalState(bool) []byte { return nil }

func (*delegate) MergeRemoteState([]byte, bool) {}
