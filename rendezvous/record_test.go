package rendezvous

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
)

// maxMessage is the largest message of package control.
const maxMessage = 32 << 20

// TestOutcomeOfManyRestarts checks that a large job that fails again and again has an
// outcome that fits into a message and says of every round why it ended.
func TestOutcomeOfManyRestarts(t *testing.T) {
	const nodes, perNode, restarts = 128, 32, 60
	words := strings.Repeat("last words ", 8)
	c := coordinating(t, 1, 2).coord
	for r := range restarts + 1 {
		members := make([]Node, nodes)
		for i := range members {
			members[i] = seatNode(i, nodes, nodes)
			members[i].Workers = perNode
		}
		w := newWorld(members, World{Round: r, Restart: r})
		c.round.world, c.round.began, c.round.ends, c.round.failures = &w, c.m.now, nil, nil
		for rank := range w.Size {
			c.round.ends = append(c.round.ends, End{Rank: rank, LocalRank: rank % perNode, PID: 1 << 21, ExitCode: 1, Started: time.Now(), Ended: time.Now()})
			if rank > 0 && (r < restarts || rank > maxFailures) {
				continue // one failure says why a round ended
			}
			c.addFailures(Cause{
				Kind: KindExit, Node: members[rank/perNode].ID, Rank: rank, ExitCode: 1, Message: words, Age: time.Duration(w.Size - rank),
				Tail: strings.Split(strings.Repeat(words+"\n", 20), "\n"), Traceback: strings.Repeat(words, 50),
			})
		}
		cause := c.round.firstCause()
		c.recordRound(&cause)
	}
	c.endJob()
	o := c.job.outcome
	b, err := json.Marshal(Message{Type: MsgFinish, Outcome: o})
	if err != nil || len(b) > maxMessage/2 {
		t.Fatalf("%d bytes of %d (%v)", len(b), maxMessage, err)
	}
	if o.Cause.Rank != 0 || len(o.Cause.Tail) != 20 || len(o.Failures) != maxFailures || len(o.Failures[0].Tail) != 20 || o.Failures[maxFailures-1].Message != words {
		t.Errorf("the outcome has %d failures", len(o.Failures))
	}
	if len(o.Rounds) != restarts+1 {
		t.Fatalf("%d rounds", len(o.Rounds))
	}
	inFull := 0
	for i, r := range o.Rounds {
		switch {
		case r.Cause == nil || r.Cause.Rank != 0 || r.World.Restart != i || r.World.Size != nodes*perNode || r.Started.IsZero():
			t.Errorf("round %d: %+v", i, r.Cause)
		case !r.Shortened && len(r.World.Members) == nodes && len(r.Ends) == nodes*perNode:
			inFull++
		case !r.Shortened || r.World.Members != nil || r.Ends != nil || inFull > 0:
			t.Errorf("round %d: %d nodes, %d ranks, shortened %v, after %d in full", i, len(r.World.Members), len(r.Ends), r.Shortened, inFull)
		}
	}
	if inFull != maxInFull/(nodes+nodes*perNode) {
		t.Errorf("%d rounds are in full", inFull)
	}
}

// TestRecordsOfSmallJobsAreComplete checks that nothing is dropped from what fits.
func TestRecordsOfSmallJobsAreComplete(t *testing.T) {
	var rs []Record
	for i := range 100 {
		rs = shorten(append(rs, Record{
			World: World{Round: i, Members: make([]Member, 4)}, Ends: make([]End, 32), Cause: &Cause{Message: "m", Tail: []string{"a", "b"}},
		}))
	}
	for i, r := range rs {
		if r.Shortened || len(r.World.Members) != 4 || len(r.Ends) != 32 || len(r.Cause.Tail) != 2 {
			t.Fatalf("round %d of 100: %+v", i, r)
		}
	}
}

func TestTheLatestRoundsAreKept(t *testing.T) {
	var rs []Record
	for i := range maxRounds + 5 {
		rs = shorten(append(rs, Record{World: World{Round: i}}))
	}
	if len(rs) != maxRounds || rs[0].World.Round != 5 {
		t.Errorf("%d rounds, the first one %d", len(rs), rs[0].World.Round)
	}
}

// TestTextsOfCausesAreBounded checks the size of a cause that comes from another
// agent.
func TestTextsOfCausesAreBounded(t *testing.T) {
	long := strings.Repeat("\u00e9", 1<<20)
	c := coordinating(t, 1, 2).coord
	c.addFailures(Cause{Kind: KindExit, Host: long, Addr: long, Role: long, Message: long, Traceback: long + "the end", ErrorFile: long, Tail: []string{long, "last"}})
	many := make([]string, 1<<16)
	c.addFailures(Cause{Kind: KindExit, Rank: 1, Tail: many, Logs: many})
	for _, f := range c.round.failures {
		if n := len(fmt.Sprint(f.Cause)); n > 2*maxTraceback || len(f.Tail) > maxTailLines || len(f.Logs) > maxTailLines {
			t.Errorf("%d bytes, %d and %d lines", n, len(f.Tail), len(f.Logs))
		}
	}
	if f := c.round.failures[0]; !strings.HasSuffix(f.Traceback, "the end") || f.Tail[1] != "last" {
		t.Error("the end is lost")
	}
}
