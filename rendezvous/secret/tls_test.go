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

// shake makes a handshake and sends one byte each way, which shows whether both
// sides accept each other.
func shake(t testing.TB, server, client *tls.Config) (in, out error) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	talk := func(c *tls.Conn) error {
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
			err = talk(tls.Server(c, server))
		}
		done <- err
	}()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	out = talk(tls.Client(c, client))
	return <-done, out
}

// stranger has a certificate of its own and accepts any.
func stranger(t testing.TB) *tls.Config {
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

func TestTLS(t *testing.T) {
	if c, err := (Secret{}).TLS(); c != nil || err != nil {
		t.Errorf("without a secret: %v, %v", c, err)
	}
	ours := config(t, text)
	if in, out := shake(t, config(t, text), ours); in != nil || out != nil {
		t.Fatalf("the same secret: %v, %v", in, out)
	}
	anonymous := &tls.Config{InsecureSkipVerify: true}
	// The thief shows our certificate, which every peer can see, without its key.
	thief := stranger(t)
	thief.Certificates[0].Certificate = ours.Certificates[0].Certificate
	old := ours.Clone()
	old.MinVersion, old.MaxVersion = tls.VersionTLS12, tls.VersionTLS12
	for name, other := range map[string]*tls.Config{
		"another secret": config(t, text+"x"), "a stranger": stranger(t), "anonymous": anonymous, "a stolen certificate": thief, "TLS 1.2": old,
	} {
		t.Run(name, func(t *testing.T) {
			if in, _ := shake(t, ours, other); in == nil {
				t.Error("accepted as a client")
			}
			if len(other.Certificates) == 0 {
				return
			}
			_, out := shake(t, other, ours)
			if out == nil {
				t.Error("accepted as a server")
			}
			if name == "another secret" && !errors.Is(out, ErrMismatch) {
				t.Errorf("%v does not say why", out)
			}
		})
	}
}

// TestWrongClocks checks that dates of certificates do not count.
func TestWrongClocks(t *testing.T) {
	for _, now := range []time.Time{time.Unix(-1e9, 0), time.Unix(0, 0), time.Date(12000, 1, 1, 0, 0, 0, 0, time.UTC)} {
		c := config(t, text)
		c.Time = func() time.Time { return now }
		if in, out := shake(t, config(t, text), c); in != nil || out != nil {
			t.Errorf("a client of %v: %v, %v", now, in, out)
		}
		if in, out := shake(t, c, config(t, text)); in != nil || out != nil {
			t.Errorf("a server of %v: %v, %v", now, in, out)
		}
	}
}

func BenchmarkHandshake(b *testing.B) {
	c := config(b, text)
	for b.Loop() {
		if in, out := shake(b, c, c); in != nil || out != nil {
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
