package console

import (
	"bytes"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gorun/gorun/rendezvous"

	"github.com/gorun/gorun/internal/term"
)

func TestDescribeStatus(t *testing.T) {
	many := append(strings.Split(strings.Repeat("n ", 16), " ")[:16], "24 more")
	tests := []struct {
		s    rendezvous.Status
		want string
	}{
		{rendezvous.Status{Phase: "seeking", Left: 61 * time.Second, Note: "refused"}, "looking for the other nodes, 1m1s left (refused)"},
		{rendezvous.Status{Phase: "seeking", Max: 1, Note: "refused"}, "looking for the endpoint's node (refused)"},
		{rendezvous.Status{Phase: "checking", Came: 1, Waiting: []string{"a"}}, "this node is checked, waiting for a"},
		{rendezvous.Status{Phase: "accepting", Came: 1, Waiting: []string{"a"}}, "this node is here, not ready yet: a"},
		{rendezvous.Status{Phase: "recovering"}, "the coordinator was lost, asking the survivors"},
		{rendezvous.Status{Phase: "forming", Min: 2, Max: 2, Here: []string{"a"}, Left: time.Second}, "have 1 of 2 nodes (a), 1 missing, 1s left"},
		{rendezvous.Status{Phase: "forming", Min: 1, Max: 3, Here: []string{"a", "b"}, Note: "last call"}, "have 2 of 1 to 3 nodes (a, b) (last call)"},
		{rendezvous.Status{Phase: "forming", Min: 64, Max: 64, Came: 40, Here: many}, "have 40 of 64 nodes (n, n, n, n, n, n, n, n, n, n, n, n, n, n, n, n, 24 more), 24 missing"},
		{rendezvous.Status{Phase: "checking", Came: 3, Waiting: []string{"b"}}, "all 3 nodes are here and are compared, waiting for b"},
		{rendezvous.Status{Phase: "accepting", Here: []string{"a", "b"}, Waiting: []string{"b"}}, "all 2 nodes are here, not ready yet: b"},
		{rendezvous.Status{Phase: "stopping", Waiting: []string{"a", "b"}}, "waiting until the workers have stopped on a, b"},
		{*Stopping(rendezvous.Status{Phase: "stopping", Waiting: []string{"a"}}, 21*time.Second, 0), "waiting until the workers have stopped on a, SIGKILL in 21s (Ctrl-C twice kills them now)"},
		{*Stopping(rendezvous.Status{Phase: "stopping", Waiting: []string{"a"}}, 21*time.Second, 1), "waiting until the workers have stopped on a, SIGKILL in 21s (Ctrl-C again kills them now)"},
		{*Stopping(rendezvous.Status{Phase: "stopping", Waiting: []string{"a"}}, -time.Second, 1), "waiting until the workers have stopped on a"},
		{rendezvous.Status{Phase: "ending"}, "ending"},
	}
	for _, tt := range tests {
		if got := describe(&tt.s); got != tt.want {
			t.Errorf("%q, want %q", got, tt.want)
		}
	}
}

// TestStatusNamesOtherNodes checks that a job of one node waits for no other node,
// and that only one agent of a machine prints.
func TestStatusNamesOtherNodes(t *testing.T) {
	two := &rendezvous.Status{Phase: "forming", Min: 2, Max: 2, Here: []string{"a"}}
	for name, c := range map[string]struct {
		quiet  bool
		alone  bool
		status *rendezvous.Status
		want   string
	}{
		"others are missing": {status: two, want: "have 1 of 2 nodes (a), 1 missing"},
		"quiet":              {quiet: true, status: two},
		"it finds no node":   {quiet: true, alone: true, status: &rendezvous.Status{Phase: "seeking", Max: 2}, want: "looking for the other nodes"},
		"another agent says": {quiet: true, status: &rendezvous.Status{Phase: "seeking", Max: 2}},
		"alone":              {status: &rendezvous.Status{Phase: "seeking", Min: 1, Max: 1, Left: 9 * time.Minute}},
		"alone, refused":     {status: &rendezvous.Status{Phase: "seeking", Min: 1, Max: 1, Note: "refused"}, want: "the endpoint's node (refused)"},
	} {
		synctest.Test(t, func(t *testing.T) {
			var out bytes.Buffer
			printer := &Console{Console: term.NewConsole(&out, "gorun", nil), OtherPrints: c.quiet, Alone: c.alone}
			go printer.Run()
			time.Sleep(3 * time.Second)
			printer.Status(c.status)
			printer.Close()
			if got := out.String(); (got != "") != (c.want != "") || !strings.Contains(got, c.want) {
				t.Errorf("%s: %q", name, got)
			}
		})
	}
}

// TestWhilePrintsEverLessOften checks that While says after five seconds what it waits for, and then
// ever less often.
func TestWhilePrintsEverLessOften(t *testing.T) {
	for lines, takes := range []time.Duration{4 * time.Second, 6 * time.Second, 16 * time.Second, 36 * time.Second} {
		for _, quiet := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				var out bytes.Buffer
				c := &Console{Console: term.NewConsole(&out, "gorun", nil), OtherPrints: quiet}
				go c.Run()
				stop := c.While("asking the driver")
				time.Sleep(takes)
				stop()
				c.Close()
				if n := strings.Count(out.String(), "gorun: still asking the driver ("); n != lines && !quiet || n > 0 && quiet {
					t.Errorf("after %v, quiet %v: %q", takes, quiet, out.String())
				}
			})
		}
	}
}
