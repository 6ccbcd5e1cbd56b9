package envprop

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/gorun/gorun/envprop/ncclenv"
)

// fake is a node with what its user asked for; its name is n and its group rank.
type fake struct {
	env   []string
	conf  string // text of /etc/nccl.conf
	x     []string
	unset []string
	file  string // text of job.env
	role  string
}

func (f fake) files() []ncclenv.File {
	if f.conf == "" {
		return nil
	}
	return []ncclenv.File{ncclenv.ParseConf("/etc/nccl.conf", []byte(f.conf))}
}

func (f fake) report(t testing.TB, rank int) Report {
	t.Helper()
	o := Options{X: f.x, Unset: f.unset}
	if f.file != "" {
		o.Files = []EnvFile{{"job.env", []byte(f.file)}}
	}
	r, err := NewRequest(o, f.env)
	if err != nil {
		t.Fatal(err)
	}
	return NewReport(Node{fmt.Sprintf("n%d.cluster", rank), fmt.Sprintf("10.0.0.%d:29400", rank+1), f.role}, f.env, f.files(), r)
}

func reports(t testing.TB, nodes []fake) []Report {
	t.Helper()
	var list []Report
	for i, f := range nodes {
		list = append(list, f.report(t, i))
	}
	return list
}

// effective is what workers of the nodes see of some variables, one text a node.
func effective(nodes []fake, d Decision, names ...string) []string {
	var list []string
	for i, f := range nodes {
		var parts []string
		for _, s := range NewBase(f.env).Apply(d.Members[i]).Explain(Vars{}, f.files()...) {
			if slices.Contains(names, s.Name) {
				parts = append(parts, s.Value.Reveal())
			}
		}
		list = append(list, strings.Join(parts, "+"))
	}
	return list
}

func env(entries ...string) fake { return fake{env: entries} }

func TestUnify(t *testing.T) {
	for _, c := range []struct {
		name  string
		nodes []fake
		of    string   // the variable
		want  []string // for each node, "" unset
		kinds string   // of the settings and removals that decide it, by node; "-" none
		diff  string   // beginning of the difference, "" none
	}{
		{"all agree", []fake{env("NCCL_ALGO=Ring"), env("NCCL_ALGO=Ring")}, "NCCL_ALGO", []string{"Ring", "Ring"}, "- -", ""},
		{
			"the first node's counts",
			[]fake{env("NCCL_ALGO=Ring"), env("NCCL_ALGO=Tree"), env(), env("NCCL_ALGO=Ring")},
			"NCCL_ALGO",
			[]string{"Ring", "Ring", "Ring", "Ring"},
			"- first node, first node, -",
			"NCCL_ALGO: Ring on nodes 0 and 3, Tree on node 1, unset on node 2; every node gets that of node 0",
		},
		{
			"so does its lack",
			[]fake{env(), env("NCCL_ALGO=Tree"), env()},
			"NCCL_ALGO",
			[]string{"", "", ""},
			"- first node, -", "NCCL_ALGO: unset on nodes 0 and 2, Tree on node 1; every node gets that of node 0",
		},
		{"empty is a value", []fake{env("NCCL_ALGO="), env()}, "NCCL_ALGO", []string{"", ""}, "- first node", "NCCL_ALGO: empty on node 0, unset on node 1"},
		{"soft ones, too", []fake{env("UCX_IB_SL=1"), env()}, "UCX_IB_SL", []string{"1", "1"}, "- first node", "UCX_IB_SL: 1 on node 0, unset"},
		{"a family", []fake{env("NCCL_NEW=1"), env()}, "NCCL_NEW", []string{"1", "1"}, "- first node", "NCCL_NEW: 1"},
		{"PYTHONHASHSEED", []fake{env("PYTHONHASHSEED=1"), env("PYTHONHASHSEED=2")}, "PYTHONHASHSEED", []string{"1", "1"}, "- first node", "PYTHONHASHSEED: 1 on"},
		{"per node", []fake{env("NCCL_SOCKET_IFNAME=a"), env("NCCL_SOCKET_IFNAME=b"), env()}, "NCCL_SOCKET_IFNAME", []string{"a", "b", ""}, "- - -", ""},
		{"a path of a family", []fake{env("NCCL_FOO_PATH=a"), env()}, "NCCL_FOO_PATH", []string{"a", ""}, "- -", ""},
		{
			"per node and suspicious",
			[]fake{env("NCCL_P2P_DISABLE=1"), env()},
			"NCCL_P2P_DISABLE",
			[]string{"1", ""},
			"- -",
			"NCCL_P2P_DISABLE: 1 on node 0, unset on node 1",
		},
		{"free", []fake{env("NCCL_DEBUG=INFO"), env()}, "NCCL_DEBUG", []string{"INFO", ""}, "- -", ""},
		{"per rank", []fake{env("CUDA_VISIBLE_DEVICES=1"), env()}, "CUDA_VISIBLE_DEVICES", []string{"1", ""}, "- -", ""},
		{"never", []fake{env("NCCL_HOSTID=1"), env()}, "NCCL_HOSTID", []string{"1", ""}, "- -", ""},
		{"not governed", []fake{env("MINE=1"), env()}, "MINE", []string{"1", ""}, "- -", ""},
		{"a credential that must agree stays", []fake{env("NCCL_PSK=1"), env("NCCL_PSK=2")}, "NCCL_PSK", []string{"1", "2"}, "- -", ""},
		{"named, it travels", []fake{{env: []string{"NCCL_PSK=1"}, x: []string{"NCCL_PSK"}}, env("NCCL_PSK=2")}, "NCCL_PSK", []string{"1", "1"}, "-x, -x", ""},

		// Conf files.
		{"a file agrees with an export", []fake{env("NCCL_ALGO=Ring"), {conf: "NCCL_ALGO=Ring"}}, "NCCL_ALGO", []string{"Ring", "Ring"}, "- -", ""},
		{"a file's value goes to the others", []fake{{conf: "NCCL_ALGO=Ring"}, env()}, "NCCL_ALGO", []string{"Ring", "Ring"}, "- first node", "NCCL_ALGO: Ring on node 0, unset on node 1;"},
		{"an export wins over a file", []fake{env("NCCL_ALGO=Ring"), {conf: "NCCL_ALGO=Tree"}}, "NCCL_ALGO", []string{"Ring", "Ring"}, "- first node", "NCCL_ALGO: Ring on node 0, Tree on node 1;"},
		{"a file cannot be unset", []fake{env(), {conf: "NCCL_ALGO=Tree"}}, "NCCL_ALGO", []string{"", "Tree"}, "- -", "NCCL_ALGO: unset on node 0, Tree on node 1"},
		{
			"nor one below an export",
			[]fake{env(), {conf: "NCCL_ALGO=Tree", env: []string{"NCCL_ALGO=Ring"}}},
			"NCCL_ALGO",
			[]string{"", "Tree"},
			"- first node", "NCCL_ALGO: unset on node 0, the value in /etc/nccl.conf on node 1",
		},

		// Requests.
		{"-x settles", []fake{{env: []string{"NCCL_ALGO=Ring"}, x: []string{"NCCL_ALGO=Tree"}}, env("NCCL_ALGO=NVLS")}, "NCCL_ALGO", []string{"Tree", "Tree"}, "-x, -x", ""},
		{"-x of a later node, too", []fake{env(), {x: []string{"NCCL_ALGO=Tree"}}}, "NCCL_ALGO", []string{"Tree", "Tree"}, "-x, -x", ""},
		{"-x of a user's own", []fake{{env: []string{"MINE=1"}, x: []string{"MINE"}}, env("MINE=2")}, "MINE", []string{"1", "1"}, "-x, -x", ""},
		{"-x NAME of the first that has one", []fake{{x: []string{"MINE"}}, {env: []string{"MINE=2"}, x: []string{"MINE"}}}, "MINE", []string{"2", "2"}, "-x, -x", ""},
		{
			"-x differs",
			[]fake{{x: []string{"MINE=1"}}, {x: []string{"MINE=2"}}},
			"MINE",
			[]string{"1", "1"},
			"-x, -x",
			"MINE is requested with different values: 1 on node 0, 2 on node 1; every node gets that of node 0",
		},
		{"-x differs where nodes may", []fake{{x: []string{"NCCL_SOCKET_IFNAME=a"}}, {x: []string{"NCCL_SOCKET_IFNAME=b"}}, env()}, "NCCL_SOCKET_IFNAME", []string{"a", "b", "a"}, "-x, -x, -x", ""},
		{"a pattern leaves nodes their own", []fake{{env: []string{"NCCL_SOCKET_IFNAME=a"}, x: []string{"NCCL_*"}}, env("NCCL_SOCKET_IFNAME=b"), env()}, "NCCL_SOCKET_IFNAME", []string{"a", "b", "a"}, "-x, - -x", ""},
		{"a name in full does not", []fake{{env: []string{"NCCL_SOCKET_IFNAME=a"}, x: []string{"NCCL_SOCKET_IFNAME"}}, env("NCCL_SOCKET_IFNAME=b")}, "NCCL_SOCKET_IFNAME", []string{"a", "a"}, "-x, -x", ""},
		{"the later of two", []fake{{x: []string{"MINE=1", "MINE=2"}}, env()}, "MINE", []string{"2", "2"}, "-x, -x", ""},
		{"by group rank, where nodes may differ", []fake{{x: []string{"node=1:NCCL_SOCKET_IFNAME=a"}}, env(), env()}, "NCCL_SOCKET_IFNAME", []string{"", "a", ""}, "- -x, -", ""},
		{"by group rank", []fake{{x: []string{"node=1:MINE=a"}}, env(), env()}, "MINE", []string{"", "a", ""}, "- -x, -", ""},
		{"by role", []fake{{x: []string{"role=ps:OMP_NUM_THREADS=8"}}, {role: "ps"}, {role: "ps"}}, "OMP_NUM_THREADS", []string{"", "8", "8"}, "- -x, -x", ""},
		{"a node over a role over all", []fake{{x: []string{"node=2:MINE=c", "role=ps:MINE=b", "MINE=a"}}, {role: "ps"}, {role: "ps"}}, "MINE", []string{"a", "b", "c"}, "-x, -x, -x", ""},
		{
			"one node alone, where all must agree",
			[]fake{{env: []string{"NCCL_ALGO=Ring"}, x: []string{"node=1:NCCL_ALGO=Tree"}}, env()},
			"NCCL_ALGO",
			[]string{"Ring", "Tree"},
			"- -x", "NCCL_ALGO: Ring on node 0, Tree on node 1",
		},
		{"env file over environment", []fake{{file: "MINE=f"}, env("MINE=e")}, "MINE", []string{"f", "f"}, "env file, env file", ""},
		{"-x over env file", []fake{{file: "MINE=f"}, {x: []string{"MINE=x"}}}, "MINE", []string{"x", "x"}, "-x, -x", ""},
		{"unset", []fake{{unset: []string{"MINE"}}, env("MINE=1")}, "MINE", []string{"", ""}, "--unset, --unset", ""},
		{"unset by pattern", []fake{{unset: []string{"NCCL_*"}}, env("NCCL_ALGO=Ring")}, "NCCL_ALGO", []string{"", ""}, "--unset, --unset", ""},
		{"unset all of them but one", []fake{{unset: []string{"NCCL_*"}, x: []string{"NCCL_ALGO=Ring"}}, env("NCCL_ALGO=Tree")}, "NCCL_ALGO", []string{"Ring", "Ring"}, "-x, -x", ""},
		{"all of them but one", []fake{{env: []string{"NCCL_ALGO=Ring"}, x: []string{"NCCL_*"}, unset: []string{"NCCL_ALGO"}}, env("NCCL_ALGO=Tree")}, "NCCL_ALGO", []string{"", ""}, "--unset, --unset", ""},
		{"unset over env file", []fake{{file: "MINE=f", unset: []string{"MINE"}}, env("MINE=1")}, "MINE", []string{"", ""}, "--unset, --unset", ""},
		{"unset on one node", []fake{{unset: []string{"node=1:MINE"}}, env("MINE=1"), env("MINE=1")}, "MINE", []string{"", "", "1"}, "- --unset, -", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := Unify(reports(t, c.nodes), Policy{})
			got := effective(c.nodes, d, c.of)
			if fmt.Sprint(got) != fmt.Sprint(c.want) {
				t.Errorf("workers get %q, want %q", got, c.want)
			}
			var kinds []string
			for _, a := range d.Members {
				kind := "-"
				for _, s := range a.Set {
					if s.Name == c.of {
						kind = string(s.Source.Kind)
					}
				}
				for _, r := range a.Unset {
					if kind == "-" && matches(r.Name, c.of) {
						kind = string(r.Source.Kind)
					}
				}
				kinds = append(kinds, kind)
			}
			if want := strings.ReplaceAll(c.kinds, ",", ""); strings.Join(kinds, " ") != want {
				t.Errorf("decided by %q, want %q", kinds, want)
			}
			diff := ""
			for _, x := range d.Differences {
				if x.Name == c.of {
					diff = x.String()
				}
			}
			if (diff == "") != (c.diff == "") || !strings.HasPrefix(diff, c.diff) {
				t.Errorf("difference %q, want %q", diff, c.diff)
			}
		})
	}
}

func TestConflict(t *testing.T) {
	for _, c := range []struct {
		name        string
		nodes       []fake
		first, err  bool // whether it is an error under the policy
		left, asked bool
	}{
		{"must agree", []fake{env("NCCL_ALGO=Ring"), env()}, false, true, false, false},
		{"should agree", []fake{env("UCX_IB_SL=1"), env()}, false, false, false, false},
		{"costs clarity only", []fake{env("TORCH_NCCL_BLOCKING_WAIT=1"), env()}, false, false, false, false},
		{"left by a file", []fake{env(), {conf: "NCCL_ALGO=Ring"}}, true, true, true, false},
		{"left because the user asks for it", []fake{{x: []string{"node=0:NCCL_ALGO=Ring"}}, env()}, true, true, true, false},
		{"suspicious", []fake{env("NCCL_P2P_DISABLE=1"), env()}, false, false, true, false},
		{"asked", []fake{{x: []string{"NCCL_ALGO=Ring"}}, {x: []string{"NCCL_ALGO=Tree"}}}, false, true, false, true},
		{"asked, not governed", []fake{{x: []string{"MINE=Ring"}}, {x: []string{"MINE=Tree"}}}, false, false, false, true},
	} {
		for policy, want := range map[Conflict]bool{"": c.first, ConflictFirst: c.first, ConflictError: c.err} {
			d := Unify(reports(t, c.nodes), Policy{Conflict: policy})
			if len(d.Differences) != 1 {
				t.Fatalf("%s: %v", c.name, d.Differences)
			}
			if x := d.Differences[0]; x.Error != want || x.Remains != c.left || x.Requested != c.asked {
				t.Errorf("%s, %q: %+v", c.name, policy, x)
			}
		}
	}
	if _, err := ParseConflict("last"); err == nil || !strings.Contains(err.Error(), "--env-conflict last") {
		t.Error(err)
	}
	if c, err := ParseConflict(""); err != nil || c != ConflictFirst {
		t.Error(c, err)
	}
}

func TestChosen(t *testing.T) {
	nodes := []fake{env("NCCL_SOCKET_IFNAME=a"), env(), {x: []string{"node=2:NCCL_SOCKET_IFNAME=x"}}}
	for _, asked := range []bool{false, true} {
		var chosen [][]Chosen
		for i := range nodes {
			chosen = append(chosen, []Chosen{{"NCCL_SOCKET_IFNAME", fmt.Sprintf("c%d", i), "--iface auto", asked}, {"RANK", "9", "", true}})
		}
		d := Unify(reports(t, nodes), Policy{Chosen: chosen})
		want := "[a c1 x]"
		if asked {
			want = "[c0 c1 x]"
		}
		if got := effective(nodes, d, "NCCL_SOCKET_IFNAME"); fmt.Sprint(got) != want {
			t.Errorf("asked %v: %v, want %s", asked, got, want)
		}
		if s := d.Members[1].Set; len(s) != 1 || s[0].Source.Kind != FromGorun || s[0].Source.Rule != "--iface auto" {
			t.Errorf("%+v", s)
		}
	}
	// What must agree: only where the first node has no value.
	for first, want := range map[string]string{"": "[7 7]", "NCCL_SOCKET_MAGIC=5": "[5 5]"} {
		nodes := []fake{env(first), env("NCCL_SOCKET_MAGIC=6")}
		c := []Chosen{{Name: "NCCL_SOCKET_MAGIC", Value: "7"}}
		if got := effective(nodes, Unify(reports(t, nodes), Policy{Chosen: [][]Chosen{c, c}}), "NCCL_SOCKET_MAGIC"); fmt.Sprint(got) != want {
			t.Errorf("%q: %v, want %s", first, got, want)
		}
	}
}

func TestNotes(t *testing.T) {
	nodes := []fake{{x: []string{"node=9999:MINE=1", "role=ps:MINE=1"}, unset: []string{"NCCL_PROTO"}}, {x: []string{"node=9999:MINE=1"}}}
	for range 100 {
		nodes = append(nodes, fake{conf: "NCCL_PROTO=LL"})
	}
	d := Unify(reports(t, nodes), Policy{})
	want := []string{"-x node=9999:MINE: no node of this job", "-x role=ps:MINE: no node", "NCCL_PROTO: /etc/nccl.conf on n2.cluster and 99 nodes more sets it"}
	if len(d.Notes) != len(want) {
		t.Fatalf("%q", d.Notes)
	}
	for i := range want {
		if !strings.HasPrefix(d.Notes[i], want[i]) {
			t.Errorf("%q, want %q", d.Notes[i], want[i])
		}
	}
}

// TestUnifyNodesWithoutReport checks that a node that sent no report has no influence,
// and gets what must agree.
func TestUnifyNodesWithoutReport(t *testing.T) {
	if d := Unify(nil, Policy{}); d.Members == nil || len(d.Members)+len(d.Differences) != 0 {
		t.Errorf("%+v", d)
	}
	list := reports(t, []fake{env("NCCL_ALGO=Ring"), env("NCCL_ALGO=Tree"), env("NCCL_ALGO=Tree")})
	list[0].Format = 0
	d := Unify(list, Policy{})
	if len(d.Differences) != 0 || len(d.Members[1].Set)+len(d.Members[2].Set) != 0 {
		t.Errorf("a node without a report has influence: %+v", d)
	}
	if s := d.Members[0].Set; len(s) != 1 || s[0].Value.Reveal() != "Tree" {
		t.Errorf("the node without a report gets %+v", s)
	}
}

func TestAThousandNodes(t *testing.T) {
	nodes := make([]fake, 1000)
	for i := range nodes {
		nodes[i] = fake{
			env:  []string{"NCCL_ALGO=Ring", "NCCL_DEBUG=WARN", fmt.Sprintf("NCCL_SOCKET_IFNAME=eth%d", i%7), fmt.Sprintf("NCCL_NTHREADS=%d", i), "SEED=1"},
			x:    []string{"SEED", "NCCL_DEBUG=INFO", "role=ps:MINE=1", "node=999:MINE=2", "node=500:MINE=3"},
			role: []string{"worker", "ps"}[i%2],
		}
	}
	nodes[700].env[0] = "NCCL_ALGO=Tree"
	d := Unify(reports(t, nodes), Policy{})
	got := effective(nodes, d, "MINE", "NCCL_ALGO", "NCCL_DEBUG", "NCCL_NTHREADS", "NCCL_SOCKET_IFNAME", "SEED")
	for i, g := range got {
		mine := []string{"", "1+"}[i%2]
		switch i {
		case 999:
			mine = "2+"
		case 500:
			mine = "3+"
		}
		if want := fmt.Sprintf("%sRing+INFO+0+eth%d+1", mine, i%7); g != want {
			t.Errorf("node %d: %q, want %q", i, g, want)
		}
	}
	if len(d.Differences) != 2 || len(d.Notes) != 0 {
		t.Fatalf("%v %v", d.Differences, d.Notes)
	}
	if x := d.Differences[0]; x.Name != "NCCL_ALGO" || len(x.Groups) != 2 || len(x.Groups[0].Nodes) != 999 || !reflect.DeepEqual(x.Groups[1].Nodes, []int{700}) {
		t.Errorf("%+v", x)
	}
	x := d.Differences[1]
	if x.Name != "NCCL_NTHREADS" || len(x.Groups) != maxGroups || x.Groups[0].Nodes[0] != 0 || len(x.String()) > 4096 {
		t.Errorf("%.500s", x)
	}
	text, err := json.Marshal(d.Differences)
	if err != nil || len(text) > 16<<10 {
		t.Errorf("%d bytes, %v", len(text), err)
	}
}

func BenchmarkUnify(b *testing.B) {
	for _, n := range []int{16, 1000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			nodes := make([]fake, n)
			for i := range nodes {
				for k := range 40 {
					nodes[i].env = append(nodes[i].env, fmt.Sprintf("NCCL_V%d=%d", k, k))
				}
				nodes[i].x = []string{"NCCL_V1*", "MINE=1", "node=3:MINE=2"}
			}
			list := reports(b, nodes)
			for b.Loop() {
				Unify(list, Policy{})
			}
		})
	}
}
