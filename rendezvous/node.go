package rendezvous

import (
	"crypto/rand"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Protocol is the version of the messages between agents. Agents of different
// versions refuse each other.
const Protocol = 3

// NodeID names one agent process: that of an Identity, never reused, so a restarted agent
// can neither vote twice nor inherit what its predecessor promised.
type NodeID string

// NewNodeID draws an id for an agent that meets nobody. Of others the id is that of
// an Identity.
func NewNodeID() NodeID { return NodeID(strings.ToLower(rand.Text()[:16])) }

// Node is what an agent says of itself when it joins.
type Node struct {
	ID       NodeID `json:"id"`
	RunID    string `json:"run_id"`
	Protocol int    `json:"protocol"`
	Version  string `json:"version"` // gorun's own version, for display
	Host     string `json:"host"`    // host name, for display and order
	Addr     string `json:"addr"`    // IP address that the other nodes reach
	Control  string `json:"control"` // host:port of the agent's control plane
	Store    string `json:"store"`   // host:port of the store that it has bound for the next round
	PID      int    `json:"pid"`
	Workers  int    `json:"workers"`   // local world size
	Role     string `json:"role"`      // --role
	NodeRank int    `json:"node_rank"` // --node-rank, -1: none
	Endpoint int    `json:"endpoint"`  // index of the endpoint that it serves, -1: none
	Min      int    `json:"min"`       // --nnodes, must agree
	Max      int    `json:"max"`
	Facts    bool   `json:"facts"` // it will tell facts
	Proven   bool   `json:"-"`     // the control plane has seen a Proof of ID
	Seen     string `json:"-"`     // IP address that its stream comes from
	// Networks are the addresses, and networks of addresses, that its workers may
	// have: it serves them to the store of a world.
	Networks []string `json:"networks,omitempty"`
}

// Name is how messages call the node: its host and, where that does not say
// it, its address.
func (n *Node) Name() string { return displayName(n.Host, n.Addr) }

func displayName(host, addr string) string {
	switch {
	case addr == "" || host == addr:
		return host
	case host == "":
		return addr
	default:
		return host + " (" + addr + ")"
	}
}

// Peer is what a backend knows of an agent: enough to call it.
type Peer struct {
	ID       NodeID
	Name     string // for messages
	Control  string // host:port of its control plane
	Endpoint int    // index of the endpoint that it serves, -1: none
}

// SignalName gives "SIGTERM" for 15.
func SignalName(s syscall.Signal) string {
	if n := unix.SignalName(s); n != "" {
		return n
	}
	return s.String()
}
