package envprop

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// TestUntrustedNodes checks that without a secret no node can set or remove a variable
// that runs code for another node. With a secret all variables travel.
func TestUntrustedNodes(t *testing.T) {
	t.Parallel()
	second := fake{env: []string{"PATH=/bin", "PYTHONPATH=/mine", "PYTHONSAFEPATH=1", "NCCL_TUNER_PLUGIN=tune", "PLAIN=2"}}
	for name, c := range map[string]struct {
		other           fake
		names           []string
		closed, trusted string // what the second node's workers see
		note            string
	}{
		"-x":                  {fake{x: []string{"LD_PRELOAD=/evil.so", "SEED=1"}}, []string{"LD_PRELOAD", "SEED"}, "1", "/evil.so+1", "-x LD_PRELOAD of n0.cluster is left out"},
		"-x for one":          {fake{x: []string{"node=1:BROWSER=sh"}}, []string{"BROWSER"}, "", "sh", "-x node=1:BROWSER of n0.cluster"},
		"-x for a rank":       {fake{x: []string{"node=1:NODE_OPTIONS=-r x"}}, []string{"NODE_OPTIONS"}, "", "-r x", "-x node=1:NODE_OPTIONS"},
		"a pattern":           {fake{env: []string{"PYTHONWARNINGS=evil", "MY=1"}, x: []string{"PYTHONW*", "M*"}}, []string{"PYTHONWARNINGS", "MY"}, "1", "1+evil", "-x PYTHONW*"},
		"env file":            {fake{file: "PATH=/evil\nSEED=1\n"}, []string{"PATH", "SEED"}, "/bin+1", "/evil+1", "job.env:1 of n0.cluster"},
		"first node":          {fake{env: []string{"NCCL_NET_PLUGIN=/evil.so", "NCCL_ALGO=Ring"}}, []string{"NCCL_NET_PLUGIN", "NCCL_ALGO"}, "Ring", "Ring+/evil.so", ""},
		"first has none":      {fake{}, []string{"NCCL_TUNER_PLUGIN"}, "", "", ""},
		"no plugin":           {fake{x: []string{"NCCL_NET_PLUGIN=none"}}, []string{"NCCL_NET_PLUGIN"}, "none", "none", ""},
		"--unset":             {fake{unset: []string{"PYTHONSAFEPATH", "PLAIN"}}, []string{"PYTHONSAFEPATH", "PLAIN"}, "1", "", "--unset PYTHONSAFEPATH"},
		"--unset pattern":     {fake{unset: []string{"P*"}}, []string{"PATH", "PYTHONPATH", "PLAIN"}, "/bin+/mine", "", ""},
		"what both ask":       {fake{x: []string{"HOME=/a"}}, []string{"HOME"}, "", "/a", "-x HOME"},
		"a harmless variable": {fake{env: []string{"PYTHONHASHSEED=7"}}, []string{"PYTHONHASHSEED"}, "7", "7", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			nodes := []fake{c.other, second}
			for _, trusted := range []bool{false, true} {
				d := Unify(reports(t, nodes), Policy{Trusted: trusted})
				want, notes := c.closed, strings.Join(d.Notes, "\n")
				if trusted {
					want = c.trusted
				}
				if got := effective(nodes, d, c.names...)[1]; got != want {
					t.Errorf("trusted %v: the second node's workers get %q, want %q", trusted, got, want)
				}
				if trusted && notes != "" || !trusted && (c.note == "") != (notes == "") || !trusted && !strings.Contains(notes, c.note) {
					t.Errorf("trusted %v: notes %q, want %q", trusted, notes, c.note)
				}
			}
		})
	}
}

// TestNodeFollowsItsOwnRequests checks that without a secret a node still follows its
// own requests.
func TestNodeFollowsItsOwnRequests(t *testing.T) {
	t.Parallel()
	nodes := []fake{
		{x: []string{"LD_PRELOAD=/first.so", "node=1:PYTHONPATH=/evil"}},
		{env: []string{"PYTHONSAFEPATH=1", "PATH=/bin"}, x: []string{"LD_PRELOAD=/second.so", "node=1:PYTHONPATH=/mine", "node=0:BROWSER=sh"}, unset: []string{"PYTHONS*"}},
	}
	d := Unify(reports(t, nodes), Policy{})
	got := effective(nodes, d, "LD_PRELOAD", "PYTHONPATH", "PYTHONSAFEPATH", "BROWSER", "PATH")
	if want := []string{"/first.so", "/second.so+/bin+/mine"}; !slices.Equal(got, want) {
		t.Errorf("workers get %q, want %q", got, want)
	}
}

// TestDistrustedCoordinator checks that a malicious coordinator cannot make a node run
// its code.
func TestDistrustedCoordinator(t *testing.T) {
	t.Parallel()
	second := fake{env: []string{"PATH=/bin", "PYTHONPATH=/mine", "NCCL_NET_PLUGIN=mine"}, x: []string{"LD_PRELOAD=/mine.so"}, unset: []string{"PERL5LIB"}}
	own := Unify([]Report{{}, second.report(t, 1)}, Policy{}).Members[1]
	set := func(name, value string) Setting {
		return Setting{name, NewValue(name, value), Source{Kind: FromFlag, Node: "n0", At: "-x " + name}}
	}
	given := Assignment{
		Set: []Setting{set("BROWSER", "sh"), set("LD_PRELOAD", "/evil.so"), set("NCCL_NET_PLUGIN", "none"), set("SEED", "1")},
		Unset: []Removal{
			{Name: "P*", Source: Source{Kind: FromUnset}}, {Name: "PYTHONPATH", Source: Source{Kind: FromUnset}}, {Name: "PLAIN", Source: Source{Kind: FromUnset}},
		},
	}
	safe, left := given.FilterUntrusted(own)
	var names []string
	for _, s := range left {
		names = append(names, s.Name)
	}
	if want := []string{"BROWSER", "LD_PRELOAD"}; !slices.Equal(names, want) {
		t.Errorf("it rejects %v, want %v", names, want)
	}
	var got []string
	for _, s := range NewBase(append(second.env, "PLAIN=2", "PERL5LIB=/x")).Apply(safe).Explain(Vars{}) {
		if s.Source.Kind != FromGorun {
			got = append(got, fmt.Sprint(s.Name, "=", s.Value.Reveal()))
		}
	}
	if want := []string{"LD_PRELOAD=/mine.so", "NCCL_NET_PLUGIN=none", "PATH=/bin", "PYTHONPATH=/mine", "SEED=1"}; !slices.Equal(got, want) {
		t.Errorf("workers get %q, want %q", got, want)
	}
}

// BenchmarkUntrusted decides for ten thousand nodes that start the same command.
func BenchmarkUntrusted(b *testing.B) {
	var nodes []Report
	for i := range 10000 {
		r, err := NewRequest(Options{X: []string{"PYTHONPATH=/shared", "LD_LIBRARY_PATH=/lib", "SEED=1"}}, nil)
		if err != nil {
			b.Fatal(err)
		}
		nodes = append(nodes, NewReport(Node{fmt.Sprint("n", i), fmt.Sprintf("10.0.%d.%d", i/250, i%250), "default"}, nil, nil, r))
	}
	for b.Loop() {
		if d := Unify(nodes, Policy{}); len(d.Notes) != 0 {
			b.Fatal(d.Notes)
		}
	}
}
