package rendezvous

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestStopAtEveryPhase checks that a signal ends an agent in bounded time, in every
// state.
func TestStopAtEveryPhase(t *testing.T) {
	for name, state := range states() {
		for _, kill := range []bool{false, true} {
			t.Run(fmt.Sprint(name, kill), func(t *testing.T) {
				m, c := state()
				var finish *Outcome
				play := func(now time.Time, e Event) {
					queue := []Event{e}
					for len(queue) > 0 {
						cmds := m.Step(now, queue[0])
						queue = queue[1:]
						for _, cmd := range cmds {
							switch cmd := cmd.(type) {
							case Stop:
								queue = append(queue, Over{Round: cmd.Round})
							case Dial:
								queue = append(queue, DialFailed{Addr: cmd.Addr, Refused: true, Text: "refused"})
							case Finish:
								finish = &cmd.Outcome
							}
						}
					}
				}
				cause := m.nodeCause(KindStopped, "")
				cause.Signal = 15
				play(m.now, StopJob{Cause: cause, Kill: kill})
				m.now = m.now.Add(time.Millisecond)
				play(m.now, DialFailed{Addr: "c9", Refused: true})
				play(m.now, Over{}) // of a stop that was on its way
				for _, c := range []Conn{c, 9} {
					play(m.now, Closed{Conn: c, Text: "ended"})
				}
				for end := m.now.Add(30 * time.Second); finish == nil; {
					next := m.Next()
					if next.IsZero() || next.After(end) {
						t.Fatalf("not finished after 30 s (work %d, next %v)", m.mem.work.state, next)
					}
					play(next, Tick{})
				}
				want := 143
				if name == "recovering" || name == "lost" { // it had failed before
					want = ExitLost
				}
				if finish.Code != want {
					t.Errorf("ended with %d, want %d (%s)", finish.Code, want, causeLine(finish.Cause))
				}
			})
		}
	}
}

// TestPrimaryCause checks that a worker that fell over because a peer was lost is
// never named while another failure is known.
func TestPrimaryCause(t *testing.T) {
	m := runs(t, 2, 3)
	fail := func(i int, consequence bool, age time.Duration) []Command {
		return m.Step(m.now, Received{Conn(i), Message{Type: MsgFailed, Failures: []Cause{{
			Kind: KindExit, Node: NodeID(fmt.Sprint("id", i)), Rank: i, ExitCode: 10 + i, Consequence: consequence, Age: age,
		}}}})
	}
	got := sent(fail(1, true, time.Second), MsgAbort)
	fail(2, false, 0)
	if len(got) == 0 {
		t.Fatal("no abort")
	}
	if c := m.coord.round.firstCause(); c.Rank != 2 {
		t.Errorf("the cause is rank %d", c.Rank)
	}
}

// TestFirstCause checks that the error files order the failures of one node, and the ends
// those of several, and that what another failure explains is not the cause.
func TestFirstCause(t *testing.T) {
	at := func(node, rank, second int) Cause {
		return Cause{Kind: KindExit, Node: NodeID(fmt.Sprint("id", node)), Rank: rank, ErrorTime: time.Unix(int64(second), 0)}
	}
	silent := Cause{Kind: KindSignal, Node: "id1", Rank: 4}
	for _, tt := range []struct {
		name     string
		failures []Cause // in the order of the ends
		want     int
	}{
		{"one node", []Cause{at(1, 1, 20), at(1, 2, 10), at(1, 3, 10)}, 2},
		{"the same second", []Cause{at(1, 2, 10), at(1, 1, 10)}, 2},
		{"two nodes", []Cause{at(1, 1, 20), at(2, 2, 10)}, 1},
		{"a worker without a file", []Cause{silent, at(1, 1, 10)}, 4},
		{"a closed connection", []Cause{{Node: "id1", Rank: 1, PeerClosed: true}, {Node: "id2", Rank: 2}}, 2},
		{"a closed connection and a consequence", []Cause{{Node: "id1", Rank: 1, Consequence: true}, {Node: "id2", Rank: 2, PeerClosed: true}}, 2},
	} {
		var r round
		now := time.Unix(100, 0)
		for i, f := range tt.failures {
			r.add(now.Add(time.Duration(i)*time.Millisecond), f)
		}
		if c := r.firstCause(); c.Rank != tt.want {
			t.Errorf("%s: the cause is rank %d, want %d", tt.name, c.Rank, tt.want)
		}
	}
}

// TestManyFailuresAreBounded checks that the earliest primary failures are kept.
func TestManyFailuresAreBounded(t *testing.T) {
	m := runs(t, 1, 2)
	for i := range 3 * maxFailures {
		m.coord.addFailures(Cause{Kind: KindExit, Rank: i, Consequence: i%2 == 0, Age: time.Duration(i)})
	}
	if n := len(m.coord.round.failures); n != maxFailures {
		t.Errorf("%d failures are kept", n)
	}
	if c := m.coord.round.firstCause(); c.Rank != 3*maxFailures-1 {
		t.Errorf("the cause is rank %d", c.Rank)
	}
}

// TestNodeThatLeavesEarly checks that the note says what the node did not wait for.
func TestNodeThatLeavesEarly(t *testing.T) {
	notes := func(m *Machine) (out string) {
		for _, c := range m.Step(m.now, Closed{Conn: 1, Text: "reset"}) {
			if n, ok := c.(Note); ok {
				out += n.Text
			}
		}
		return out
	}
	first := coordinating(t, 2, 3)
	hello(first, 1, 2, 3, nil)
	if got := notes(first); !strings.Contains(got, "left before the job started") {
		t.Errorf("before the first world: %q", got)
	}
	later := runs(t, 2, 3)
	later.Step(later.now, Closed{Conn: 2, Text: "reset"})
	later.Step(later.now, Over{Round: 0})
	later.Step(later.now, Received{1, Message{Type: MsgOver}})
	if got := notes(later); !strings.Contains(got, "left before the next round started") {
		t.Errorf("between two rounds (%s): %q", later.coord.round.state, got)
	}
}

func causeLine(c *Cause) string {
	if c == nil {
		return "success"
	}
	return c.Line()
}
