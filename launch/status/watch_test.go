package status

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/gorun/gorun/rendezvous"
)

// trainingView returns a job of 1,000 ranks at a time in seconds: each does five steps a
// second, but for rank 7, which does one, and rank 501, which stays at step 20. The others
// wait for it in a call. Rank 900 has failed.
func trainingView(seconds int64) rendezvous.View {
	v := rendezvous.View{RunID: "train", Phase: "running", Round: 1, Size: 1000}
	for g := range 125 {
		n := NodeReport{Round: 1, State: Running, Up: seconds * 1000}
		for l := range 8 {
			rank := g*8 + l
			r := Rank{
				Rank: rank, LocalRank: l, PID: 1000 + rank, State: Running, Up: seconds * 1000, Seen: SeenAll, Output: milliseconds(200),
				Step: uint64(100 + 5*seconds), Call: "all-reduce #7 at train.go:88", CallAge: 4000,
			}
			switch rank {
			case 7:
				r.Step = uint64(100 + seconds)
			case 501:
				r.Step, r.Call, r.CallAge, r.Output = 20, "", 0, milliseconds(250_000)
			case 900:
				code := 3
				r.State, r.ExitCode, r.Message = Failed, &code, "loss is NaN"
			}
			n.Ranks = append(n.Ranks, r)
		}
		v.Nodes = append(v.Nodes, rendezvous.NodeView{
			ID: rendezvous.NodeID(fmt.Sprint(g)), Host: fmt.Sprint("n", g), GroupRank: g, FirstRank: g * 8, Workers: 8,
			Participation: rendezvous.NodeActive, Report: n.Encode(),
		})
	}
	return v
}

// TestWatchOfManyRanks checks that 1,000 ranks fold to the odd ones, with their rates.
func TestWatchOfManyRanks(t *testing.T) {
	var f Follower
	var s Status
	for second := range int64(100) {
		s = decode(t, trainingView(1+second))
		f.Add(&s)
	}
	const want = `steps: 20 to 600, 5 a second

RANK  NODE  STATE            STEP  STEPS/S  LAST OUTPUT  REMARK
7     n0    running          200   1        0s           400 steps behind; slower than the others
501   n62   running          20    0        4m10s        580 steps behind; slower than the others; 998 ranks wait in a call, and it is in none; silent
900   n112  failed (exit 3)  600   -        0s           loss is NaN
997 ranks like most are not shown; gorun status --ranks shows them
`
	var b bytes.Buffer
	if err := s.Watch(&b, 24); err != nil || !strings.HasSuffix(b.String(), want) {
		t.Errorf("%v\n--- got\n%s--- want at its end\n%s", err, b.String(), want)
	}
	lines := s.Lines()
	if len(lines) != 4 || !strings.HasSuffix(lines[0], "; steps: 20 to 600, 5 a second") || !strings.HasPrefix(lines[2], "rank 501 on n62: running, step 20, last output 4m10s, ") {
		t.Errorf("%q", lines)
	}
}

// TestWatchFitsTheTerminal checks that no more rows are written than the terminal has,
// however many ranks are odd.
func TestWatchFitsTheTerminal(t *testing.T) {
	v := rendezvous.View{RunID: "train", Phase: "running", Round: 1, Size: 64}
	n := NodeReport{Round: 1, State: Running}
	for rank := range 64 {
		n.Ranks = append(n.Ranks, Rank{Rank: rank, PID: 1 + rank, State: Running, Message: "odd"})
	}
	v.Nodes = []rendezvous.NodeView{{ID: "a", Host: "n", Workers: 64, Participation: rendezvous.NodeActive, Report: n.Encode()}}
	s := decode(t, v)
	for _, rows := range []int{14, 24, 40, 100} {
		var b bytes.Buffer
		if err := s.Watch(&b, rows); err != nil {
			t.Fatal(err)
		}
		if got := strings.Count(b.String(), "\n"); got >= rows {
			t.Errorf("%d lines for %d rows:\n%s", got, rows, b.String())
		}
	}
}

// TestFollowerForgets checks that a rank has no rate after a restart, or when it counts
// anew.
func TestFollowerForgets(t *testing.T) {
	var f Follower
	for i, c := range []struct {
		pid  int
		up   int64
		step uint64
		want string
	}{
		{10, 1000, 1, "-"},
		{10, 2000, 3, "2"},
		{10, 4000, 4, "1"},
		{11, 500, 9, "-"},
		{11, 1500, 12, "3"},
		{11, 2500, 2, "-"},
		{11, 2500, 2, "-"},
		{11, 3500, 3, "1"},
	} {
		s := Status{Nodes: []NodeStatus{{Ranks: []Rank{{Rank: 3, PID: c.pid, Up: c.up, Step: c.step, State: Running}}}}}
		f.Add(&s)
		got := "-"
		if r := s.Nodes[0].Ranks[0].Rate; r != nil {
			got = formatRate(*r)
		}
		if got != c.want {
			t.Errorf("status %d: rate %s, want %s", i, got, c.want)
		}
	}
}
