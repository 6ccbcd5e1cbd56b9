package rendezvous

import (
	"encoding/json"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// testJob is a coordinator and members that play along. They accept what is proposed and
// stop their workers on request, unless they are silent.
type testJob struct {
	t      *testing.T
	m      *Machine
	now    time.Time
	least  int
	most   int
	silent map[Conn]bool
	seals  bool // the fence agrees to everything
	log    []Command
}

// newTestJob brings a coordinator and members 1 to n-1 into a round of a job of
// least to most nodes.
func newTestJob(t *testing.T, n, least, most int, set func(*Config)) *testJob {
	t.Helper()
	c := &testJob{t: t, m: coordinating(t, most-1, least), now: time.Unix(0, 0), least: least, most: most, silent: map[Conn]bool{}, seals: true}
	if set != nil {
		set(&c.m.cfg)
		c.m.coord.job.maxRestarts = c.m.cfg.MaxRestarts
	}
	for i := range n - 1 {
		c.join(i + 1)
	}
	c.advance(c.m.cfg.LastCall)
	if c.m.mem.work.state != workRunning {
		t.Fatalf("no round (%s)", c.m.coord.round.state)
	}
	c.log = nil
	return c
}

func elastic(cfg *Config) { cfg.Grow = true }
func fenced(cfg *Config)  { cfg.Fenced = true }

// step feeds an event and what the others answer to it, all at one instant.
func (c *testJob) step(e Event) {
	c.t.Helper()
	for queue := []Event{e}; len(queue) > 0; queue = queue[1:] {
		cmds := c.m.Step(c.now, queue[0])
		c.log = append(c.log, cmds...)
		for _, cmd := range cmds {
			switch cmd := cmd.(type) {
			case Stop:
				if !c.silent[Self] {
					queue = append(queue, Over{Round: cmd.Round})
				}
			case Seal:
				if c.seals {
					queue = append(queue, Sealed{Serial: cmd.Serial, OK: true})
				}
			case Send:
				msg := cmd.Msg
				switch {
				case c.silent[cmd.Conn]:
				case msg.Type == MsgPropose:
					w := msg.World
					queue = append(queue, Received{cmd.Conn, Message{Type: MsgAccept, Term: w.Term, Round: w.Round, Digest: w.Digest()}})
				case msg.Type == MsgAbort:
					queue = append(queue, Received{cmd.Conn, Message{Type: MsgOver, Round: msg.Round}})
				}
			}
		}
	}
}

func (c *testJob) advance(d time.Duration) {
	c.t.Helper()
	c.now = c.now.Add(d)
	c.step(Tick{})
}

func (c *testJob) receive(i int, msg Message) { c.t.Helper(); c.step(Received{Conn(i), msg}) }

func (c *testJob) join(i int) {
	c.t.Helper()
	node := seatNode(i, c.most-1, c.least)
	node.Facts = c.m.cfg.Check
	c.receive(i, Message{Type: MsgHello, Node: &node})
	if node.Facts {
		c.receive(i, Message{Type: MsgFacts, Body: json.RawMessage(`"facts"`)})
	}
}

// lose ends the agent's process. Its host refuses to be called.
func (c *testJob) lose(i int) {
	c.t.Helper()
	c.step(Closed{Conn: Conn(i), Text: "reset"})
	c.step(DialFailed{Addr: seatNode(i, 1, 1).Control, Refused: true, Text: "refused"})
}

// signal sends a signal to a member's agent, or to the coordinator's own (0), to
// end it.
func (c *testJob) signal(i int, sig syscall.Signal, kill bool) {
	c.t.Helper()
	cause := c.m.nodeCause(KindStopped, "")
	cause.Signal = sig
	if i == 0 {
		c.step(StopJob{Cause: cause, Kill: kill})
		return
	}
	node := seatNode(i, 1, 1)
	cause.Node, cause.Host = node.ID, node.Host
	c.receive(i, Message{Type: MsgFailed, Round: c.m.World().Round, Kill: kill, Failures: []Cause{cause}})
}

// sentTo returns the messages of one type that a member got.
func (c *testJob) sentTo(i int, t Type) (out []Message) {
	for _, cmd := range c.log {
		if s, ok := cmd.(Send); ok && s.Conn == Conn(i) && s.Msg.Type == t {
			out = append(out, s.Msg)
		}
	}
	return out
}

func all[C Command](c *testJob) (out []C) {
	for _, cmd := range c.log {
		if cmd, ok := cmd.(C); ok {
			out = append(out, cmd)
		}
	}
	return out
}

func (c *testJob) notes() string {
	var out []string
	for _, n := range all[Note](c) {
		out = append(out, n.Text)
	}
	return strings.Join(out, "\n")
}

// members returns the ids of the world that runs, in the order of group ranks.
func (c *testJob) members() string {
	var ids []string
	for _, p := range c.m.World().Members {
		ids = append(ids, string(p.ID))
	}
	return strings.Join(ids, " ")
}

// runs checks what runs now.
func (c *testJob) runs(round, restart int, members string) {
	c.t.Helper()
	w := c.m.World()
	if c.m.mem.work.state != workRunning || w.Round != round || w.Restart != restart || c.members() != members {
		c.t.Fatalf("round %d, restart %d of %s (work %d, %v), want round %d, restart %d of %s",
			w.Round, w.Restart, c.members(), c.m.mem.work.state, c.m.coord, round, restart, members)
	}
}

// ended checks that the job ends with this code for all given members.
func (c *testJob) ended(code int, members ...int) {
	c.t.Helper()
	if c.m.coord == nil || c.m.coord.round.state != roundDecided || c.m.coord.job.outcome.Code != code {
		c.t.Fatalf("the job does not end with %d", code)
	}
	for _, i := range members {
		if got := c.sentTo(i, MsgFinish); len(got) != 1 || got[0].Outcome.Code != code {
			c.t.Errorf("member %d gets %+v", i, got)
		}
	}
}

func (c *testJob) standing(id NodeID) Participation {
	v := c.m.coord.buildView(&survey{})
	i := slices.IndexFunc(v.Nodes, func(n NodeView) bool { return n.ID == id })
	if i < 0 {
		return ""
	}
	return v.Nodes[i].Participation
}
