// Package secret is what the agents of a job prove to each other: one text that
// every node is given, by a file or GORUN_SECRET, and that never travels.
//
// Invariants: the text itself is not kept; each use has a key of its own, so that
// what one of them gives away helps with no other; the same text gives the same
// keys on every node of a run, and others in another run; printing a Secret, or a struct that has one, shows no key.
//
// Nobody learns a key from what the agents send, but who guesses the text can
// tell that the guess is right, without asking twice: it must be drawn at random.
package secret

import (
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"fmt"
)

// Bounds of a secret's text, in bytes.
const (
	Min = 16
	Max = 4 << 10
)

// Secret is what the nodes of a job have in common; the zero value is none.
type Secret struct {
	expand func(info string) ([]byte, error) // fmt cannot look into a function
}

// salt and info keep these keys apart from any other use of the same text.
const (
	salt    = "gorun secret 1"
	info    = "gorun key 1: "
	runInfo = "gorun run 1: "
)

// New makes a secret of its text, without the line ends behind it. An error says
// what is wrong with the text and does not show it.
func New(text []byte) (Secret, error) {
	for len(text) > 0 && (text[len(text)-1] == '\n' || text[len(text)-1] == '\r') {
		text = text[:len(text)-1]
	}
	switch n := len(text); {
	case n == 0:
		return Secret{}, fmt.Errorf("it is empty; %s", advice)
	case n < Min:
		return Secret{}, fmt.Errorf("it has %d bytes, at least %d are needed; %s", n, Min, advice)
	case n > Max:
		return Secret{}, fmt.Errorf("it has more than %d bytes; %s", Max, advice)
	}
	root, err := hkdf.Extract(sha256.New, text, []byte(salt))
	if err != nil {
		return Secret{}, fmt.Errorf("cannot derive a key: %w", err)
	}
	return expanding(root), nil
}

func expanding(root []byte) Secret {
	return Secret{func(info string) ([]byte, error) { return hkdf.Expand(sha256.New, root, info, 32) }}
}

// For is the secret of one run: its keys tell nothing of those of another run with
// the same text, so that an agent of one is a stranger to the other.
func (s Secret) For(runID string) Secret {
	if !s.Given() {
		return s
	}
	key := s.key(runInfo + runID)
	return expanding(key[:])
}

// advice is how a good one is made.
const advice = "make one with: openssl rand -hex 32"

// Given reports whether there is a secret.
func (s Secret) Given() bool { return s.expand != nil }

// String never shows the secret.
func (s Secret) String() string {
	if s.Given() {
		return "a secret"
	}
	return "no secret"
}

// GoString is String: %#v shows nothing either.
func (s Secret) GoString() string { return s.String() }

// Key derives the key of one use; uses of different names have keys that tell
// nothing of each other. It panics without a secret: such a key would protect
// nothing and look as if it did.
func (s Secret) Key(purpose string) [32]byte {
	if !s.Given() {
		panic("secret: a key without a secret")
	}
	return s.key(info + purpose)
}

func (s Secret) key(info string) [32]byte {
	key, err := s.expand(info)
	if err != nil {
		panic(fmt.Sprintf("secret: 32 bytes can always be derived: %v", err))
	}
	return [32]byte(key)
}

// Prove answers a nonce that the other side has drawn at random. Each direction
// needs a purpose of its own, lest an answer be sent back as one's own.
func (s Secret) Prove(purpose string, nonce []byte) []byte {
	key := s.Key("prove " + purpose)
	h := hmac.New(sha256.New, key[:])
	h.Write(nonce)
	return h.Sum(nil)
}

// Verify reports whether proof is what Prove gives, in constant time. Without a
// secret nothing is proven.
func (s Secret) Verify(purpose string, nonce, proof []byte) bool {
	return s.Given() && hmac.Equal(proof, s.Prove(purpose, nonce))
}

// Other is the error of two nodes that do not have the same secret of one run.
type Other struct{ At string } // address of the other node

func (o *Other) Error() string {
	return o.At + " has another secret (or none), or is of another run; give every node of a job the same --secret-file and --rdzv-id, and every job a port of its own"
}
