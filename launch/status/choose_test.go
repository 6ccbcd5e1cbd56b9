package status

import (
	"errors"
	"strings"
	"testing"
)

func agent(run, job string, pid int) Agent {
	return Agent{Hello: Hello{RunID: run, Job: job, Host: "n", PID: pid, Keeper: pid - 1}}
}

func TestChoose(t *testing.T) {
	a, b := "a", "b"
	other := agent("a", "x", 50)
	other.UID = 7
	tests := []struct {
		name   string
		agents []Agent
		wanted Selector
		pids   int    // number of the job's agents
		jobs   int    // number of ambiguous jobs
		text   string // of the error
	}{
		{"no agent", nil, Selector{}, 0, 0, "no gorun job of this user runs on this machine"},
		{"the only one", []Agent{agent("a", "x", 11)}, Selector{}, 1, 0, ""},
		{"several agents of one job", []Agent{agent("a", "x", 11), agent("a", "x", 21)}, Selector{}, 2, 0, ""},
		{"and a spare", []Agent{agent("a", "", 11), agent("a", "x", 21)}, Selector{}, 2, 0, ""},
		{"nodes without a world", []Agent{agent("a", "", 11), agent("a", "", 21)}, Selector{}, 2, 0, ""},
		{"two jobs", []Agent{agent("a", "x", 11), agent("b", "y", 21)}, Selector{}, 0, 2, "choose one with --run-id or --pid"},
		{"one of them", []Agent{agent("a", "x", 11), agent("b", "y", 21)}, Selector{RunID: &b}, 1, 0, ""},
		{"two jobs of one run id", []Agent{agent("a", "x", 11), agent("a", "y", 21)}, Selector{RunID: &a}, 0, 2, "pid 20"},
		{"one by its agent", []Agent{agent("a", "x", 11), agent("a", "y", 21)}, Selector{PID: 21}, 1, 0, ""},
		{"one by its keeper", []Agent{agent("a", "x", 11), agent("a", "y", 21)}, Selector{PID: 20}, 1, 0, ""},
		{"two and a spare of either", []Agent{agent("a", "", 31), agent("a", "x", 11), agent("a", "y", 21)}, Selector{}, 0, 3, ""},
		{"another user's", []Agent{agent("a", "x", 11), other}, Selector{RunID: &a}, 0, 2, ""},
		{"another run id", []Agent{agent("a", "x", 11)}, Selector{RunID: &b}, 0, 0, `no gorun job "b" of this user runs on this machine (running: a)`},
		{"another pid", []Agent{agent("a", "x", 11)}, Selector{PID: 5}, 0, 0, "pid 5"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := SearchResult{Agents: tt.agents}
			got, err := f.Choose(tt.wanted)
			if len(got) != tt.pids || (err == nil) != (tt.pids > 0) {
				t.Fatalf("%d agents, %v", len(got), err)
			}
			several, ok := errors.AsType[*AmbiguousError](err)
			if ok != (tt.jobs > 0) || ok && len(several.Jobs) != tt.jobs {
				t.Errorf("%v", err)
			}
			if err != nil && !strings.Contains(err.Error(), tt.text) {
				t.Errorf("%v", err)
			}
		})
	}
}

func TestNoJobErrorNamesOtherAgents(t *testing.T) {
	f := SearchResult{NoAnswer: []int{12}, OtherUsers: 2}
	_, err := f.Choose(Selector{})
	for _, want := range []string{"agent 12 did not answer", "2 agents belong to other users"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("no %q: %v", want, err)
		}
	}
}

func TestSockets(t *testing.T) {
	const list = `Num       RefCount Protocol Flags    Type St Inode Path
0000000000000000: 00000002 00000000 00010000 0001 01 30812 @gorun.0.123
0000000000000000: 00000003 00000000 00000000 0001 03 30813 @gorun.0.123
0000000000000000: 00000002 00000000 00010000 0001 01 30814 /run/gorun.0.5
0000000000000000: 00000002 00000000 00010000 0001 01 30815 @gorun.1000.7.abcdefgh
0000000000000000: 00000002 00000000 00010000 0001 01 30816 @gorun.x.7
0000000000000000: 00000002 00000000 00010000 0001 01 30816 @gorun.7
0000000000000000: 00000002 00000000 00010000 0001 01 30817
`
	got, err := parseSockets(strings.NewReader(list))
	if err != nil || strings.Join(got, " ") != "@gorun.0.123 @gorun.1000.7.abcdefgh" {
		t.Errorf("%q, %v", got, err)
	}
}

func FuzzSockets(f *testing.F) {
	f.Add("0: 2 0 00010000 1 1 3 @gorun.0.1\n")
	f.Add("0: 2 0 00010000 1 1 3 @gorun.99999999999999999999.-1\n")
	f.Fuzz(func(t *testing.T, list string) {
		names, _ := parseSockets(strings.NewReader(list))
		for _, n := range names {
			if uid, pid, ok := parseSocketName(n); !ok || uid < 0 || pid < 0 {
				t.Errorf("%q: %d, %d", n, uid, pid)
			}
		}
	})
}
