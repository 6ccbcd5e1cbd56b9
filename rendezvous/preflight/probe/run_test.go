package probe

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gorun/gorun/rendezvous/preflight"
)

func TestNodesReachEachOther(t *testing.T) {
	s := serve(t, Options{Key: "job 1", ID: "b"}, "127.0.0.1", "127.0.0.2", "127.0.0.1")
	var p Plan
	for i := range s.Listeners() {
		g := target(s, i)
		g.Source = "127.0.0.9"
		p.Targets = append(p.Targets, g)
		g.Large = false
		p.Targets = append(p.Targets, g)
	}
	got := Run(t.Context(), Options{Key: "job 1", ID: "a"}, p)
	if len(got) != len(p.Targets) {
		t.Fatalf("%d results of %d probes", len(got), len(p.Targets))
	}
	for i, r := range got {
		if r.Result != preflight.OK || r.Seen != "127.0.0.9" || r.Answer != "b" || !p.Targets[i].matches(0, r) || r.TookMS <= 0 {
			t.Errorf("probe %d: %+v", i, r)
		}
	}
}

// TestResults checks that each fault of the other side has its own result.
func TestResults(t *testing.T) {
	o := longOptions("a")
	s := serve(t, longOptions("b"), "127.0.0.1")
	good := target(s, 0)
	at := func(addr string) Target { g := good; g.Target = addr; return g }
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	// exchange makes an impostor that knows the key answer.
	exchange := func(f func(net.Conn, hello)) string {
		return impostor(t, func(c net.Conn) {
			if h, err := readHello(c, o.key()); err == nil {
				f(c, h)
			}
		})
	}
	say := func(c net.Conn, h hello, id, seen string) {
		_, _ = c.Write(rawReply(o.key(), h.nonce, id, seen))
	}
	hold := func(c net.Conn) { _, _ = io.Copy(io.Discard, c) }
	cases := []struct {
		name   string
		target Target
		want   preflight.Result
		text   string
	}{
		{"refused", at(closed.Addr().String()), preflight.Refused, "connect: connection refused"},
		{"closes", at(impostor(t, func(c net.Conn) { _, _ = io.CopyN(io.Discard, c, 1) })), preflight.Reset, "connection reset"},
		{"closes without an error", at(impostor(t, func(c net.Conn) { _, _ = readHello(c, []byte("other")) })), preflight.OtherAgent, "closed the connection"},
		{"speaks another protocol", at(impostor(t, func(c net.Conn) { fmt.Fprint(c, "SSH-2.0-OpenSSH_9.2p1 Debian\r\n"); hold(c) })), preflight.OtherAgent, "does not speak"},
		{"is silent", at(impostor(t, hold)), preflight.Failed, "no answer within"},
		{"knows another key", at(impostor(t, func(c net.Conn) {
			h, _ := readHello(c, o.key())
			_, _ = c.Write(rawReply([]byte("x"), h.nonce, "b", "127.0.0.1"))
			hold(c)
		})), preflight.OtherAgent, "job's key"},
		{"repeats an old answer", at(exchange(func(c net.Conn, h hello) { h.nonce[0]++; say(c, h, "b", "127.0.0.1"); hold(c) })), preflight.OtherAgent, "job's key"},
		{"sees no address", at(exchange(func(c net.Conn, h hello) { say(c, h, "b", "here"); hold(c) })), preflight.OtherAgent, "source address"},
		{"is another node", at(exchange(func(c net.Conn, h hello) { say(c, h, "c", "127.0.0.1"); hold(c) })), preflight.OtherAgent, "another node of this job"},
		{"takes no payload", at(exchange(func(c net.Conn, h hello) {
			say(c, h, "b", "127.0.0.1")
			_, _ = c.Read(make([]byte, 1))
			<-t.Context().Done()
		})), preflight.Failed, "64 KiB arrived, but no answer"},
		{"gives no payload", at(exchange(func(c net.Conn, h hello) {
			say(c, h, "b", "127.0.0.1")
			_, _ = io.CopyN(io.Discard, c, payload)
			_, _ = c.Write(make([]byte, 10000))
			hold(c)
		})), preflight.OtherAgent, "does not speak"},
		{"gives half of the payload", at(exchange(func(c net.Conn, h hello) {
			say(c, h, "b", "127.0.0.1")
			_, _ = io.CopyN(io.Discard, c, payload)
			_, _ = c.Write(append([]byte{received}, make([]byte, payload/2)...))
			hold(c)
		})), preflight.Slow, "32 of 64 KiB from it"},
		{"gives nothing of the payload", at(exchange(func(c net.Conn, h hello) {
			say(c, h, "b", "127.0.0.1")
			_, _ = io.CopyN(io.Discard, c, payload)
			_, _ = c.Write([]byte{received})
			hold(c)
		})), preflight.Stalled, "0 of 64 KiB from it"},
		{"ends in the middle", at(exchange(func(c net.Conn, h hello) {
			say(c, h, "b", "127.0.0.1")
			_, _ = io.CopyN(io.Discard, c, payload)
			_, _ = c.Write([]byte{received})
		})), preflight.Reset, "in the middle"},
		{"sees another source", at(exchange(func(c net.Conn, h hello) {
			say(c, h, "b", "10.9.8.7")
			_, _ = io.CopyN(io.Discard, c, payload)
			_, _ = c.Write(append([]byte{received}, make([]byte, payload)...))
		})), preflight.OtherSource, "sent from 127.0.0.1, arrived from 10.9.8.7"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			o := o
			if (tryResult{probe: &preflight.Probe{Result: c.want}}).decisiveness() != decided {
				o = shortOptions("a") // the test waits for a deadline
			}
			r := runOne(t, o, c.target)
			if r.Result != c.want || !strings.Contains(r.Text, c.text) {
				t.Errorf("%q, %q; want %q, %q", r.Result, r.Text, c.want, c.text)
			}
		})
	}
	t.Run("source is not here", func(t *testing.T) {
		g := good
		g.Source = "203.0.113.7"
		if r := runOne(t, o, g); r.Result != preflight.NoAddress || r.Text != "bind: cannot assign requested address" {
			t.Errorf("%+v", r)
		}
	})
	t.Run("other key", func(t *testing.T) {
		o := o
		o.Key = "job 2"
		if r := runOne(t, o, good); r.Result != preflight.OtherAgent {
			t.Errorf("%+v", r)
		}
	})
}

// TestFullNode checks that a probe is made again where a node had no room for the
// connection and closed it, before it read the hello (a reset) or after.
func TestFullNode(t *testing.T) {
	s := serve(t, longOptions("b"), "127.0.0.1")
	for name, read := range map[string]int64{"reset": 0, "closed": int64(len(newHello("a", payload).encode(nil)))} {
		t.Run(name, func(t *testing.T) {
			g, came := target(s, 0), atomic.Int64{}
			real := g.Target
			g.Target = impostor(t, func(c net.Conn) {
				if came.Add(1) <= 2 {
					_, _ = io.CopyN(io.Discard, c, read)
					return
				}
				to, err := net.Dial("tcp", real)
				if err != nil {
					t.Error(err)
					return
				}
				defer to.Close()
				go func() { _, _ = io.Copy(to, c) }()
				_, _ = io.Copy(c, to)
			})
			if r := runOne(t, longOptions("a"), g); r.Result != preflight.OK || r.Answer != "b" || came.Load() != 3 {
				t.Errorf("%+v after %d connections", r, came.Load())
			}
		})
	}
}

// TestAllProbesTogetherAreBounded checks that all probes share one deadline,
// however many targets do not answer, and that probes without time have no
// result.
func TestAllProbesTogetherAreBounded(t *testing.T) {
	silent := impostor(t, func(c net.Conn) { _, _ = io.Copy(io.Discard, c) })
	o := longOptions("a")
	o.Exchange, o.Total, o.Parallel = 200*time.Millisecond, 2*time.Second, 4
	var p Plan
	for range 100 {
		p.Targets = append(p.Targets, Target{To: 1, ID: "b", Use: preflight.UseData, Source: "127.0.0.1", Target: silent})
	}
	got := Run(t.Context(), o, p)
	if len(got) == 0 || len(got) > 40 {
		t.Errorf("%d results; ten waves of 4 fit in", len(got))
	}
	for _, r := range got {
		if r.Result != preflight.Failed {
			t.Errorf("%+v", r)
		}
	}
}

func TestRunStopsWithItsOwner(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	silent := impostor(t, func(c net.Conn) { cancel(); _, _ = io.Copy(io.Discard, c) })
	o := Options{Key: "job 1", ID: "a", Exchange: time.Hour, Total: time.Hour}
	if got := Run(ctx, o, Plan{Targets: []Target{{To: 1, Source: "127.0.0.1", Target: silent}}}); len(got) != 0 {
		t.Errorf("a result without an answer: %+v", got)
	}
}

// rawReply returns the reply of an impostor that reports any source address.
func rawReply(key []byte, nonce [nonceSize]byte, id, seen string) []byte {
	b := append([]byte(magic), 0, byte(len(id)))
	b = append(append(append(b, id...), byte(len(seen))), seen...)
	b = append(b, make([]byte, 8)...) // a clock
	return append(b, mac(key, nonce[:], b)...)
}
