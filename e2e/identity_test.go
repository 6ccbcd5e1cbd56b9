package e2e_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorun/gorun/rendezvous"
	"github.com/gorun/gorun/rendezvous/control"
	"github.com/gorun/gorun/rendezvous/gossip"
)

// members asks gossip for the agents of the job, as any stranger may.
func (j *job) members(n int) (peers []rendezvous.Peer) {
	j.Helper()
	g, err := gossip.Open(gossip.Config{
		ID: rendezvous.NewIdentity().ID(), Name: "stranger", RunID: j.id, Control: "127.0.0.9:9", Bind: "127.0.0.9", Advertise: "127.0.0.9",
		Endpoints: gossip.Endpoints{List: []string{j.endpoint}, Serves: -1}, Ports: func() []int { return []int{0} },
	})
	if err != nil {
		j.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), longWait)
	defer cancel()
	_ = g.Run(ctx, func(p rendezvous.Peers) {
		peers = nil
		for _, p := range p.All {
			if p.Name != "stranger" {
				peers = append(peers, p)
			}
		}
		if len(peers) == n {
			cancel()
		}
	})
	if len(peers) != n {
		j.Fatalf("gossip lists %v, not %d members", peers, n)
	}
	return peers
}

// helloAs says hello to a coordinator with the given id, and returns the answer.
func (j *job) helloAs(coordinator string, id rendezvous.NodeID) (refusal string) {
	j.Helper()
	events := make(chan rendezvous.Event, 64)
	var plane *control.Plane
	plane = control.New(control.Options{
		Interval: time.Second, Silence: longWait, Dial: shortWait,
		Post: func(e rendezvous.Event) {
			if r, ok := e.(rendezvous.Received); ok {
				plane.Handled(r.Conn)
			}
			events <- e
		},
	})
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { plane.Serve(ctx, nil) })
	defer wg.Wait()
	defer cancel()
	plane.Dial(ctx, coordinator)
	for limit := time.After(shortWait); ; {
		select {
		case <-limit:
			return "nothing"
		case event := <-events:
			switch e := event.(type) {
			case rendezvous.Dialed:
				plane.Send(e.Conn, rendezvous.Message{Type: rendezvous.MsgHello, Node: &rendezvous.Node{
					ID: id, RunID: j.id, Protocol: rendezvous.Protocol, Version: "9.9", Host: "stranger", Addr: "127.0.0.9",
					Control: "127.0.0.9:9", Workers: 1, NodeRank: -1, Endpoint: -1, Min: 2, Max: 2,
				}})
			case rendezvous.Received:
				return fmt.Sprint(e.Msg.Type, ": ", e.Msg.Text)
			case rendezvous.Closed:
				return "closed"
			}
		}
	}
}

// TestIDAloneIsRefused checks that a stranger that knows a member's id cannot take its
// place.
func TestIDAloneIsRefused(t *testing.T) {
	t.Parallel()
	j := newJob(t, "--preflight", "off")
	agents := j.nodes(2, sh(untilGo)...)
	for _, a := range agents {
		a.waitForStdout("up", 1)
	}
	peers := j.members(2)
	coordinator, target := peers[0], peers[1]
	if coordinator.Endpoint < 0 {
		coordinator, target = target, coordinator
	}
	if answer := j.helloAs(coordinator.Control, target.ID); !strings.HasPrefix(answer, "refuse: it does not prove") {
		t.Errorf("the answer is %q", answer)
	}
	agents[0].waitForStderr("refused stranger (127.0.0.9): it does not prove that the id")
	j.touch("go")
	j.wantExit(longWait, 0, agents...)
}

// TestRefusalLinesAreLimited checks that however many hellos an agent refuses, it prints
// at most one line a second about them.
func TestRefusalLinesAreLimited(t *testing.T) {
	t.Parallel()
	j := newJob(t)
	first := j.node(1, "2", sh("exit 0")...)
	first.waitForStderr("have 1 of 2 nodes")
	at := j.members(1)[0].Control
	began := time.Now()
	var wg sync.WaitGroup
	for range 10 {
		wg.Go(func() {
			for range 30 {
				if answer := j.helloAs(at, "stranger"); !strings.HasPrefix(answer, "refuse") {
					t.Errorf("the answer is %q", answer)
				}
			}
		})
	}
	wg.Wait()
	if n, most := strings.Count(first.err.String(), "refused stranger"), 2+int(time.Since(began)/time.Second); n > most {
		t.Errorf("%d lines in %v", n, time.Since(began))
	}
	j.wantExit(longWait, 0, j.node(2, "2", sh("exit 0")...), first)
	if !strings.Contains(first.err.String(), "more like that)") {
		t.Errorf("it does not say how many there were: %s", first.err)
	}
}
