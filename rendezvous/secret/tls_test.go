package secret

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"math/big"
	"net"
	"testing"
	"time"
)

func config(t testing.TB, text string) *tls.Config {
	t.Helper()
	c, err := made(t, text).TLS()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// handshake makes a handshake and sends one byte each way, which shows whether both
// sides accept each other.
func handshake(t testing.TB, server, client *tls.Config) (in, out error) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	exchange := func(c *tls.Conn) error {
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(10 * time.Second))
		if err := c.Handshake(); err != nil {
			return err
		}
		if _, err := c.Write([]byte("x")); err != nil {
			return err
		}
		_, err := c.Read(make([]byte, 1))
		return err
	}
	done := make(chan error, 1)
	go func() {
		c, err := l.Accept()
		if err == nil {
			err = exchange(tls.Server(c, server))
		}
		done <- err
	}()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	out = exchange(tls.Client(c, client))
	return <-done, out
}

// anyCertificate returns a configuration with a new certificate that accepts any other.
func anyCertificate(t testing.TB) *tls.Config {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	form := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	cert, err := x509.CreateCertificate(rand.Reader, form, form, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{cert}, PrivateKey: key}}, InsecureSkipVerify: true, ClientAuth: tls.RequireAnyClientCert}
}

func TestTLSNeedsTheSameSecret(t *testing.T) {
	if c, err := (Secret{}).TLS(); c != nil || err != nil {
		t.Errorf("without a secret: %v, %v", c, err)
	}
	job := config(t, text)
	if in, out := handshake(t, config(t, text), job); in != nil || out != nil {
		t.Fatalf("the same secret: %v, %v", in, out)
	}
	anonymous := &tls.Config{InsecureSkipVerify: true}
	// stolen has the job's certificate, which every peer can see, without its key.
	stolen := anyCertificate(t)
	stolen.Certificates[0].Certificate = job.Certificates[0].Certificate
	old := job.Clone()
	old.MinVersion, old.MaxVersion = tls.VersionTLS12, tls.VersionTLS12
	for name, other := range map[string]*tls.Config{
		"another secret": config(t, text+"x"), "a new certificate": anyCertificate(t), "anonymous": anonymous, "a stolen certificate": stolen, "TLS 1.2": old,
	} {
		t.Run(name, func(t *testing.T) {
			if in, _ := handshake(t, job, other); in == nil {
				t.Error("accepted as a client")
			}
			if len(other.Certificates) == 0 {
				return
			}
			_, out := handshake(t, other, job)
			if out == nil {
				t.Error("accepted as a server")
			}
			if name == "another secret" && !errors.Is(out, ErrMismatch) {
				t.Errorf("%v does not say why", out)
			}
		})
	}
}

// TestDatesOfCertificatesDoNotCount checks clocks far from the certificates' dates.
func TestDatesOfCertificatesDoNotCount(t *testing.T) {
	for _, now := range []time.Time{time.Unix(-1e9, 0), time.Unix(0, 0), time.Date(12000, 1, 1, 0, 0, 0, 0, time.UTC)} {
		c := config(t, text)
		c.Time = func() time.Time { return now }
		if in, out := handshake(t, config(t, text), c); in != nil || out != nil {
			t.Errorf("a client of %v: %v, %v", now, in, out)
		}
		if in, out := handshake(t, c, config(t, text)); in != nil || out != nil {
			t.Errorf("a server of %v: %v, %v", now, in, out)
		}
	}
}

func BenchmarkHandshake(b *testing.B) {
	c := config(b, text)
	for b.Loop() {
		if in, out := handshake(b, c, c); in != nil || out != nil {
			b.Fatal(in, out)
		}
	}
}

func BenchmarkTLS(b *testing.B) {
	s := made(b, text)
	for b.Loop() {
		if _, err := s.TLS(); err != nil {
			b.Fatal(err)
		}
	}
}
