package rendezvous

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"net/netip"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Protocol is the version of the messages between agents. Agents of different
// versions refuse each other.
const Protocol = 3

// NodeID names one agent process. It comes from an Identity and is never reused, so a
// restarted agent can neither vote twice nor inherit what its predecessor promised.
type NodeID string

// NewNodeID draws an id for an agent without other agents. The id of any other agent
// comes from its Identity.
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
	Facts    bool   `json:"facts"` // it will send facts
	Proven   bool   `json:"-"`     // the control plane has seen a Proof of ID
	SourceIP string `json:"-"`     // IP address that its stream comes from
	// Networks are the addresses, and networks of addresses, that its workers may
	// have: it serves them to the store of a world.
	Networks []string `json:"networks,omitempty"`
}

// Name returns how messages call the node: its host and, where the host is not the
// address, its address.
func (n *Node) Name() string { return displayName(n.Host, n.Addr) }

// displayName returns how messages call a host with an address.
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

// Peer is an agent as a backend shows it: enough to call it.
type Peer struct {
	ID       NodeID
	Name     string // for messages
	Control  string // host:port of its control plane
	Endpoint int    // index of the endpoint that it serves, -1: none
}

// ip returns the IP address of the agent's control plane; the zero Addr if it has none.
func (p *Peer) ip() netip.Addr {
	at, err := netip.ParseAddrPort(p.Control)
	if err != nil {
		return netip.Addr{}
	}
	return at.Addr().Unmap()
}

// SignalName gives "SIGTERM" for 15.
func SignalName(s syscall.Signal) string {
	if n := unix.SignalName(s); n != "" {
		return n
	}
	return s.String()
}

// Identity is the key behind an agent's id. Any agent may learn an id, from gossip
// for instance, so an agent that claims an id must prove that it is its own. The
// curve is P-256, because a process's first use of Ed25519 costs 1.5 ms, which every
// start of a node would pay.
type Identity struct {
	key    *ecdsa.PrivateKey
	public []byte // as an uncompressed point
}

// NewIdentity draws an identity.
func NewIdentity() *Identity {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic("rendezvous: a key can always be drawn: " + err.Error())
	}
	public, err := key.PublicKey.Bytes()
	if err != nil {
		panic("rendezvous: a key that was drawn has bytes: " + err.Error())
	}
	return &Identity{key, public}
}

// ID returns the id that belongs to the identity.
func (i *Identity) ID() NodeID { return idOf(i.public) }

// idOf returns 16 characters (80 bits) of a key's hash. No second key has them.
func idOf(key []byte) NodeID {
	sum := sha256.Sum256(append([]byte("gorun id 1: "), key...))
	return NodeID(strings.ToLower(base32.StdEncoding.EncodeToString(sum[:10])))
}

// Proof shows that an id is the prover's own, to a side that has drawn a nonce.
type Proof struct {
	Key       []byte `json:"key"`
	Signature []byte `json:"signature"`
}

// purpose keeps these signatures apart from any others.
const purpose = "gorun hello 1: "

// hashOf returns the bytes that a proof signs.
func hashOf(nonce string) []byte {
	sum := sha256.Sum256([]byte(purpose + nonce))
	return sum[:]
}

// Prove answers a nonce.
func (i *Identity) Prove(nonce string) *Proof {
	signature, err := ecdsa.SignASN1(rand.Reader, i.key, hashOf(nonce))
	if err != nil {
		panic("rendezvous: a hash can always be signed: " + err.Error())
	}
	return &Proof{i.public, signature}
}

// Shows reports whether the proof shows that the id is the prover's own. Without
// a nonce nothing is shown.
func (p *Proof) Shows(id NodeID, nonce string) bool {
	if p == nil || nonce == "" || idOf(p.Key) != id {
		return false
	}
	key, err := ecdsa.ParseUncompressedPublicKey(elliptic.P256(), p.Key)
	return err == nil && ecdsa.VerifyASN1(key, hashOf(nonce), p.Signature)
}
