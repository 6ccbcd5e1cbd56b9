package e2e_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/gorun/gorun/rendezvous"
	"github.com/gorun/gorun/rendezvous/control"
	"github.com/hashicorp/memberlist"
)

// otherProtocol is a version that this gorun does not speak.
const otherProtocol = rendezvous.Protocol + 98

// TestOtherProtocolOnControlPlane checks that the control plane refuses an agent of
// another version and says why. The job waits on for the right one.
func TestOtherProtocolOnControlPlane(t *testing.T) {
	t.Parallel()
	j := newJob(t)
	first := j.node(1, "2", sh("exit 0")...)
	first.waitForStderr("have 1 of 2 nodes")
	refused := 0
	for _, at := range portsOf(t, first.pid()).tcp {
		if text := j.hello(at); text != "" {
			refused++
			for _, want := range []string{fmt.Sprint("protocol ", otherProtocol), fmt.Sprint(rendezvous.Protocol), "gorun 9.9"} {
				if !strings.Contains(text, want) {
					t.Errorf("no %q in the refusal: %s", want, text)
				}
			}
		}
	}
	if refused != 1 {
		t.Errorf("%d ports refused the hello, want the one of the control plane", refused)
	}
	j.wantExit(longWait, 0, j.node(2, "2", sh("exit 0")...), first)
}

// hello says hello with another protocol and returns the refusal; "" if no agent at that
// port speaks gorun's protocol.
func (j *job) hello(at netip.AddrPort) string {
	j.Helper()
	events := make(chan rendezvous.Event, 16)
	plane := control.New(control.Options{
		Interval: 100 * time.Millisecond, Silence: shortWait, Dial: shortWait,
		Post: func(e rendezvous.Event) { events <- e },
	})
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan struct{})
	go func() {
		defer close(served)
		plane.Serve(ctx, nil)
	}()
	defer func() {
		cancel()
		<-served
	}()
	plane.Dial(ctx, at.String())
	for {
		var event rendezvous.Event
		select {
		case event = <-events:
		case <-time.After(shortWait):
			j.Errorf("%v answers nothing", at)
			return ""
		}
		switch e := event.(type) {
		case rendezvous.Dialed:
			plane.Send(e.Conn, rendezvous.Message{Type: rendezvous.MsgHello, Node: &rendezvous.Node{
				ID: "old", RunID: j.id, Protocol: otherProtocol, Version: "9.9", Host: "old", Workers: 1,
				NodeRank: -1, Endpoint: -1, Min: 2, Max: 2,
			}})
		case rendezvous.DialFailed, rendezvous.Closed:
			return ""
		case rendezvous.Received:
			if e.Msg.Type == rendezvous.MsgRefuse {
				return e.Msg.Text
			}
		}
	}
}

// TestOtherProtocolAtEndpoint checks that if an agent of another version serves the
// endpoint, gorun says so.
func TestOtherProtocolAtEndpoint(t *testing.T) {
	t.Parallel()
	j := newJob(t)
	j.serveEndpoint(fmt.Sprintf(`{"p":%d,"r":%q,"n":"old","c":"127.0.0.1:9","e":0}`, otherProtocol, j.id))
	a := j.node(2, "2", sh("exit 0")...)
	j.wantExit(longWait, 75, a)
	j.wantCause(j.agents, j.endpoint, fmt.Sprint("protocol ", otherProtocol), fmt.Sprint("speaks ", rendezvous.Protocol))
}

// TestNoGorunAtEndpoint checks that if a program that is not gorun serves the endpoint,
// gorun says so.
func TestNoGorunAtEndpoint(t *testing.T) {
	t.Parallel()
	j := newJob(t)
	j.serveEndpoint("consul")
	a := j.node(2, "2", sh("exit 0")...)
	j.wantExit(longWait, 75, a)
	j.wantCause(j.agents, j.endpoint, "not gorun")
}

// TestStrangersInGossip checks that strangers that join the gossip do not disturb the
// job.
func TestStrangersInGossip(t *testing.T) {
	t.Parallel()
	j := newJob(t)
	first := j.node(1, "2", sh(untilGo)...)
	first.waitForStderr("have 1 of 2 nodes")
	for i, meta := range []string{
		"", "consul", `{"p":99}`, strings.Repeat("[", 500), `{"p":1,"r":"other","n":"x","c":"127.0.0.1:9","e":0}`,
	} {
		list, err := j.gossip(meta, fmt.Sprintf("127.0.0.%d:0", 10+i))
		if err != nil {
			t.Fatal(err)
		}
		_, _ = list.Join([]string{j.endpoint})
	}
	second := j.node(2, "2", sh(untilGo)...)
	second.waitForStdout("up", 1)
	j.touch("go")
	j.wantExit(longWait, 0, first, second)
}

// serveEndpoint makes a stranger serve the job's endpoint.
func (j *job) serveEndpoint(meta string) {
	j.Helper()
	list, err := j.gossip(meta, "127.0.0.1:0")
	if err != nil {
		j.Fatal(err)
	}
	j.endpoint = list.LocalNode().Address()
}

// gossip makes a member of memberlist with meta as its metadata.
func (j *job) gossip(meta, at string) (*memberlist.Memberlist, error) {
	j.Helper()
	addr := netip.MustParseAddrPort(at)
	c := memberlist.DefaultLANConfig()
	c.Name = "stranger at " + at
	c.BindAddr, c.BindPort = addr.Addr().String(), int(addr.Port())
	c.AdvertiseAddr, c.AdvertisePort = c.BindAddr, c.BindPort
	c.Logger = log.New(io.Discard, "", 0)
	c.Delegate = metadata(meta)
	c.EnableCompression = !strings.HasPrefix(meta, "{") // what is no gorun does, by default
	list, err := memberlist.Create(c)
	if err != nil {
		return nil, err
	}
	j.Cleanup(func() { _ = list.Shutdown() })
	return list, nil
}

// metadata is a memberlist delegate that only has metadata.
type metadata string

func (s metadata) NodeMeta(int) []byte           { return []byte(s) }
func (metadata) NotifyMsg([]byte)                {}
func (metadata) GetBroadcasts(int, int) [][]byte { return nil }
func (metadata) LocalState(bool) []byte          { return nil }
func (metadata) MergeRemoteState([]byte, bool)   {}
