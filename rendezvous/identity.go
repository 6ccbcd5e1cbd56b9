package rendezvous

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"strings"
)

// Identity is what only one agent has: the key behind its id. Everyone may learn
// an id, from gossip for instance; whoever claims it must prove that it is its own.
// The curve is P-256: a process's first use of Ed25519 costs 1.5 ms, which every
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

// ID is the id that belongs to the identity.
func (i *Identity) ID() NodeID { return idOf(i.public) }

// idOf is 16 characters, 80 bits, of a key's hash: no second key has it.
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
