package main

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		sorted []float64
		want   float64
	}{
		{[]float64{3}, 3},
		{[]float64{1, 3}, 2},
		{[]float64{1, 2, 9}, 2},
		{[]float64{1, 2, never}, 2},
		{[]float64{1, never, never}, never},
	} {
		if got := median(c.sorted); got != c.want {
			t.Errorf("median(%v) = %v, want %v", c.sorted, got, c.want)
		}
	}
}

// TestTurnsAreSpread checks that a slow peer runs in evenly spread rounds; a quick peer
// and gorun run in all rounds.
func TestTurnsAreSpread(t *testing.T) {
	e := effort{reps: 10, budget: 10 * time.Second}
	for _, c := range []struct {
		name string
		cost time.Duration // of one run
		want string        // the rounds with a turn
	}{
		{nameGorun, time.Minute, "xxxxxxxxxx"},
		{"quick", time.Second, "xxxxxxxxxx"},
		{"slow", 5 * time.Second, "x....x...."},
		{"slower", time.Minute, "x........."},
	} {
		turn := &turns{peer: &peer{name: c.name}}
		got := ""
		for round := range e.reps {
			if turn.due(round, e) {
				turn.spent += c.cost
				got += "x"
			} else {
				got += "."
			}
		}
		if got != c.want {
			t.Errorf("%s: turns %s, want %s", c.name, got, c.want)
		}
	}
}

func TestFailingPeerStops(t *testing.T) {
	runs := 0
	sc := scenario{measure: "m", name: "n", run: func(context.Context, *lab, *peer) ([]reading, error) {
		runs++
		return nil, errors.New("broken")
	}}
	each, err := sc.runAll(t.Context(), nil, []*peer{{name: nameGorun}}, effort{reps: 10, budget: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	rows := sc.rows(each)
	if runs != maxFailures || len(rows) != 1 || rows[0].Note != "failed: broken" {
		t.Errorf("%d runs, rows %+v; want %d runs and one row that says why", runs, rows, maxFailures)
	}
}

func TestRowsAndTable(t *testing.T) {
	sc := scenario{measure: "abort", name: "4 x 2"}
	each := []*turns{
		{peer: &peer{name: nameGorun}, readings: []reading{{"same node", 2, "ms", "exit 3"}, {"same node", 4, "ms", "exit 3"}}},
		{peer: &peer{name: "slow"}, readings: []reading{{"same node", 30, "ms", ""}}},
		{peer: &peer{name: "hydra"}, readings: []reading{{"same node", never, "ms", ""}}},
		{peer: &peer{name: "absent", missing: "not installed"}},
	}
	rows := sc.rows(each)
	text, err := json.Marshal(rows)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), `"peer":"hydra","unit":"ms","median":null`) {
		t.Errorf("JSON without a null for never: %s", text)
	}
	var out strings.Builder
	if err := printTable(&out, rows); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(out.String(), "\n")
	for i, want := range []string{
		"measure case peer runs median min max unit by gorun's note",
		"abort 4 x 2: same node gorun 2 3.00 2.00 4.00 ms 1.00 exit 3",
		"abort 4 x 2: same node slow 1 30.0 30.0 30.0 ms 10.0",
		"abort 4 x 2: same node hydra 1 never never never ms -",
		"",
		"abort 4 x 2 absent 0 - - - - not installed",
	} {
		if got := strings.Join(strings.Fields(lines[i]), " "); got != want {
			t.Errorf("line %d: %q, want %q", i, got, want)
		}
	}
}

func TestParseRollup(t *testing.T) {
	got, err := parseRollup("00400000-7fff ---p 00000000 00:00 0 [rollup]\nRss:  2592 kB\nPss:  840 kB\nPss_Dirty:  100 kB\n")
	if want := (rollup{pss: 840 << 10, rss: 2592 << 10}); err != nil || got != want {
		t.Errorf("parseRollup = %+v, %v; want %+v", got, err, want)
	}
	for _, bad := range []string{"", "Rss: many kB\n"} {
		if _, err := parseRollup(bad); err == nil {
			t.Errorf("parseRollup(%q): no error", bad)
		}
	}
}

func TestOptions(t *testing.T) {
	for _, args := range [][]string{{"-only", "nothing"}, {"-reps", "-1"}, {"stray"}, {"-budget", "0s"}} {
		if _, err := parseOptions(args); err == nil {
			t.Errorf("%v: no error", args)
		}
	}
}

// One run of the floor through the whole machinery: both helpers start, the benchmark
// sees a death, and no process stays behind.
func TestJob(t *testing.T) {
	l := &lab{scratch: t.TempDir(), module: ".."}
	if err := l.buildHelper(t.Context()); err != nil {
		t.Fatal(err)
	}
	floor := &peer{name: nameFloor, commands: floorCommands}
	s := shape{nodes: 2, perNode: 2}
	j, err := startJob(l, floor, s, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer j.close()
	team, err := readyTeam(t.Context(), j, s)
	if err != nil {
		t.Fatal(err)
	}
	defer team.deaths.close()
	wait := team.deaths.watch(200 * time.Millisecond)
	if err := unix.Kill(team.pids[1], unix.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	if err := wait(); err != nil {
		t.Fatal(err)
	}
	for i, when := range team.deaths.when {
		if (when != 0) != (i == 1) {
			t.Errorf("worker %d: death seen at %d", i, when)
		}
	}
	if err := j.close(); err != nil {
		t.Error(err)
	}
	for _, pid := range team.pids {
		if p, err := readProcess(pid); err == nil && !p.zombie {
			t.Errorf("process %d outlives its job", pid)
		}
	}
}

// TestFleet checks that five agents in this process seal a round, whichever starts last.
func TestFleet(t *testing.T) {
	for _, late := range []bool{true, false} {
		got, err := sealFleet(t.Context(), &lab{}, &peer{name: nameGorun}, 5, late)
		if err != nil || len(got) != 2 || got[0].value <= 0 {
			t.Errorf("the last one waits for the others: %v: %+v, %v", late, got, err)
		}
	}
}

// TestNoEtcd checks that the table says that etcd is not installed, and goes on without.
func TestNoEtcd(t *testing.T) {
	t.Setenv("GORUN_ETCD", "")
	t.Setenv("PATH", t.TempDir())
	l := &lab{scratch: t.TempDir(), gorun: "gorun"}
	l.startEtcd()
	if l.etcd != nil || l.etcdWhy != "missing: etcd" || l.otherProcesses() != nil {
		t.Fatalf("%+v", l)
	}
	for _, p := range peers(t.Context(), l) {
		if p.name == nameEtcd && p.missing != l.etcdWhy {
			t.Errorf("%q", p.missing)
		}
	}
}
