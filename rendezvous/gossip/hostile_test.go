package gossip

import (
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/gorun/gorun/rendezvous"
)

func TestAgentOfAnotherJobIsRefused(t *testing.T) {
	at := freePort(t, "127.0.0.1")
	first := config(1, at)
	first.Endpoints.Serves = 0
	home := open(t, first)
	t.Run("other run", func(t *testing.T) {
		c := config(2, at)
		c.RunID = "other"
		wantForeign(t, open(t, c), `for run "run", not "other"`)
	})
	t.Run("other protocol", func(t *testing.T) {
		c := config(3, at)
		g, err := openAs(c, variant{protocol: rendezvous.Protocol + 1})
		if err != nil {
			t.Fatal(err)
		}
		defer g.close(false)
		_, _ = g.list.Join([]string{at})
		eventually(t, 30*time.Second, func() bool { return g.foreign() != nil }, func() string { return "it finds no foreign agent" })
	})
	if !home.sees(home.id) {
		t.Errorf("the others are seen: %+v", home.peers())
	}
	meet(t, home, open(t, config(4, at)))
}

func wantForeign(t *testing.T, a *agent, text string) {
	t.Helper()
	select {
	case err := <-a.done:
		a.done <- err
		var f *Foreign
		if !errors.As(err, &f) || !strings.Contains(f.Text, text) {
			t.Errorf("%v, want a Foreign with %q", err, text)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("Run does not end")
	}
}

// TestTroubleSaysWhyNoEndpointAnswers checks the text for the user.
func TestTroubleSaysWhyNoEndpointAnswers(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() { // a server of something else
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				_, _ = c.Read(make([]byte, 100))
				_, _ = c.Write([]byte("HTTP/1.1 400 Bad Request\r\n\r\n"))
			}()
		}
	}()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { silent.Close() })
	taken, free := l.Addr().String(), freePort(t, "127.0.0.1")
	tests := []struct {
		name, endpoint, text string
		serves               int
	}{
		{"no listener", free, "refused", -1},
		{"no such name", "no-such-host.invalid:29400", "cannot resolve", -1},
		{"no gorun there", taken, "another program", -1},
		{"no gorun there, on this host", taken, "another program", 0},
		{"silent", silent.Addr().String(), "another program", -1},
		{"no port", "127.0.0.1", "missing port", -1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := config(1, tt.endpoint)
			c.Endpoints.Serves = tt.serves
			a := open(t, c)
			eventually(t, 10*time.Second, func() bool { return strings.Contains(a.peers().Trouble, tt.text) }, func() string {
				return fmt.Sprintf("trouble is %q, want %q", a.peers().Trouble, tt.text)
			})
			if a.g.Serves() >= 0 {
				t.Error("it serves an endpoint whose port is taken")
			}
			began := time.Now()
			a.stop()
			if d := time.Since(began); d > 30*time.Second {
				t.Errorf("the end took %v", d)
			}
		})
	}
}

// TestRandomBytesChangeNothing checks that random bytes at an agent's ports change
// nothing.
func TestRandomBytesChangeNothing(t *testing.T) {
	at := freePort(t, "127.0.0.1")
	first := config(1, at)
	first.Endpoints.Serves = 0
	a, b := open(t, first), open(t, config(2, at))
	meet(t, a, b)
	udp, err := net.Dial("udp", at)
	if err != nil {
		t.Fatal(err)
	}
	defer udp.Close()
	for i := range 500 {
		noise := make([]byte, 1+i%1400)
		_, _ = rand.Read(noise)
		noise[0] = byte(i) // every message type of memberlist
		_, _ = udp.Write(noise)
		if i%25 == 0 {
			c, err := net.Dial("tcp", at)
			if err != nil {
				t.Fatal(err)
			}
			_, _ = c.Write(noise)
			if i%50 == 0 {
				c.Close()
			} else {
				defer c.Close()
			}
		}
	}
	meet(t, a, b, open(t, config(3, at)))
}
