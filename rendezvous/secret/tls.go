package secret

import (
	"crypto/ed25519"
	"crypto/subtle"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"math/big"
	"time"
)

// ErrMismatch is the error of a TLS handshake with an agent that has another secret.
var ErrMismatch = errors.New("it has another secret (or none), or is of another run")

// TLS returns the configuration for both sides of a connection, nil without a secret.
// Both sides have the certificate of one key, which is derived from the secret, and
// prove that they have that key. Names and dates in a certificate do not count, because
// the clocks of nodes may be wrong.
func (s Secret) TLS() (*tls.Config, error) {
	if !s.Given() {
		return nil, nil
	}
	seed := s.Key("tls")
	key := ed25519.NewKeyFromSeed(seed[:])
	public := key.Public().(ed25519.PublicKey)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Unix(0, 0), NotAfter: time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)}
	cert, err := x509.CreateCertificate(nil, template, template, public, key)
	if err != nil {
		return nil, fmt.Errorf("cannot make a certificate from the secret: %w", err)
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		// These take half the time of the default, which withstands a future quantum
		// computer. What agents send has no value by then. FIPS needs P256.
		CurvePreferences: []tls.CurveID{tls.X25519, tls.CurveP256},
		Certificates:     []tls.Certificate{{Certificate: [][]byte{cert}, PrivateKey: key}},
		// There is no authority and no name to verify. VerifyConnection verifies the key.
		InsecureSkipVerify:     true,
		ClientAuth:             tls.RequireAnyClientCert,
		SessionTicketsDisabled: true,
		VerifyConnection: func(c tls.ConnectionState) error {
			if len(c.PeerCertificates) == 0 {
				return ErrMismatch
			}
			peer, ok := c.PeerCertificates[0].PublicKey.(ed25519.PublicKey)
			if !ok || subtle.ConstantTimeCompare(peer, public) != 1 {
				return ErrMismatch
			}
			return nil
		},
	}, nil
}
