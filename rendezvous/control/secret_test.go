package control

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorun/gorun/rendezvous"
	"github.com/gorun/gorun/rendezvous/secret"
)

func tlsOf(t *testing.T, text string) *tls.Config {
	t.Helper()
	if text == "" {
		return nil
	}
	s, err := secret.New([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	c, err := s.TLS()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

const (
	jobSecret       = "the secret of this job"
	otherSecretText = "the secret of that job"
)

// others collects the calls of Options.OtherSecret.
type others struct {
	mu   sync.Mutex
	list []string
}

func (o *others) add(ip string, dialed bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.list = append(o.list, fmt.Sprint(ip, " ", dialed))
}

func (o *others) all() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return strings.Join(o.list, ", ")
}

func startWith(t *testing.T, text string) (*agent, *others) {
	o := &others{}
	opts := shortTimes()
	opts.TLS, opts.OtherSecret = tlsOf(t, text), o.add
	return start(t, opts), o
}

func TestSameSecret(t *testing.T) {
	checkLeaks(t)
	a, atA := startWith(t, jobSecret)
	b, atB := startWith(t, jobSecret)
	at, in := pair(a, b, b.addr, "hi")
	a.sendAll(at)
	b.sendAll(in)
	a.p.Close(at)
	await(b, func(c rendezvous.Closed) bool { return c.Conn == in && c.Clean })
	b.wantAll(in, 1)
	if atA.all()+atB.all() != "" {
		t.Errorf("other agents: %s; %s", atA.all(), atB.all())
	}
}

// TestOtherSecret checks that both sides say so at once, and that the server serves
// on.
func TestOtherSecret(t *testing.T) {
	for name, c := range map[string]struct{ server, client string }{
		"different": {jobSecret, otherSecretText}, "client has none": {jobSecret, ""}, "server has none": {"", jobSecret},
	} {
		t.Run(name, func(t *testing.T) {
			checkLeaks(t)
			srv, atServer := startWith(t, c.server)
			cli, atClient := startWith(t, c.client)
			for range 5 {
				began, before := time.Now(), len(cli.all())
				cli.p.Dial(t.Context(), srv.addr)
				eventually(t, func() bool { return len(cli.all()) > before }, func() string { return "no answer" })
				e, ok := cli.all()[before].(rendezvous.DialFailed)
				if want := srv.addr + " has another secret (or none), or is of another run; give every node of a job the same --secret-file and --rdzv-id, and every job a port of its own"; !ok || e.Text != want || e.Refused {
					t.Errorf("%+v, want %q", cli.all()[before], want)
				}
				if d := time.Since(began); d > 20*time.Second {
					t.Errorf("after %v", d)
				}
			}
			eventually(t, func() bool { return strings.Count(atServer.all(), "127.0.0.1 false") == 5 }, func() string { return "the server says " + atServer.all() })
			eventually(t, func() bool { return strings.Count(atClient.all(), "127.0.0.1 true") == 5 }, func() string { return "the client says " + atClient.all() })
			if n := len(srv.all()); n != 0 {
				t.Errorf("%d events: %v", n, srv.all())
			}
			friend, _ := startWith(t, c.server)
			pair(friend, srv, srv.addr, "hi")
		})
	}
}

// TestOtherClientsAtTLS checks a client that speaks no TLS, breaks off, or is silent. It
// gets nothing out of a server with a secret, does not count as an agent with another
// secret, and disturbs no stream.
func TestOtherClientsAtTLS(t *testing.T) {
	checkLeaks(t)
	a, _ := startWith(t, jobSecret)
	b, atB := startWith(t, jobSecret)
	at, in := pair(a, b, b.addr, "hi")
	for i, junk := range []string{"", "GET / HTTP/1.1\r\n\r\n", "\x16", "\x16\x03\x01\x02\x00\x01", "\x15\x03\x03\x00\x02\x02\x28", strings.Repeat("\x00", 1<<16), strings.Repeat("\x16\x03\x01", 1<<14)} {
		c, err := net.Dial("tcp", b.addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close() // some stay open
		_ = c.SetDeadline(time.Now().Add(300 * time.Millisecond))
		_, _ = io.WriteString(c, junk)
		if said, _ := io.ReadAll(c); len(said) > 16 {
			t.Errorf("junk %d gets %q", i, said)
		}
	}
	a.sendAll(at)
	await(b, func(r rendezvous.Received) bool { return r.Conn == in && r.Msg.Text == fmt.Sprint("n", burst-1) })
	b.wantAll(in, 1)
	if s := atB.all(); strings.Count(s, "127.0.0.1") > 1 { // a client that begins with an alert has another secret
		t.Errorf("other agents: %s", s)
	}
}

// TestAnotherServer checks that an agent with a secret does not take a web server,
// TLS or not, or a silent port for an agent.
func TestAnotherServer(t *testing.T) {
	checkLeaks(t)
	for name, c := range map[string]struct{ say, text string }{
		"web": {"HTTP/1.1 400 Bad Request\r\n\r\n", "another program"}, "silent": {"", "no gorun answered"},
	} {
		t.Run(name, func(t *testing.T) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			go func() {
				for {
					conn, err := l.Accept()
					if err != nil {
						return
					}
					t.Cleanup(func() { conn.Close() })
					_, _ = io.WriteString(conn, c.say)
				}
			}()
			opts := shortTimes()
			opts.TLS, opts.Dial = tlsOf(t, jobSecret), 500*time.Millisecond
			a := start(t, opts)
			a.p.Dial(t.Context(), l.Addr().String())
			if e := await[rendezvous.DialFailed](a, nil); !strings.Contains(e.Text, c.text) {
				t.Errorf("%+v", e)
			}
		})
	}
}

// TestTLSWithoutASecret checks that a program that speaks TLS to an agent without a
// secret does not count as an agent with another secret.
func TestTLSWithoutASecret(t *testing.T) {
	checkLeaks(t)
	seen, secrets := &others{}, &others{}
	opts := shortTimes()
	opts.OtherSecret, opts.ForeignTLS = secrets.add, func(ip string) { seen.add(ip, false) }
	b := start(t, opts)
	for _, name := range []string{"", "example.org"} {
		raw, err := net.Dial("tcp", b.addr)
		if err != nil {
			t.Fatal(err)
		}
		defer raw.Close()
		_ = raw.SetDeadline(time.Now().Add(20 * time.Second))
		if err := tls.Client(raw, &tls.Config{ServerName: name, InsecureSkipVerify: true}).Handshake(); err == nil {
			t.Error("it is answered")
		}
	}
	eventually(t, func() bool { return strings.Count(seen.all(), "127.0.0.1") == 2 }, func() string { return "other agents: " + seen.all() })
	if secrets.all() != "" {
		t.Errorf("other secrets: %s", secrets.all())
	}
}
