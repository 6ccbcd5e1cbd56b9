package rendezvous

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// waiting makes a coordinator that waits for n nodes, and seats members 1 to came.
func waiting(t *testing.T, n, came int) *testJob {
	t.Helper()
	c := &testJob{t: t, m: coordinating(t, n-1, n), now: time.Unix(0, 0), least: n, most: n, silent: map[Conn]bool{}, seals: true}
	c.m.cfg.LastCall, c.m.cfg.Join = 10*time.Second, 10*time.Minute
	for i := range came {
		c.join(i + 1)
	}
	c.log = nil
	return c
}

// sendUnfitHello says hello with another --nnodes than the job's.
func (c *testJob) sendUnfitHello(conn Conn, change func(*Node)) {
	c.t.Helper()
	n := seatNode(int(conn), c.most, c.least)
	n.Min, n.Max = c.least, c.most+1
	if change != nil {
		change(&n)
	}
	c.step(Received{conn, Message{Type: MsgHello, Node: &n}})
}

// refusedTo returns the lines about refused nodes that a waiting member got last.
func (c *testJob) refusedTo(i int) []string {
	all := c.sentTo(i, MsgStatus)
	if len(all) == 0 {
		return nil
	}
	return all[len(all)-1].Status.Refused
}

func TestEveryWaitingNodeNamesTheRefused(t *testing.T) {
	c := waiting(t, 4, 2)
	c.sendUnfitHello(3, nil)
	for _, i := range []int{1, 2} {
		if got := c.refusedTo(i); len(got) != 1 || !strings.Contains(got[0], "n3") || !strings.Contains(got[0], "--nnodes") {
			t.Errorf("member %d gets at once: %q", i, got)
		}
	}
	if !strings.Contains(c.notes(), "n3") {
		t.Errorf("this node's person reads %q", c.notes())
	}
	m, conn := states()["member"]()
	st := &Status{Phase: "forming", Refused: c.refusedTo(1)}
	shown := 0
	for range 3 {
		for _, cmd := range m.Step(m.now, Received{conn, Message{Type: MsgStatus, Status: st}}) {
			if n, ok := cmd.(Note); ok && n.Text == st.Refused[0] {
				shown++
			}
		}
	}
	if shown != 1 {
		t.Errorf("a member shows it %d times", shown)
	}
}

func TestIncompleteJobEnds(t *testing.T) {
	for _, tt := range []struct {
		name string
		came int
		odd  func(*Node)
		ends bool
	}{
		{"the last node was refused", 2, nil, true},
		{"another one may still come", 1, nil, false},
		{"a node of another run was refused", 2, func(n *Node) { n.RunID = "another" }, false},
		{"one that is not valid was refused", 2, func(n *Node) { n.Workers = -1 }, false},
		{"of another gorun", 2, func(n *Node) { n.Protocol++ }, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := waiting(t, 4, tt.came)
			c.sendUnfitHello(3, tt.odd)
			c.advance(c.m.cfg.LastCall - time.Second)
			if c.m.coord.round.state != roundForming {
				t.Fatalf("no time to correct it: %s", c.m.coord.round.state)
			}
			c.advance(time.Second)
			if !tt.ends {
				if c.m.coord.round.state != roundForming {
					t.Fatalf("phase %s", c.m.coord.round.state)
				}
				return
			}
			c.ended(ExitRendezvous, 1, 2)
			if cause := c.m.coord.job.outcome.Cause; !strings.Contains(cause.Message, "n3") {
				t.Errorf("the cause does not name the node: %s", cause.Message)
			}
		})
	}
}

func TestRefusedNodeReturns(t *testing.T) {
	c := waiting(t, 4, 2)
	c.sendUnfitHello(3, nil)
	c.advance(c.m.cfg.LastCall / 2)
	c.join(3)
	c.advance(c.m.cfg.LastCall)
	c.runs(0, 0, "id0 id1 id2 id3")
}

// TestRefusedWhileWorkersRun checks that a later round does not lack a node that was
// refused while workers ran.
func TestRefusedWhileWorkersRun(t *testing.T) {
	c := waiting(t, 3, 2)
	c.runs(0, 0, "id0 id1 id2")
	c.sendUnfitHello(7, nil)
	c.lose(2)
	c.advance(2 * c.m.cfg.LastCall)
	if c.m.coord.round.state != roundForming {
		t.Fatalf("the job does not wait for the lost node: %s", c.m.coord.round.state)
	}
	c.join(3)
	c.runs(1, 1, "id0 id1 id3")
}

func TestRefusalsAreBounded(t *testing.T) {
	c := waiting(t, 4, 2)
	for i := range 300 {
		c.sendUnfitHello(Conn(100+i), func(n *Node) { n.Host = fmt.Sprint("stranger", i); n.RunID = "another" })
	}
	if got := len(c.refusedTo(1)); got > maxRefused {
		t.Errorf("%d refusals are shown", got)
	}
	for _, n := range all[Note](c) {
		if n.Kind == "" {
			t.Errorf("a line that the agent does not count: %s", n.Text)
		}
	}
}

// TestFoundOnly checks that both sides name a port that a firewall closes between nodes
// that have found each other.
func TestFoundOnly(t *testing.T) {
	c := waiting(t, 4, 1)
	found := Peers{All: []Peer{
		{ID: "id0", Name: "n0", Control: "c0", Endpoint: 0},
		{ID: "id1", Name: "n1", Control: "c1", Endpoint: -1},
		{ID: "id2", Name: "n2", Control: "c2", Endpoint: -1},
	}}
	c.m.Step(c.now, found)
	if note := c.m.coord.status().Note; note != "" {
		t.Errorf("at once: %q", note)
	}
	c.m.Step(c.now.Add(connectTime), found)
	if note := c.m.coord.status().Note; !strings.HasPrefix(note, "found, but not connected to c0: n2;") || !strings.Contains(note, "--port-range") {
		t.Errorf("after %v: %q", connectTime, note)
	}

	m, _ := states()["seeking"]()
	fail := func() string {
		m.mem.link.dialing = "c0"
		m.Step(m.now, DialFailed{Addr: "c0", Text: "dial: timeout"})
		return m.searchStatus().Note
	}
	m.Step(m.now, found)
	if note := fail(); note != "dial: timeout" {
		t.Errorf("at once: %q", note)
	}
	m.Step(m.now.Add(connectTime), found)
	if note := fail(); !strings.HasPrefix(note, "found n0, but its port does not let this node in: dial: timeout;") || !strings.Contains(note, "--port-range") {
		t.Errorf("after %v: %q", connectTime, note)
	}
}
