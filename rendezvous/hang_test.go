package rendezvous

import (
	"testing"
	"time"
)

// hangs returns a running coordinator of three nodes whose round hangs.
func hangs(t *testing.T, restarts int, stop, final bool) (*Machine, []Command) {
	t.Helper()
	m := runs(t, 2, 3)
	m.coord.job.maxRestarts = restarts
	c := Cause{Kind: KindHang, Rank: 1, LocalRank: 0, Message: "rank 1 never entered barrier 3", Hang: Hang{Ranks: []int{1}, Collective: "barrier 3", Final: final}}
	return m, m.Step(m.now, Hung{Round: 0, Cause: &c, Stop: stop})
}

// TestSuspicionReachesTheCoordinator checks the way of a suspicion, from other nodes and
// from the coordinator's own.
func TestSuspicionReachesTheCoordinator(t *testing.T) {
	m := runs(t, 2, 3)
	investigations := func(cmds []Command) (n int) {
		for _, c := range cmds {
			if _, ok := c.(Investigate); ok {
				n++
			}
		}
		return n
	}
	for name, e := range map[string]Event{"another node's": Received{1, Message{Type: MsgSuspect, Round: 0}}, "its own": Suspect{Round: 0}} {
		if n := investigations(m.Step(m.now, e)); n != 1 {
			t.Errorf("%s: %d investigations", name, n)
		}
	}
	if n := investigations(m.Step(m.now, Suspect{Round: 1})); n != 0 {
		t.Errorf("another round's: %d investigations", n)
	}
	member, _ := states()["working"]()
	if got := sent(member.Step(member.now, Suspect{Round: 0}), MsgSuspect); len(got) != 1 {
		t.Errorf("a member sent %+v", got)
	}
	if got := member.Step(member.now, Hung{Round: 0, Cause: &Cause{Kind: KindHang}, Stop: true}); len(got) != 0 {
		t.Errorf("a member ends the round: %v", got)
	}
}

// TestHangThatStops checks that a hang ends the round on all nodes, with its exit code, and
// that a restart follows if one is left and the hang is not final.
func TestHangThatStops(t *testing.T) {
	for name, tt := range map[string]struct {
		restarts int
		final    bool
		state    roundState
	}{
		"restart":          {2, false, roundForming},
		"no restart left":  {0, false, roundDecided},
		"restarts refused": {2, true, roundDecided},
	} {
		t.Run(name, func(t *testing.T) {
			m, cmds := hangs(t, tt.restarts, true, tt.final)
			if got := sent(cmds, MsgAbort); len(got) != 2 || got[0].Cause.Kind != KindHang || got[0].Cause.Collective != "barrier 3" {
				t.Fatalf("%+v", got)
			}
			for i := 1; i <= 2; i++ {
				m.Step(m.now, Received{Conn(i), Message{Type: MsgOver, Round: 0}})
			}
			m.Step(m.now, Over{Round: 0})
			if m.coord.round.state != tt.state && !(tt.state == roundForming && m.coord.round.isOffering()) {
				t.Errorf("the round is %s", m.coord.round.state)
			}
			if o := m.coord.job.outcome; tt.state == roundDecided && (o == nil || o.Code != ExitHang || o.Cause.Kind != KindHang) {
				t.Errorf("%+v", o)
			}
		})
	}
}

// TestHangThatGoesOn checks that a hang that ends no round is told to all nodes, and is the
// cause of what the waiting workers do then, but neither of an order nor of a lost node.
func TestHangThatGoesOn(t *testing.T) {
	for name, tt := range map[string]struct {
		failure  Cause
		takeBack bool
		want     Kind
	}{
		"a watchdog ends a worker": {Cause{Kind: KindSignal, Signal: 6, Rank: 2}, false, KindHang},
		"the hang was none":        {Cause{Kind: KindSignal, Signal: 6, Rank: 2}, true, KindSignal},
		"Ctrl-C":                   {Cause{Kind: KindStopped, Signal: 2, Rank: -1}, false, KindStopped},
		"a lost node":              {Cause{Kind: KindLost, Rank: -1}, false, KindLost},
	} {
		t.Run(name, func(t *testing.T) {
			m, cmds := hangs(t, 0, false, false)
			if got := sent(cmds, MsgNotice); len(got) != 2 || got[0].Text != "rank 1 never entered barrier 3" || len(sent(cmds, MsgAbort)) != 0 {
				t.Fatalf("%+v", cmds)
			}
			if tt.takeBack {
				m.Step(m.now, Hung{Round: 0})
			}
			tt.failure.Node, tt.failure.LocalRank = "id2", -1
			m.Step(m.now.Add(time.Minute), Received{2, Message{Type: MsgFailed, Round: 0, Failures: []Cause{tt.failure}}})
			for i := 1; i <= 2; i++ {
				m.Step(m.now, Received{Conn(i), Message{Type: MsgOver, Round: 0}})
			}
			m.Step(m.now, Over{Round: 0})
			o := m.coord.job.outcome
			if o == nil || o.Cause.Kind != tt.want {
				t.Fatalf("%+v", o)
			}
			if hang := o.Failures[0].Kind == KindHang; hang == tt.takeBack {
				t.Errorf("failures %+v", o.Failures)
			}
		})
	}
}
