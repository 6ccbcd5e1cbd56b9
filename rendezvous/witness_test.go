package rendezvous

import (
	"testing"
	"time"
)

// TestSpareAsksAnyAgent checks a spare after the loss of the coordinator, which served
// the only endpoint. The present coordinator may not know this spare.
func TestSpareAsksAnyAgent(t *testing.T) {
	now := time.Unix(0, 0)
	self := Node{ID: "spare", RunID: "r", Protocol: Protocol, Addr: "a", Control: "spare:1", Workers: 1, NodeRank: -1, Endpoint: -1, Min: 2, Max: 2}
	m := New(Config{
		Self: self, Endpoints: 1, Where: "here", Takeover: true,
		Timeouts: Timeouts{Join: time.Minute, LastCall: time.Second, Rejoin: 10 * time.Second, Retry: 50 * time.Millisecond}, Token: func() string { return "token" },
	}, now)
	dials := func(e Event) []string {
		t.Helper()
		var out []string
		for _, c := range m.Step(now, e) {
			if d, ok := c.(Dial); ok {
				out = append(out, d.Addr)
			}
		}
		return out
	}
	expect := func(e Event, want string) {
		t.Helper()
		got := dials(e)
		if want == "" && len(got) > 0 || want != "" && (len(got) != 1 || got[0] != want) {
			t.Fatalf("after %+v: dials %q, want %q", e, got, want)
		}
	}
	member := Peer{ID: "member", Control: "member:1", Endpoint: -1}
	all := []Peer{{ID: "first", Control: "first:1", Endpoint: 0}, member, {ID: "spare", Control: "spare:1", Endpoint: -1}}
	expect(Ready{}, "")
	expect(Peers{All: all}, "first:1")
	expect(Dialed{Addr: "first:1", Conn: 1}, "")
	expect(Received{Conn: 1, Msg: Message{Type: MsgStatus, Status: &Status{Phase: roundRunning.String()}}}, "")
	expect(Closed{Conn: 1, Text: "broken"}, "member:1")
	expect(Dialed{Addr: "member:1", Conn: 2}, "")
	expect(Received{Conn: 2, Msg: Message{Type: MsgRedirect, Addr: "next:1"}}, "next:1")
	expect(DialFailed{Addr: "next:1", Refused: true}, "")
	now = now.Add(50 * time.Millisecond)
	expect(Tick{}, "first:1")
	expect(DialFailed{Addr: "first:1", Refused: true}, "")
	now = now.Add(statusEvery)
	expect(Peers{All: []Peer{member}}, "member:1")
}
