package envprop

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/gorun/gorun/envprop/ncclenv"
	"github.com/gorun/gorun/worker/contract"
)

func TestExplainSaysWhereFrom(t *testing.T) {
	nodes := []fake{
		{env: []string{"NCCL_ALGO=Ring", "HF_TOKEN=s3cret"}, x: []string{"HF_TOKEN"}, file: "FILED=1"},
		{env: []string{"PATH=/bin", "NCCL_IB_HCA=mlx5", "NCCL_PROTO=LL", "RANK=99", "odd"}, conf: "NCCL_ALGO=Tree\nNCCL_DEBUG=WARN", unset: []string{"TORCH_*"}},
	}
	d := Unify(reports(t, nodes), Policy{Chosen: [][]Chosen{nil, {{"NCCL_SOCKET_IFNAME", "=eth0", "--iface eth0", true}}}})
	b := NewBase(nodes[1].env).Apply(d.Members[1])
	got := map[string]Setting{}
	all := b.Explain(vars(), nodes[1].files()...)
	for _, s := range all {
		got[s.Name] = s
	}
	for name, want := range map[string][3]string{ // value, source, beginning of the rule
		"PATH":               {"/bin", "this node's environment", "never: "},
		"NCCL_IB_HCA":        {"mlx5", "this node's environment", "node: a different number of adapters"},
		"NCCL_ALGO":          {"Ring", "first node (n0.cluster)", "all: the ranks run different algorithms"},
		"NCCL_DEBUG":         {"WARN", "/etc/nccl.conf", "free: "},
		"NCCL_SOCKET_IFNAME": {"=eth0", "gorun", "--iface eth0"},
		"HF_TOKEN":           {"(hidden)", "-x HF_TOKEN on n0.cluster", ""},
		"FILED":              {"1", "job.env:1 on n0.cluster", ""},
		"RANK":               {"5", "gorun", "its place in the job"},
		contract.EnvToken:    {"(hidden)", "gorun", "for its workers"},
		"OMP_NUM_THREADS":    {"1", "gorun", "torchrun's default"},
	} {
		s, ok := got[name]
		if !ok || s.Value.String() != want[0] || s.Source.String() != want[1] || !strings.HasPrefix(s.Source.Rule, want[2]) {
			t.Errorf("%s: %v from %q by %q, want %q", name, s.Value, s.Source, s.Source.Rule, want)
		}
	}
	for _, name := range []string{"NCCL_PROTO", "TORCH_NCCL_ASYNC_ERROR_HANDLING", "odd"} {
		if s, ok := got[name]; ok {
			t.Errorf("%s is there: %+v", name, s)
		}
	}
	if !slices.IsSortedFunc(all, func(a, b Setting) int { return strings.Compare(a.Name, b.Name) }) {
		t.Error("not by name")
	}
}

// TestExplainIsWorker checks that Explain has the same variables as Worker, except for
// those of conf files.
func TestExplainIsWorker(t *testing.T) {
	env := []string{"A=1", "B=", "A=2", "NCCL_ALGO=Ring", "OMP_NUM_THREADS=3", "EQ=a=b"}
	a := Assignment{Set: []Setting{{"C", NewValue("C", "3"), Source{Kind: FromFlag}}}, Unset: []Removal{{Name: "B", Source: Source{Kind: FromUnset}}}}
	for _, b := range []Base{NewBase(env), NewBase(env).Apply(a), NewBase(nil), {}, Base{}.Apply(a)} {
		want := asMap(t, b.Worker(vars()))
		explained := b.Explain(vars())
		if len(explained) != len(want) {
			t.Errorf("%d of %d", len(explained), len(want))
		}
		for _, s := range explained {
			if v, ok := want[s.Name]; !ok || v != s.Value.Reveal() || s.Source.Kind == "" {
				t.Errorf("%s is %q, explained as %+v", s.Name, v, s)
			}
		}
	}
}

func TestApply(t *testing.T) {
	b := NewBase([]string{"A=1", "B=2", "TORCH_NCCL_ASYNC_ERROR_HANDLING=3", "OMP_NUM_THREADS=4"})
	before := b.Worker(vars())
	user, first := Source{Kind: FromUnset}, Source{Kind: FromFirst}
	for _, c := range []struct {
		name string
		a    Assignment
		want string // of the four, "-" unset
	}{
		{"nothing", Assignment{}, "1 2 3 4"},
		{"set", Assignment{Set: []Setting{{"A", NewValue("A", "x"), user}, {"RANK", NewValue("RANK", "9"), user}}}, "x 2 3 4"},
		{"removed by the user", Assignment{Unset: []Removal{{Name: "OMP_NUM_THREADS", Source: user}, {Name: "TORCH_*", Source: user}, {Name: "B", Source: user}}}, "1 - - -"},
		{"removed by the first node", Assignment{Unset: []Removal{{Name: "TORCH_NCCL_ASYNC_ERROR_HANDLING", Source: first}}}, "1 2 1 4"},
		{"set counts over unset", Assignment{Set: []Setting{{"A", NewValue("A", "x"), user}}, Unset: []Removal{{Name: "A", Source: user}}}, "x 2 3 4"},
	} {
		env := asMap(t, b.Apply(c.a).Worker(vars()))
		var got []string
		for _, name := range []string{"A", "B", "TORCH_NCCL_ASYNC_ERROR_HANDLING", "OMP_NUM_THREADS"} {
			v, ok := env[name]
			if !ok {
				v = "-"
			}
			got = append(got, v)
		}
		if strings.Join(got, " ") != c.want || env["RANK"] != "5" {
			t.Errorf("%s: %v, RANK=%s; want %s", c.name, got, env["RANK"], c.want)
		}
	}
	if !slices.Equal(before, b.Worker(vars())) || !slices.Equal(before, b.Apply(Assignment{}).Worker(vars())) {
		t.Error("Apply changed its base, or changes with nothing to do")
	}
}

func TestDiff(t *testing.T) {
	list := func(entries ...string) []Setting { return NewBase(entries).Explain(Vars{}) }
	var got []string
	show := func(s *Setting) string {
		if s == nil {
			return "-"
		}
		return s.Value.String()
	}
	for _, c := range Diff(list("A=1", "B=1", "C=1", "K_TOKEN=s3cret1"), list("A=1", "B=2", "D=1", "K_TOKEN=s3cret2")) {
		got = append(got, c.Name+": "+show(c.Before)+" "+show(c.After))
	}
	if want := "[B: 1 2 C: 1 - D: - 1 K_TOKEN: (hidden) (hidden)]"; fmt.Sprint(got) != want {
		t.Errorf("%v, want %s", got, want)
	}
	if c := Diff(list("A=1"), list("A=1")); c != nil {
		t.Errorf("%+v", c)
	}
}

func TestThreads(t *testing.T) {
	for _, c := range []struct {
		name  string
		t     Threads
		local int
		want  string // "" unset
		note  string // beginning of
	}{
		{"torchrun's, several", Threads{}, 8, "1", "OMP_NUM_THREADS is set to 1 for each of the 8 workers, so that"},
		{"torchrun's, one", Threads{}, 1, "", ""},
		{"divided", Threads{Cores: 33}, 8, "4", "OMP_NUM_THREADS is set to 4 for each of the 8 workers (33 cores for 8 workers); set"},
		{"at least one", Threads{Cores: 4}, 8, "1", "OMP_NUM_THREADS is set to 1 for each of the 8 workers (4 cores"},
		{"bound by twos", Threads{Cores: 16, Workers: 2}, 8, "8", "OMP_NUM_THREADS is set to 8 for each of the 8 workers (16 cores for 2 workers)"},
		{"bound alone", Threads{Cores: 6, Workers: 1}, 8, "6", "OMP_NUM_THREADS is set to 6 for each of the 8 workers (cores of each: 6)"},
		{"a quota", Threads{Cores: 16, Workers: 8, Quota: true}, 8, "2", "OMP_NUM_THREADS is set to 2 for each of the 8 workers (a CPU quota of 16 for 8 workers)"},
		{"a small quota", Threads{Cores: 1, Workers: 8, Quota: true}, 8, "1", "OMP_NUM_THREADS is set to 1 for each of the 8 workers (a CPU quota of 1"},
		{"alone", Threads{Cores: 6}, 1, "6", ""},
		{"nonsense", Threads{Cores: -1, Workers: -1}, 2, "1", "OMP_NUM_THREADS is set to 1"},
	} {
		w := vars()
		w.LocalWorldSize, w.Threads = c.local, c.t
		for _, set := range []string{"", "OMP_NUM_THREADS=", "OMP_NUM_THREADS=3"} {
			b := NewBase([]string{set})
			want, note := c.want, c.note
			if set != "" {
				_, want, _ = strings.Cut(set, "=")
				note = ""
			}
			if got := asMap(t, b.Worker(w))["OMP_NUM_THREADS"]; got != want {
				t.Errorf("%s, %q: %q, want %q", c.name, set, got, want)
			}
			if got := b.OMPNote(w); (got == "") != (note == "") || !strings.HasPrefix(got, note) || strings.Contains(got, "\n") {
				t.Errorf("%s, %q: %q, want %q", c.name, set, got, note)
			} else if c.t.Cores > 0 && strings.Contains(got, "--omp") {
				t.Errorf("%s: %q proposes the current setting", c.name, got)
			}
		}
		without := NewBase(nil).Apply(Assignment{Unset: []Removal{{Name: "OMP_*", Source: Source{Kind: FromUnset}}}})
		if _, set := asMap(t, without.Worker(w))["OMP_NUM_THREADS"]; set || without.OMPNote(w) != "" {
			t.Errorf("%s: --unset 'OMP_*' does not count", c.name)
		}
	}
}

// TestReserved checks that no user may ask for a variable that gorun itself sets.
func TestReserved(t *testing.T) {
	w := vars()
	for _, s := range NewBase(nil).Explain(w) {
		if own := !slices.Contains([]string{"OMP_NUM_THREADS", "TORCH_NCCL_ASYNC_ERROR_HANDLING", "PYTHONFAULTHANDLER"}, s.Name); reserved(s.Name) != own {
			t.Errorf("%s is reserved: %v", s.Name, !own)
		}
	}
	for v := range ncclenv.Variables() {
		if v.SetByGorun && !reserved(v.Name) {
			t.Errorf("%s is not reserved, but the catalogue says that gorun sets it", v.Name)
		}
	}
}
