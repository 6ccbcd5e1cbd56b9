package meet

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/accept"
	"github.com/gorun/gorun/internal/porttest"
	"github.com/gorun/gorun/launch/spec"
	"github.com/gorun/gorun/rendezvous"
	"github.com/gorun/gorun/rendezvous/gossip"
	"github.com/gorun/gorun/rendezvous/secret"
	"github.com/gorun/gorun/rendezvous/tcpstore"
)

// recorder records what a Session reports.
type recorder struct {
	mu       sync.Mutex
	events   []rendezvous.Event
	failures []string // "kind: text"
	notes    []string // "kind: text"
	waits    []string
}

func (a *recorder) add(to *[]string, line string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	*to = append(*to, line)
}

// hasEvent reports whether an event came for which fit is true.
func (a *recorder) hasEvent(fit func(rendezvous.Event) bool) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.ContainsFunc(a.events, fit)
}

func (a *recorder) post(e rendezvous.Event) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.events = append(a.events, e)
}

// options returns the options of a node that meets others as n says.
func (a *recorder) options(n spec.Network, most int) Options {
	id := rendezvous.NewIdentity()
	n.Conf = spec.Conf{JoinTimeout: time.Minute, KeepAliveInterval: time.Second, KeepAliveMaxAttempt: 10}
	return Options{
		Network: n, Identity: id, Pool: accept.NewPool(accept.Bounds{}),
		Node: rendezvous.Node{ID: id.ID(), RunID: "run", Protocol: rendezvous.Protocol, Workers: 1, Endpoint: -1, Min: most, Max: most},
		Wait: func(ctx context.Context, what string, f func(context.Context) error) error {
			a.add(&a.waits, what)
			return f(ctx)
		},
		Post:        a.post,
		OnFailure:   func(k rendezvous.Kind, text string) { a.add(&a.failures, string(k)+": "+text) },
		Note:        func(kind, text string) { a.add(&a.notes, kind+": "+text) },
		CommandWith: func(flag, value string) string { return "gorun --" + flag + "=" + value },
	}
}

// runSession opens a session and runs it until the test ends.
func runSession(t *testing.T, o Options) (s *Session, end func()) {
	t.Helper()
	s, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.Run(ctx)
	}()
	end = func() {
		cancel(ErrOver)
		select {
		case <-done:
		case <-time.After(10 * time.Second):
			t.Error("the session does not end")
		}
	}
	t.Cleanup(end)
	return s, end
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for limit := time.Now().Add(10 * time.Second); !ok(); <-time.After(time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatal(what)
		}
	}
}

// reachable reports whether a port accepts connections.
func reachable(at string) bool {
	c, err := net.Dial("tcp", at)
	if err == nil {
		c.Close()
	}
	return err == nil
}

func TestAlone(t *testing.T) {
	tests := []struct {
		name   string
		n      spec.Network
		addr   string // address of the node
		master string // host of its store
		note   string
		err    string
	}{
		{"no address", spec.Network{}, "127.0.0.1", "127.0.0.1", "", ""},
		{"--local-addr", spec.Network{LocalAddr: "127.0.0.4"}, "127.0.0.4", "127.0.0.4", "", ""},
		{"no such --local-addr", spec.Network{LocalAddr: "no-such-host.invalid"}, "", "", "", "no-such-host.invalid"},
		{"--master-addr", spec.Network{MasterAddr: "127.0.0.7", MasterFrom: []string{"--master-addr"}}, "127.0.0.1", "127.0.0.7", "", ""},
		{"another machine's", spec.Network{MasterAddr: "192.0.2.7", MasterFrom: []string{"MASTER_ADDR"}}, "127.0.0.1", "127.0.0.1", ": MASTER_ADDR 192.0.2.7 is ignored", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a := &recorder{}
			tt.n.Backend = spec.Standalone
			o := a.options(tt.n, 1)
			if tt.err != "" {
				var usage *spec.UsageError
				if _, err := Open(t.Context(), o); !errors.As(err, &usage) || !strings.Contains(err.Error(), tt.err) {
					t.Errorf("%v, want %q", err, tt.err)
				}
				return
			}
			s, end := runSession(t, o)
			host, _, _ := net.SplitHostPort(s.Node.Store)
			if s.Store.Master() != "" {
				t.Errorf("rank 0 opens a store at %s", s.Store.Master())
			}
			if s.Node.Addr != tt.addr || host != tt.master || s.Streams != nil || s.Fence != nil || s.Config.Takeover || !reachable(s.Node.Store) {
				t.Errorf("%+v", s.Node)
			}
			if len(a.notes) > 0 != (tt.note != "") || tt.note != "" && !strings.HasPrefix(a.notes[0], tt.note) {
				t.Errorf("notes: %q", a.notes)
			}
			eventually(t, "it does not find itself", func() bool {
				return a.hasEvent(func(e rendezvous.Event) bool {
					p, ok := e.(rendezvous.Peers)
					return ok && len(p.All) == 1 && p.All[0].ID == s.Node.ID
				})
			})
			end()
			if reachable(s.Node.Store) {
				t.Error("the store outlives the session")
			}
		})
	}
}

// TestStoreOwner checks who opens the workers' store of a single node, and where.
func TestStoreOwner(t *testing.T) {
	port := porttest.Free(t, "127.0.0.1")
	taken := porttest.Free(t, "127.0.0.1")
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(taken)))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, tt := range []struct {
		name    string
		n       spec.Network
		port    int // of the agent's store; 0: any
		rankOwn bool
	}{
		{"near", spec.Network{MasterPort: port, StoreOwner: spec.AgentNearPort}, port, false},
		{"near a taken one", spec.Network{MasterPort: taken, StoreOwner: spec.AgentNearPort}, 0, false},
		{"near, in a range", spec.Network{MasterPort: taken, StoreOwner: spec.AgentNearPort, Ports: spec.PortRange{Lo: port, Hi: port}}, port, false},
		{"at", spec.Network{MasterPort: port}, port, false},
		{"rank 0", spec.Network{StoreOwner: spec.RankZero}, 0, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.n.Backend = spec.Standalone
			s, end := runSession(t, (&recorder{}).options(tt.n, 1))
			defer end()
			_, got, _ := net.SplitHostPort(s.Node.Store)
			if !reachable(s.Node.Store) || tt.port > 0 && got != strconv.Itoa(tt.port) || tt.port == 0 && got == strconv.Itoa(taken) {
				t.Errorf("the agent's store is at %s, want port %d", s.Node.Store, tt.port)
			}
			if master := s.Store.Master(); (master != "") != tt.rankOwn || master == s.Node.Store {
				t.Errorf("rank 0 opens %q", master)
			}
		})
	}
	o := (&recorder{}).options(spec.Network{Backend: spec.Standalone, MasterPort: taken}, 1)
	if _, err := Open(t.Context(), o); err == nil {
		t.Error("a port that the user named and that is taken is no error")
	}
}

// TestGossip checks that two nodes find each other, one of them by the endpoint
// that the other one announces.
func TestGossip(t *testing.T) {
	announced := make(chan string, 1)
	var agents [2]recorder
	var sessions [2]*Session
	for i := range sessions {
		o := agents[i].options(spec.Network{Backend: spec.Gossip}, 2)
		o.Local.Addr = fmt.Sprintf("127.0.0.%d", i+1)
		if i == 0 {
			o.Local.Announce = func(at string) { announced <- at }
		} else {
			o.Local.Endpoint = func(context.Context) (string, error) { return <-announced, nil }
		}
		sessions[i], _ = runSession(t, o)
	}
	for i, s := range sessions {
		other := sessions[1-i].Node
		eventually(t, "a node does not see the other one", func() bool {
			return agents[i].hasEvent(func(e rendezvous.Event) bool {
				p, ok := e.(rendezvous.Peers)
				return ok && slices.ContainsFunc(p.All, func(p rendezvous.Peer) bool { return p.ID == other.ID && p.Control == other.Control })
			})
		})
		if !s.Config.Takeover || s.Config.Endpoints != 1 || s.Node.Endpoint != -i || s.Config.Fenced {
			t.Errorf("node %d: %+v serves %d", i, s.Config, s.Node.Endpoint)
		}
	}
	if want := []string{"waiting for the endpoint of this machine's first node", "looking up 127.0.0.1"}; !slices.Equal(agents[1].waits, want) {
		t.Errorf("waits: %q", agents[1].waits)
	}
}

// TestStatic checks that the one port that the user named serves streams and store.
func TestStatic(t *testing.T) {
	n := spec.Network{Backend: spec.Static, MasterPort: porttest.Free(t, "127.0.0.1"), MasterFrom: []string{"--master-addr", "--master-port"}}
	n.Endpoints = []spec.Endpoint{{Host: "127.0.0.1", Port: n.MasterPort}}
	at := n.Endpoints[0].String()
	var first, second recorder
	master, _ := runSession(t, first.options(n, 2))
	if master.Node.Control != at || master.Node.Store != at || master.Config.Takeover || master.Config.Flags != "--master-addr and --master-port" {
		t.Errorf("%+v, %+v", master.Node, master.Config)
	}
	o := second.options(n, 2)
	o.Node.NodeRank = 1
	other, _ := runSession(t, o)
	if other.Node.Store != "" || other.Node.Control != "" || other.Store.Server() != nil {
		t.Errorf("%+v", other.Node)
	}
	eventually(t, "it does not know the master", func() bool {
		return second.hasEvent(func(e rendezvous.Event) bool {
			p, ok := e.(rendezvous.Peers)
			return ok && len(p.All) == 1 && p.All[0].Control == at
		})
	})
	other.Streams.Dial(t.Context(), at)
	eventually(t, "it does not reach the master", func() bool {
		return second.hasEvent(func(e rendezvous.Event) bool { _, ok := e.(rendezvous.Dialed); return ok })
	})
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if _, err := tcpstore.Settled(ctx, at); err != nil {
		t.Error(err)
	}
}

// TestStaticPortTaken checks that the error has the user's own command with a free
// port.
func TestStaticPortTaken(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	a := &recorder{}
	n := spec.Network{Backend: spec.Static, MasterPort: l.Addr().(*net.TCPAddr).Port, MasterFrom: []string{"--master-addr", "--master-port"}}
	n.Endpoints = []spec.Endpoint{{Host: "127.0.0.1", Port: n.MasterPort}}
	_, err = Open(t.Context(), a.options(n, 2))
	if err == nil {
		t.Fatal("the port is taken, and there is no error")
	}
	_, value, ok := strings.Cut(err.Error(), "gorun --master-port=")
	if port, _ := strconv.Atoi(value); !ok || port <= n.MasterPort {
		t.Errorf("no command with another port: %v", err)
	}
}

func TestEtcdWithoutItsCertificate(t *testing.T) {
	a := &recorder{}
	n := spec.Network{Backend: spec.EtcdV3, Endpoints: []spec.Endpoint{{Host: "127.0.0.1", Port: 1}}}
	n.Etcd = spec.Etcd{TLS: true, CACert: filepath.Join(t.TempDir(), "none.pem"), TTL: 5 * time.Second}
	var usage *spec.UsageError
	if _, err := Open(t.Context(), a.options(n, 2)); !errors.As(err, &usage) {
		t.Errorf("%v", err)
	}
}

// TestOpenReturnsTheErrorOfAWait checks that Open returns the error of a wait that a signal ended.
func TestOpenReturnsTheErrorOfAWait(t *testing.T) {
	stop := errors.New("received SIGTERM")
	for _, b := range []spec.Backend{spec.Gossip, spec.EtcdV3, spec.Static, spec.Standalone} {
		a := &recorder{}
		n := spec.Network{Backend: b, LocalAddr: "127.0.0.1", Endpoints: []spec.Endpoint{{Host: "127.0.0.1", Port: 1}}}
		o := a.options(n, 2)
		o.Wait = func(context.Context, string, func(context.Context) error) error { return stop }
		if _, err := Open(t.Context(), o); !errors.Is(err, stop) {
			t.Errorf("%s: %v", b, err)
		}
	}
}

func TestReportFailure(t *testing.T) {
	for _, tt := range []struct {
		err       error
		kind      rendezvous.Kind
		elsewhere bool
	}{
		{errors.New("no port"), rendezvous.KindAgent, false},
		{&gossip.Foreign{Text: "another version"}, rendezvous.KindRendezvous, false},
		{&gossip.Foreign{Text: "another job", OtherJob: true}, rendezvous.KindRendezvous, true},
		{&gossip.PortTaken{Endpoint: "n:1"}, rendezvous.KindAgent, true},
		{&secret.Mismatch{At: "n:1"}, rendezvous.KindRendezvous, true},
		{fmt.Errorf("no more: %w", &backendError{errors.New("etcd does not answer")}), rendezvous.KindRendezvous, false},
	} {
		a := &recorder{}
		n := spec.Network{Backend: spec.Gossip, Endpoints: []spec.Endpoint{{Host: "127.0.0.1", Port: 1}}}
		s := &Session{opts: a.options(n, 2)}
		s.reportFailure(tt.err)
		if len(a.failures) != 1 || !strings.HasPrefix(a.failures[0], string(tt.kind)+": "+tt.err.Error()) || strings.Contains(a.failures[0], "gorun --rdzv-endpoint=127.0.0.1:") != tt.elsewhere {
			t.Errorf("%v: %q", tt.err, a.failures)
		}
	}
}

// TestOtherSecret checks that a static node that looks for the master ends, and
// that every other node reports each host once.
func TestOtherSecret(t *testing.T) {
	for _, tt := range []struct {
		name    string
		backend spec.Backend
		dialed  bool
		joined  bool
		quiet   bool
		failed  int
		refused int
	}{
		{name: "a static node looks for the master", backend: spec.Static, dialed: true, failed: 1},
		{name: "a quiet one, too", backend: spec.Static, dialed: true, quiet: true, failed: 1},
		{name: "another node comes to it", backend: spec.Static, refused: maxOtherSecrets},
		{name: "it has joined a world", backend: spec.Static, dialed: true, joined: true, refused: maxOtherSecrets},
		{name: "gossip", backend: spec.Gossip, dialed: true, refused: maxOtherSecrets},
		{name: "another agent of this machine reports it", backend: spec.Gossip, dialed: true, quiet: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := &recorder{}
			o := a.options(spec.Network{Backend: tt.backend, Endpoints: []spec.Endpoint{{Host: "127.0.0.1", Port: 1}}}, 2)
			o.OtherPrints = tt.quiet
			s := &Session{opts: o, otherSecrets: map[string]bool{}}
			if tt.joined {
				s.MarkJoined()
			}
			for i := range 3 * maxOtherSecrets {
				s.reportOtherSecret(fmt.Sprintf("192.0.2.%d", i/2), tt.dialed)
			}
			if len(a.failures) != tt.failed || len(a.events) != tt.refused {
				t.Errorf("failed %q, refused %d", a.failures, len(a.events))
			}
		})
	}
}
