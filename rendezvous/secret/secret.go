// Package secret derives keys from a job's secret: one text that every node gets from a
// file or GORUN_SECRET, and that never travels. The agents prove it to each other.
//
// Invariants: the text itself is not kept. Each use has a key of its own, so that a
// leaked key helps with no other use. The same text gives the same keys on every node
// of a run, and other keys in another run. Printing a Secret, or a struct that has one,
// shows no key.
//
// An eavesdropper learns no key from what the agents send. But an eavesdropper that guesses the text
// can verify the guess offline, so the text must be random.
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

// Secret derives the keys of a job. The zero value is no secret.
type Secret struct {
	expand func(info string) ([]byte, error) // a function, because fmt prints no function's variables
}

// salt and info keep these keys apart from any other use of the same text.
const (
	salt    = "gorun secret 1"
	info    = "gorun key 1: "
	runInfo = "gorun run 1: "
)

// New makes a secret from its text, without trailing line ends. An error says what is
// wrong with the text and does not show it.
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
	return fromRoot(root), nil
}

func fromRoot(root []byte) Secret {
	return Secret{func(info string) ([]byte, error) { return hkdf.Expand(sha256.New, root, info, 32) }}
}

// For returns the secret of one run. Its keys reveal nothing of the keys of another run
// with the same text, so agents of different runs do not accept each other.
func (s Secret) For(runID string) Secret {
	if !s.Given() {
		return s
	}
	key := s.key(runInfo + runID)
	return fromRoot(key[:])
}

// advice says how to make a good secret.
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

// GoString returns the same as String, so that %#v shows nothing either.
func (s Secret) GoString() string { return s.String() }

// Key derives the key of one use. Keys of different uses reveal nothing of each other.
// Key panics without a secret, because such a key would protect nothing.
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

// Prove returns the proof for a random nonce of the other side. Each direction needs a
// purpose of its own, so that a proof that is sent back does not count.
func (s Secret) Prove(purpose string, nonce []byte) []byte {
	key := s.Key("prove " + purpose)
	h := hmac.New(sha256.New, key[:])
	h.Write(nonce)
	return h.Sum(nil)
}

// Verify reports whether proof is what Prove returns, in constant time. Without a
// secret it is false.
func (s Secret) Verify(purpose string, nonce, proof []byte) bool {
	return s.Given() && hmac.Equal(proof, s.Prove(purpose, nonce))
}

// Mismatch is the error of two nodes that do not have the same secret of one run.
type Mismatch struct{ At string } // address of the other node

func (m *Mismatch) Error() string {
	return m.At + " has another secret (or none), or is of another run; give every node of a job the same --secret-file and --rdzv-id, and every job a port of its own"
}
