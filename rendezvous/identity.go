package rendezvous

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base32"
	"strings"
)

// Identity is what only one agent has: the key behind its id. Everyone may learn
// an id, from gossip for instance; whoever claims it must prove that it is its own.
type Identity struct{ key ed25519.PrivateKey }

// NewIdentity draws an identity.
func NewIdentity() *Identity {
	_, key, _ := ed25519.GenerateKey(nil) // never fails (crypto/rand)
	return &Identity{key}
}

// ID is the id that belongs to the identity.
func (i *Identity) ID() NodeID { return idOf(i.key.Public().(ed25519.PublicKey)) }

// idOf is 16 characters, 80 bits, of a key's hash: no second key has it.
func idOf(key ed25519.PublicKey) NodeID {
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

// Prove answers a nonce.
func (i *Identity) Prove(nonce string) *Proof {
	return &Proof{i.key.Public().(ed25519.PublicKey), ed25519.Sign(i.key, []byte(purpose+nonce))}
}

// Shows reports whether the proof shows that the id is the prover's own. Without
// a nonce nothing is shown.
func (p *Proof) Shows(id NodeID, nonce string) bool {
	return p != nil && nonce != "" && len(p.Key) == ed25519.PublicKeySize && idOf(p.Key) == id &&
		ed25519.Verify(p.Key, []byte(purpose+nonce), p.Signature)
}
