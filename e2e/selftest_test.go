package e2e_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gorun/gorun/launch/selftest"
)

// TestSelftest plays the whole ladder on two nodes.
func TestSelftest(t *testing.T) {
	j := newJob(t)
	good := filepath.Join(t.TempDir(), "good")
	a := j.launch("all", j.command("selftest", "--local-nodes", "2", "--nproc-per-node", "2", "--json", "--good", good))
	j.wantExit(2*longWait, 0, a)
	var r selftest.Report
	if err := json.Unmarshal([]byte(a.out.String()), &r); err != nil {
		t.Fatalf("%v: %s", err, a.out.String())
	}
	if !r.OK || len(r.Ranks) != 4 || len(r.Nodes) != 2 || len(r.Rungs) != 9 {
		t.Errorf("%+v", r)
	}
	for _, g := range r.Rungs {
		for _, s := range g.Sizes {
			if s.Median <= 0 || s.Worst < s.Median {
				t.Errorf("%s: %+v", g.Rung, s)
			}
		}
	}
	if hosts, err := os.ReadFile(good); err != nil || len(strings.Fields(string(hosts))) != 1 {
		t.Errorf("%q, %v", hosts, err)
	}
}

// TestSelftestNamesTheLink drops big packets between two of three hosts: small messages
// pass there, big ones do not.
func TestSelftestNamesTheLink(t *testing.T) {
	l := newLAN(t, 3)
	for _, pair := range [][2]int{{2, 3}, {3, 2}} {
		l.do("ip", "netns", "exec", l.host(pair[0]), "iptables", "-A", "INPUT", "-s", l.addr(pair[1]), "-m", "length", "--length", "600:", "-j", "DROP")
	}
	j := newJob(t)
	var agents []*agent
	for i := 1; i <= 3; i++ {
		cmd := l.command(j, i, l.addr(1), "3", "--preflight", "off", "--node-rank", fmt.Sprint(i-1), "--nproc-per-node", "1", "--bad", filepath.Join(t.TempDir(), "bad"))
		for k, word := range cmd.Args { // gorun selftest --nnodes …
			if word == "--nnodes" {
				cmd.Args = append(cmd.Args[:k:k], append([]string{"selftest"}, cmd.Args[k:]...)...)
				break
			}
		}
		agents = append(agents, j.launch(l.addr(i), cmd))
	}
	j.wantExit(3*longWait, 1, agents...)
	j.wantCause(agents, "node 1 (", " and node 2 (", "fail together; each works with others", "not done in time")
}

// TestSelftestBeforeAJob checks that the program runs after the test, with its own
// environment and arguments.
func TestSelftestBeforeAJob(t *testing.T) {
	j := newJob(t)
	script := j.write("program.sh", "echo \"rank $RANK: $* of $GORUN_ROUND\"\n", 0o644)
	agents := j.nodes(2, "--selftest", "--nproc-per-node", "2", "--no-python", "sh", script, "a", "b c")
	j.wantExit(2*longWait, 0, agents...)
	for i, a := range agents {
		for rank := 2 * i; rank < 2*i+2; rank++ {
			if want := fmt.Sprintf("rank %d: a b c of ", rank); !strings.Contains(a.out.String(), want) {
				t.Errorf("no %q in %s", want, a.out.String())
			}
		}
	}
}
