package etcdtest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// pair is a certificate with its key.
type pair struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// certificates writes a CA, what it has signed for server and client, and a
// second CA that has signed nothing.
func certificates(dir string) (TLS, error) {
	ca, err := write(dir, "ca", nil)
	if err != nil {
		return TLS{}, err
	}
	if _, err := write(dir, "other", nil); err != nil {
		return TLS{}, err
	}
	for _, name := range []string{"server", "client"} {
		if _, err := write(dir, name, ca); err != nil {
			return TLS{}, err
		}
	}
	in := func(name string) string { return filepath.Join(dir, name) }
	return TLS{CA: in("ca.crt"), Cert: in("client.crt"), Key: in("client.key"), OtherCA: in("other.crt")}, nil
}

// write makes a certificate for loopback, signed by ca, or a CA if that is nil.
func write(dir, name string, ca *pair) (*pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		return nil, err
	}
	cert := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: "etcdtest " + name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		DNSNames:    []string{"localhost", "etcd.test"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	by := ca
	if ca == nil {
		cert.IsCA, cert.BasicConstraintsValid, cert.KeyUsage, cert.ExtKeyUsage = true, true, x509.KeyUsageCertSign, nil
		cert.DNSNames, cert.IPAddresses = nil, nil
		by = &pair{cert, key}
	}
	der, err := x509.CreateCertificate(rand.Reader, cert, by.cert, &key.PublicKey, by.key)
	if err != nil {
		return nil, err
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	for ext, b := range map[string]*pem.Block{".crt": {Type: "CERTIFICATE", Bytes: der}, ".key": {Type: "PRIVATE KEY", Bytes: secret}} {
		if err := os.WriteFile(filepath.Join(dir, name+ext), pem.EncodeToMemory(b), 0o600); err != nil {
			return nil, err
		}
	}
	return &pair{cert, key}, nil
}

// config returns the configuration of a client that shows its certificate.
func (t TLS) config() (*tls.Config, error) {
	pool := x509.NewCertPool()
	b, err := os.ReadFile(t.CA)
	if err != nil {
		return nil, err
	}
	pool.AppendCertsFromPEM(b)
	cert, err := tls.LoadX509KeyPair(t.Cert, t.Key)
	if err != nil {
		return nil, err
	}
	return &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}, nil
}
