package check

import (
	"slices"
	"strings"
	"testing"

	"github.com/gorun/gorun/envprop"
	"github.com/gorun/gorun/envprop/ncclenv"
	"github.com/gorun/gorun/launch/spec"
	"github.com/gorun/gorun/rendezvous"
	"github.com/gorun/gorun/rendezvous/preflight"
)

// assignedVariables lists what the workers of a member get, as NAME=value, and what they lose,
// as "-NAME".
func assignedVariables(t *testing.T, v Decision, i int) (list []string) {
	t.Helper()
	if i >= len(v.Env) {
		t.Fatalf("no environment for node %d: %+v", i, v)
	}
	a, err := envprop.DecodeAssignment(v.Env[i])
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range a.Set {
		list = append(list, s.Name+"="+s.Value.Reveal())
	}
	for _, r := range a.Unset {
		list = append(list, "-"+r.Name)
	}
	return list
}

// sendReport adds a node's report on its environment to a comparison.
func sendReport(t *testing.T, c *rendezvous.Compare, i int, env []string, o envprop.Options) {
	t.Helper()
	r, err := envprop.NewRequest(o, env)
	if err != nil {
		t.Fatal(err)
	}
	m := c.World.Members[i]
	body, err := envprop.NewReport(envprop.Node{Host: m.Host, Addr: m.Addr, Role: m.Role}, env, nil, r).Encode()
	if err != nil {
		t.Fatal(err)
	}
	for len(c.Envs) < len(c.World.Members) {
		c.Envs = append(c.Envs, nil)
	}
	c.Envs[i] = body
}

// withoutPreflight returns a comparison without the preflight.
func withoutPreflight(conflict envprop.Conflict, nodes int) (*Policy, rendezvous.Compare) {
	s := strictPolicy()
	s.Preflight, s.Conflict = spec.PreflightOff, conflict
	c := rendezvous.Compare{Serial: 7}
	for i := range nodes {
		m := gpuNode(i, "", 0)
		c.World.Members = append(c.World.Members, rendezvous.Member{ID: rendezvous.NodeID(m.Node.ID), Host: m.Node.Host, Addr: m.Node.Addr, Workers: 1, FirstRank: i, Role: "default"})
		c.Facts = append(c.Facts, []byte("null"))
	}
	return s, c
}

func TestOneEnvironment(t *testing.T) {
	for name, c := range map[string]struct {
		conflict envprop.Conflict
		env      [2][]string
		asks     [2]envprop.Options
		want     [2][]string
		refused  bool
		table    []string // parts of the table
		hidden   string   // must not be in any text
	}{
		"nothing": {},
		"the first node's value": {
			env:   [2][]string{{"NCCL_ALGO=Ring"}, {"NCCL_ALGO=Tree"}},
			want:  [2][]string{nil, {"NCCL_ALGO=Ring"}},
			table: []string{"warning E01", "NCCL_ALGO=Ring", "NCCL_ALGO=Tree", "every rank gets what node", "node0", "node1"},
		},
		"the first node has none": {
			env:   [2][]string{nil, {"NCCL_ALGO=Tree"}},
			want:  [2][]string{nil, {"-NCCL_ALGO"}},
			table: []string{"warning E01", "NCCL_ALGO unset"},
		},
		"a conflict is an error": {
			conflict: envprop.ConflictError, refused: true,
			env:   [2][]string{{"NCCL_ALGO=Ring"}, {"NCCL_ALGO=Tree"}},
			table: []string{"error E01", "NCCL_ALGO=Ring", "NCCL_ALGO=Tree"},
		},
		"-x settles a conflict": {
			conflict: envprop.ConflictError,
			env:      [2][]string{{"NCCL_ALGO=Ring"}, {"NCCL_ALGO=Tree"}},
			asks:     [2]envprop.Options{1: {X: []string{"NCCL_ALGO=Ring,Tree"}}},
			want:     [2][]string{{"NCCL_ALGO=Ring,Tree"}, {"NCCL_ALGO=Ring,Tree"}},
		},
		"each node's own": {
			env: [2][]string{{"NCCL_SOCKET_IFNAME=eth0"}, {"NCCL_SOCKET_IFNAME=eth1"}},
		},
		"for one node": {
			asks: [2]envprop.Options{{X: []string{"node=1:NCCL_SOCKET_IFNAME=eth1"}}},
			want: [2][]string{nil, {"NCCL_SOCKET_IFNAME=eth1"}},
		},
		"a credential": {
			env:  [2][]string{{"HF_TOKEN=hunter2"}},
			asks: [2]envprop.Options{{X: []string{"HF_TOKEN"}}, {X: []string{"HF_TOKEN=hunter2too"}}},
			want: [2][]string{{"HF_TOKEN=hunter2"}, {"HF_TOKEN=hunter2"}}, table: []string{"HF_TOKEN is requested with different values"},
			hidden: "hunter2",
		},
		"forced apart": { // without the preflight the job starts all the same
			asks:  [2]envprop.Options{{X: []string{"node=1:GLOO_DEVICE_TRANSPORT=TCP_TLS"}}},
			want:  [2][]string{nil, {"GLOO_DEVICE_TRANSPORT=TCP_TLS"}},
			table: []string{"error E01"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, cmp := withoutPreflight(c.conflict, 2)
			for i := range 2 {
				sendReport(t, &cmp, i, c.env[i], c.asks[i])
			}
			v := Decide(s, cmp)
			table := v.Warnings
			if c.refused != (v.Outcome != nil) || v.Ask != nil {
				t.Fatalf("%+v", v)
			}
			if c.refused {
				table = v.Outcome.Preflight.Table
			} else {
				for i := range 2 {
					if got := assignedVariables(t, v, i); !slices.Equal(got, c.want[i]) {
						t.Errorf("node %d gets %q, want %q", i, got, c.want[i])
					}
				}
			}
			if (c.table == nil) != (table == "") {
				t.Errorf("the table:\n%s", table)
			}
			for _, text := range c.table {
				if !strings.Contains(table, text) {
					t.Errorf("no %q in the table:\n%s", text, table)
				}
			}
			if c.hidden != "" && strings.Contains(table+strings.Join(v.Notes, "\n"), c.hidden) {
				t.Errorf("a credential is shown:\n%s", table)
			}
		})
	}
}

// TestRulesSeeWhatWorkersGet checks that rules see the variables that workers will
// have, and their effects.
func TestRulesSeeWhatWorkersGet(t *testing.T) {
	a, b := gpuNode(0, "2.27.5", 22705), gpuNode(1, "2.27.5", 22705)
	c := compareRequest(t, a, b)
	sendReport(t, &c, 0, nil, envprop.Options{X: []string{"NCCL_SOCKET_IFNAME==mgmt0", "NCCL_P2P_DISABLE=1", "NCCL_PSK=hunter2"}})
	sendReport(t, &c, 1, nil, envprop.Options{})
	d := unify(strictPolicy(), buildFleet(c), decodeReports(c))
	for i, f := range d.fleet.Nodes {
		if v, ok := ncclenv.Find(f.Settings, "NCCL_P2P_DISABLE"); !ok || v.Value != "1" {
			t.Errorf("node %d: settings %v", i, f.Settings)
		}
		if v, ok := ncclenv.Find(f.Settings, "NCCL_PSK"); !ok || v.Value != ncclenv.Hidden {
			t.Errorf("node %d: NCCL_PSK is %q", i, v.Value)
		}
		if len(f.Listeners) != 1 || f.Listeners[0].Iface != "mgmt0" || f.Listeners[0].Use != preflight.UseBootstrap {
			t.Errorf("node %d is probed at %v", i, f.Listeners)
		}
		if len(d.reported.Nodes[i].Settings) > 0 || len(d.reported.Nodes[i].Listeners) != 2 {
			t.Errorf("node %d: the facts that it sent have changed", i)
		}
	}
	if _, ok := ncclenv.Find(d.fleet.Nodes[0].Settings, "NCCL_SOCKET_IFNAME"); !ok {
		t.Error("NCCL_SOCKET_IFNAME is not among the settings")
	}
}

// TestConfFileValueCountsAgain checks that a value of a conf file counts again when the
// variable that hid it is removed.
func TestConfFileValueCountsAgain(t *testing.T) {
	f := gpuNode(0, "2.27.5", 22705)
	f.Settings = []ncclenv.Value{
		{Name: "NCCL_ALGO", Value: "Ring", Source: ncclenv.Environment, Hidden: []ncclenv.From{{Value: "Tree", Source: "/etc/nccl.conf"}}},
		{Name: "NCCL_DEBUG", Value: "INFO", Source: ncclenv.Environment},
		{Name: "NCCL_PROTO", Value: "LL", Source: "/etc/nccl.conf"},
	}
	apply(&f, envprop.Assignment{Unset: []envprop.Removal{{Name: "NCCL_*"}}})
	if len(f.Settings) != 2 || f.Settings[0].Value != "Tree" || f.Settings[0].Source != "/etc/nccl.conf" || f.Settings[1].Value != "LL" {
		t.Errorf("%+v", f.Settings)
	}
}

// TestNewNodeWithAnotherValue checks that a new node with another value is refused
// if that refuses a job, and otherwise gets the others' value.
func TestNewNodeWithAnotherValue(t *testing.T) {
	for _, conflict := range []envprop.Conflict{envprop.ConflictFirst, envprop.ConflictError} {
		s, c := withoutPreflight(conflict, 3)
		c.New = []int{2}
		for i, algo := range []string{"Ring", "Ring", "Tree"} {
			sendReport(t, &c, i, []string{"NCCL_ALGO=" + algo}, envprop.Options{})
		}
		v := Decide(s, c)
		switch {
		case conflict == envprop.ConflictFirst && (v.Outcome != nil || !slices.Equal(assignedVariables(t, v, 2), []string{"NCCL_ALGO=Ring"})):
			t.Errorf("first: %+v", v)
		case conflict == envprop.ConflictError && !slices.Equal(v.Only, []rendezvous.NodeID{"id2"}):
			t.Errorf("error: %+v", v)
		}
	}
}

// TestInvalidReportsChangeNothing checks that an invalid report counts as no report, and
// that no node can report as another node.
func TestInvalidReportsChangeNothing(t *testing.T) {
	s, c := withoutPreflight(envprop.ConflictFirst, 2)
	sendReport(t, &c, 0, []string{"NCCL_ALGO=Ring"}, envprop.Options{})
	c.Envs[1] = []byte(`{"format":99}`)
	if v := Decide(s, c); v.Outcome != nil || !slices.Equal(assignedVariables(t, v, 1), []string{"NCCL_ALGO=Ring"}) {
		t.Errorf("%+v", v)
	}
	sendReport(t, &c, 1, nil, envprop.Options{X: []string{"node=0:X=1"}})
	body, err := envprop.NewReport(envprop.Node{Host: "node0"}, nil, nil, envprop.Request{}).Encode()
	if err != nil {
		t.Fatal(err)
	}
	c.Envs[1] = body
	if r := decodeReports(c); r[1].Node.Host != "node1" {
		t.Errorf("a report of %q", r[1].Node.Host)
	}
}

// TestTableNamesVariablesOfOtherNodes checks that the table names variables of other nodes
// that a wrapper loses.
func TestTableNamesVariablesOfOtherNodes(t *testing.T) {
	a, b := gpuNode(0, "2.27.5", 22705), gpuNode(1, "2.27.5", 22705)
	for i, f := range []*preflight.Facts{&a, &b} {
		f.Program = preflight.Program{Title: "docker", Args: []string{"run", "-e", "NCCL_DEBUG", "image", "train"}}
		f.WrapperLoss = &preflight.WrapperLoss{Wrapper: "docker run", BlocksUnknown: true, Arrived: []string{"RANK"}}
		if i == 1 { // a fix that is already there also passes the new name
			f.WrapperLoss.Missing, f.WrapperLoss.Fix = []string{"NCCL_PROTO"}, []string{"pass it on:", "  docker run -e NCCL_PROTO ..."}
		}
	}
	c := compareRequest(t, a, b)
	sendReport(t, &c, 0, nil, envprop.Options{X: []string{"MINE=1", "NCCL_DEBUG=INFO"}})
	sendReport(t, &c, 1, nil, envprop.Options{})
	d := unify(strictPolicy(), buildFleet(c), decodeReports(c))
	found := runChecks(strictPolicy(), d.fleet)
	i := slices.IndexFunc(found, func(x preflight.Finding) bool { return x.ID == "E03" })
	if i < 0 || found[i].Severity != preflight.Warning || !strings.Contains(found[i].Fix, "docker run -e NCCL_PROTO -e MINE ...") {
		t.Fatalf("%+v", found)
	}
	if table := preflight.Render(found, d.fleet.Names(), preflight.Style{}); !strings.Contains(table, "behind docker run: probably without MINE") {
		t.Errorf("%s", table)
	}
	if d.reported.Nodes[0].WrapperLoss.Unsent != nil {
		t.Error("the facts that it sent have changed")
	}
}
