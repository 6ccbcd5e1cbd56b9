package status

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/gorun/gorun/rendezvous"
)

func milliseconds(n int64) *int64 { return &n }

func exampleNode() NodeReport {
	one := 3
	return NodeReport{
		Version: "v1", PID: 11, Keeper: 10, Up: 65_000, Round: 4, State: Stopping,
		Ranks: []Rank{
			{Rank: 0, LocalRank: 0, PID: 12, State: Failed, ExitCode: &one, Up: 60_000, Seen: SeenAll, Output: milliseconds(2_000), Message: "boom\x1b[2J"},
			{Rank: 1, LocalRank: 1, PID: 13, State: Stopping, Up: 61_000, Seen: SeenStderr, Output: milliseconds(70_000)},
		},
		Findings: []Finding{{ID: "V01", Title: "nccl-version", Severity: "warning", Text: "two versions"}, {ID: "S01", Title: "leftovers", Severity: "warning", Text: "pid 9 runs on GPU 0"}},
	}
}

func decode(t *testing.T, v rendezvous.View) Status {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	s, err := Decode(b)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// exampleView returns a job with one lost node and two spares.
func exampleView() rendezvous.View {
	return rendezvous.View{
		RunID: "train", Phase: "stopping", Round: 4, Restart: 1, MaxRestarts: 3, Size: 4, Min: 2, Max: 2, Coordinator: "a",
		Age: 61 * time.Second, Failure: "rank 0 exited with code 3", Status: &rendezvous.Status{Waiting: []string{"n1 (10.0.0.1)"}},
		Nodes: []rendezvous.NodeView{
			{ID: "a", Host: "n1", Addr: "10.0.0.1", GroupRank: 0, FirstRank: 0, Workers: 2, Participation: rendezvous.NodeActive, Report: exampleNode().Encode()},
			{ID: "b", Host: "n2", Addr: "10.0.0.2", GroupRank: 1, FirstRank: 2, Workers: 2, Participation: rendezvous.NodeLost, Trouble: "it is not connected"},
			{ID: "c", Host: "n3", Addr: "10.0.0.3", GroupRank: -1, FirstRank: -1, Workers: 2, Participation: rendezvous.NodeSpare, Report: NodeReport{PID: 30, Up: 1000, State: Idle}.Encode()},
			{ID: "d", Host: "n4", Addr: "10.0.0.4", GroupRank: -1, FirstRank: -1, Workers: 2, Participation: rendezvous.NodeSpare, Trouble: "it has not answered within 1s"},
		},
	}
}

var update = flag.Bool("update", false, "write the golden file anew")

// TestStatusJSON checks that the JSON of gorun status stays the same: its names are
// stable.
func TestStatusJSON(t *testing.T) {
	got, err := json.MarshalIndent(decode(t, exampleView()), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	got = append(got, '\n')
	const path = "testdata/status.json"
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if want, err := os.ReadFile(path); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%v\n--- got\n%s--- want\n%s", err, got, want)
	}
}

func TestTable(t *testing.T) {
	s := decode(t, exampleView())
	want := `run train: stopping, round 4, restart 1 of 3, up 1m5s (this round 1m1s)
nodes: 1 active, 1 waiting, 1 not answering, 1 lost; ranks: 4 (1 stopping, 1 failed, 2 unknown); --nnodes 2; coordinator n1 (10.0.0.1)
waiting for: n1 (10.0.0.1)
last failure: rank 0 exited with code 3

GROUP  NODE           STATE                                 RANKS  AGENT PID  UP    LAST OUTPUT
0      n1 (10.0.0.1)  stopping                              0-1    11         1m5s  2s
1      n2 (10.0.0.2)  lost                                  2-3    -          -     -
-      n3 (10.0.0.3)  spare                                 -      30         1s    -
-      n4 (10.0.0.4)  spare, it has not answered within 1s  -      -          -     -

RANK  NODE           LOCAL  PID  STATE            UP    LAST OUTPUT
0     n1 (10.0.0.1)  0      12   failed (exit 3)  1m0s  2s
1     n1 (10.0.0.1)  1      13   stopping         1m1s  1m10s (stderr)
rank 0: boom?[2J

findings:
  warning V01 nccl-version: two versions
  warning S01 leftovers: pid 9 runs on GPU 0
`
	var b bytes.Buffer
	if err := s.Table(&b, false); err != nil || b.String() != want {
		t.Errorf("%v\n--- got\n%s--- want\n%s", err, b.String(), want)
	}
}

// TestTableOfManyRanks checks that the table of a large job shows only the ranks
// that differ from the others, and all ranks on demand.
func TestTableOfManyRanks(t *testing.T) {
	v := rendezvous.View{RunID: "r", Phase: "running", Round: 1, Size: 128}
	for g := range 16 {
		n := NodeReport{Round: 1, State: Running}
		for l := range 8 {
			n.Ranks = append(n.Ranks, Rank{Rank: g*8 + l, LocalRank: l, PID: 1000 + g*8 + l, State: Running, Seen: SeenAll, Output: milliseconds(int64(1000 + l))})
		}
		switch g {
		case 3:
			n.Ranks[5].Output = milliseconds(300_000) // silent while others print
		case 4:
			n.Ranks[0].State = Done
		case 5:
			n.Ranks[1].Output = milliseconds(30_000) // not long enough to differ
		case 6:
			n.Ranks[7].Output, n.Ranks[7].Seen = nil, SeenStderr // the output is unknown
		}
		v.Nodes = append(v.Nodes, rendezvous.NodeView{
			ID: rendezvous.NodeID(fmt.Sprint(g)), Host: fmt.Sprint("n", g), GroupRank: g, FirstRank: g * 8, Workers: 8,
			Participation: rendezvous.NodeActive, Report: n.Encode(),
		})
	}
	s := decode(t, v)
	shown, hidden := s.chooseRanks(false)
	var got []int
	for _, r := range shown {
		got = append(got, r.Rank.Rank)
	}
	if fmt.Sprint(got) != "[29 32]" || hidden != 126 {
		t.Errorf("shown %v, hidden %d", got, hidden)
	}
	if shown, hidden := s.chooseRanks(true); len(shown) != 128 || hidden != 0 {
		t.Errorf("on demand %d are shown", len(shown))
	}
}

// TestRanksOfAnEarlierRound checks that ranks of an earlier round are not shown as
// ranks of the present round.
func TestRanksOfAnEarlierRound(t *testing.T) {
	old := exampleNode()
	old.Round, old.State = 3, Done
	s := decode(t, rendezvous.View{Round: 4, Size: 2, Nodes: []rendezvous.NodeView{{Host: "n", Workers: 2, Participation: rendezvous.NodeActive, Report: old.Encode()}}})
	if n := s.Nodes[0]; len(n.Ranks) != 0 || n.State != Idle || n.PID != 11 {
		t.Errorf("%+v", n)
	}
}

// TestReportIsBounded checks that a report is bounded, whatever a node has.
func TestReportIsBounded(t *testing.T) {
	n := NodeReport{}
	for i := range 4096 {
		n.Ranks = append(n.Ranks, Rank{Rank: i, Message: strings.Repeat("<", maxText), State: Failed, Signal: "SIGRTMIN+1", PID: 1 << 22, Up: 1 << 40, Output: milliseconds(1 << 40), Seen: SeenUnknown})
		n.Findings = append(n.Findings, Finding{Text: strings.Repeat("<", maxText)})
	}
	b := n.Encode()
	if len(b) > 256<<10 || !json.Valid(b) {
		t.Errorf("%d bytes", len(b))
	}
	s := decode(t, rendezvous.View{Nodes: []rendezvous.NodeView{{Workers: 4096, Report: b}}})
	if len(s.Nodes[0].Ranks) != maxRanks || s.Nodes[0].Omitted != 4096-maxRanks {
		t.Errorf("%d ranks, %d left out", len(s.Nodes[0].Ranks), s.Nodes[0].Omitted)
	}
}
