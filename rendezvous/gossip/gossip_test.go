package gossip

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gorun/gorun/rendezvous"
)

// agent is a running Gossip and what it saw last.
type agent struct {
	t    *testing.T
	g    *Gossip
	id   rendezvous.NodeID
	stop func()
	done chan error

	mu   sync.Mutex
	seen rendezvous.Peers
}

// config of an agent on one address; endpoint "" makes it serve the first one.
func config(i int, endpoints ...string) Config {
	addr := fmt.Sprintf("127.0.0.%d", i)
	return Config{
		ID: rendezvous.NewNodeID(), Name: "node" + addr, RunID: "run", Control: addr + ":1", Bind: addr, Advertise: addr,
		Endpoints: endpoints, Serves: -1, Ports: func() []int { return []int{0} },
	}
}

func open(t *testing.T, c Config) *agent {
	t.Helper()
	g, err := Open(c)
	if err != nil {
		t.Fatal(err)
	}
	a := &agent{t: t, g: g, id: c.ID, done: make(chan error, 1)}
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		a.done <- g.Run(ctx, func(p rendezvous.Peers) {
			a.mu.Lock()
			defer a.mu.Unlock()
			a.seen = p
		})
	}()
	a.stop = sync.OnceFunc(func() {
		cancel()
		select {
		case <-a.done:
		case <-time.After(10 * time.Second):
			t.Error("Run does not end")
		}
	})
	t.Cleanup(a.stop)
	return a
}

func (a *agent) peers() rendezvous.Peers {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.seen
}

func (a *agent) sees(ids ...rendezvous.NodeID) bool {
	p := a.peers().All
	for _, id := range ids {
		found := false
		for _, x := range p {
			found = found || x.ID == id
		}
		if !found {
			return false
		}
	}
	return len(p) == len(ids)
}

func eventually(t testing.TB, limit time.Duration, ok func() bool, why func() string) {
	t.Helper()
	for end := time.Now().Add(limit); !ok(); <-time.After(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal(why())
		}
	}
}

// meet waits until all agents see exactly each other.
func meet(t *testing.T, as ...*agent) {
	t.Helper()
	var ids []rendezvous.NodeID
	for _, a := range as {
		ids = append(ids, a.id)
	}
	for _, a := range as {
		eventually(t, 10*time.Second, func() bool { return a.sees(ids...) }, func() string { return fmt.Sprintf("%s sees %+v, not %v", a.id, a.peers(), ids) })
	}
}

// freePort is a port at which nothing listens now, over TCP or UDP.
func freePort(t testing.TB, addr string) string {
	t.Helper()
	l, err := net.Listen("tcp", addr+":0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func TestAgentsMeet(t *testing.T) {
	for _, n := range []int{1, 2, 5} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			at := freePort(t, "127.0.0.1")
			var as []*agent
			for i := range n {
				c := config(1+i, at)
				if i == 0 {
					c.Serves = 0
				}
				as = append(as, open(t, c))
			}
			meet(t, as...)
			for _, p := range as[n-1].peers().All {
				want := -1
				if p.ID == as[0].id {
					want = 0
				}
				if p.Endpoint != want || p.Control == "" || !strings.HasPrefix(p.Name, "node127.") {
					t.Errorf("%+v, want endpoint %d", p, want)
				}
			}
			if got := net.JoinHostPort("127.0.0.1", fmt.Sprint(as[0].g.Port())); got != at || as[0].g.Serves() != 0 {
				t.Errorf("the endpoint's agent listens at %s (serves %d), not %s", got, as[0].g.Serves(), at)
			}
			if n > 1 { // one leaves
				as[1].stop()
				meet(t, append(as[:1:1], as[2:]...)...)
			}
		})
	}
}

// TestSameHost: agents that start at the same instant with the same endpoint
// and the same address share out its port and free ones.
func TestSameHost(t *testing.T) {
	const n = 6
	at := freePort(t, "127.0.0.1")
	as := make([]*agent, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			c := config(1, at)
			c.Serves = 0
			as[i] = open(t, c)
		})
	}
	wg.Wait()
	meet(t, as...)
	serve := 0
	for _, a := range as {
		if a.g.Serves() == 0 {
			serve++
		}
	}
	if serve != 1 {
		t.Errorf("%d agents serve the endpoint", serve)
	}
}

// TestEndpointComesBack: a new agent at the endpoint finds those that are left.
func TestEndpointComesBack(t *testing.T) {
	at := freePort(t, "127.0.0.1")
	first := config(1, at)
	first.Serves = 0
	a, b, c := open(t, first), open(t, config(2, at)), open(t, config(3, at))
	meet(t, a, b, c)
	a.stop()
	meet(t, b, c)
	again := config(1, at)
	again.Serves = 0
	meet(t, b, c, open(t, again))
}

func TestTwoEndpoints(t *testing.T) {
	one, two := freePort(t, "127.0.0.1"), freePort(t, "127.0.0.2")
	var as []*agent
	for i := range 2 {
		c := config(1+i, one, two)
		c.Serves = i
		as = append(as, open(t, c))
	}
	as = append(as, open(t, config(3, one, two)))
	meet(t, as...)
}

func TestForeign(t *testing.T) {
	at := freePort(t, "127.0.0.1")
	boss := config(1, at)
	boss.Serves = 0
	home := open(t, boss)
	t.Run("other run", func(t *testing.T) {
		c := config(2, at)
		c.RunID = "stranger"
		wantForeign(t, open(t, c), `for run "run", not "stranger"`)
	})
	t.Run("other protocol", func(t *testing.T) {
		c := config(3, at)
		g, err := openAs(c, rendezvous.Protocol+1)
		if err != nil {
			t.Fatal(err)
		}
		defer g.close()
		_, _ = g.list.Join([]string{at})
		eventually(t, 5*time.Second, func() bool { return g.stranger() != "" }, func() string { return "no word of the other protocol" })
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
		t.Fatal("the stranger is not told")
	}
}

// TestTrouble: who waits learns why no endpoint answers.
func TestTrouble(t *testing.T) {
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
		{"nobody there", free, "refused", -1},
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
			c.Serves = tt.serves
			a := open(t, c)
			eventually(t, 10*time.Second, func() bool { return strings.Contains(a.peers().Trouble, tt.text) }, func() string {
				return fmt.Sprintf("trouble is %q, want %q", a.peers().Trouble, tt.text)
			})
			if a.g.Serves() >= 0 {
				t.Error("it serves an endpoint whose port is taken")
			}
			began := time.Now()
			a.stop()
			if d := time.Since(began); d > 2*time.Second {
				t.Errorf("the end took %v", d)
			}
		})
	}
}

func TestPorts(t *testing.T) {
	t.Run("one of the range", func(t *testing.T) {
		used := open(t, config(1))
		free := freePort(t, "127.0.0.1")
		_, p, _ := net.SplitHostPort(free)
		c := config(1)
		var port int
		_, _ = fmt.Sscan(p, &port)
		c.Ports = func() []int { return []int{used.g.Port(), port} }
		if a := open(t, c); a.g.Port() != port {
			t.Errorf("port %d, not %d", a.g.Port(), port)
		}
	})
	t.Run("all taken", func(t *testing.T) {
		used := open(t, config(1))
		c := config(1)
		c.Ports = func() []int { return []int{used.g.Port()} }
		if _, err := Open(c); err == nil || !strings.Contains(err.Error(), "cannot open a gossip port on 127.0.0.1") {
			t.Errorf("%v", err)
		}
	})
	t.Run("no such address", func(t *testing.T) {
		c := config(1)
		c.Bind = "192.0.2.1"
		if _, err := Open(c); err == nil || !strings.Contains(err.Error(), syscall.EADDRNOTAVAIL.Error()) {
			t.Errorf("%v", err)
		}
	})
}

// TestGarbage: noise at an agent's ports changes nothing.
func TestGarbage(t *testing.T) {
	at := freePort(t, "127.0.0.1")
	boss := config(1, at)
	boss.Serves = 0
	a, b := open(t, boss), open(t, config(2, at))
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

func FuzzDecodeMeta(f *testing.F) {
	good, err := meta{Protocol: 1, Run: "r", Name: "n", Control: "127.0.0.1:1", Endpoint: 2}.encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add([]byte(`{"e":-1}`))
	f.Add([]byte(`null`))
	f.Add([]byte(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := decodeMeta(b)
		if err != nil {
			return
		}
		if len(m.Run) > 512 || len(m.Name) > 512 || len(m.Control) > 512 {
			t.Errorf("%+v is longer than what it came from", m)
		}
		if strings.ContainsFunc(m.Name+m.Control, func(r rune) bool { return r < ' ' || r == 127 }) {
			t.Errorf("%+v reaches a terminal", m)
		}
		_ = m.peer("x")
	})
}

func TestMetaFits(t *testing.T) {
	for _, word := range []string{"a", "\u00e9", "\"", "<", "\u2028", "\xff"} {
		long := strings.Repeat(word, 2000)
		for _, run := range []string{word, long} {
			b, err := meta{Protocol: 1, Run: shortRun(run), Name: long, Control: "[2001:db8:ffff:ffff:ffff:ffff:ffff:ffff%eth0]:65535"}.encode()
			if err != nil {
				t.Fatal(err)
			}
			m, err := decodeMeta(b)
			if err != nil || m.Run != shortRun(run) {
				t.Errorf("%q came back as %q (%v)", shortRun(run), m.Run, err)
			}
			if shortRun(run) == shortRun(run+"x") {
				t.Errorf("run ids %.10q and %.10q... look the same", run, run+"x")
			}
		}
	}
}

// BenchmarkStart64 is the cost of 64 agents that start at once in one process.
func BenchmarkStart64(b *testing.B) {
	for b.Loop() {
		start64(b)
	}
}

func start64(b *testing.B) {
	const n = 64
	gs := make([]*Gossip, n)
	at := freePort(b, "127.0.0.1")
	for i := range gs {
		c := config(1+i, at)
		if i == 0 {
			c.Serves = 0
		}
		g, err := Open(c)
		if err != nil {
			b.Fatal(err)
		}
		gs[i] = g
	}
	var wg sync.WaitGroup
	for _, g := range gs[1:] {
		wg.Go(func() {
			if err := g.ask(b.Context(), at); err != nil {
				b.Error(err)
			}
		})
	}
	wg.Wait()
	for _, g := range gs { // everyone can reach the endpoint's agent, and that one knows all
		eventually(b, 10*time.Second, func() bool { return g == gs[0] && len(g.snapshot().All) == n || g.served() }, func() string {
			return fmt.Sprintf("the endpoint's agent sees %d of %d", len(gs[0].snapshot().All), n)
		})
	}
	b.StopTimer()
	for _, g := range gs {
		_ = g.list.Shutdown()
	}
	b.StartTimer()
}
