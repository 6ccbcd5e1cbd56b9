package wrap

import (
	"strings"
	"testing"

	"github.com/gorun/gorun/envprop"
	"github.com/gorun/gorun/rendezvous/preflight"
)

// TestSettle checks that the losses that count are known once the environment is
// decided.
func TestSettle(t *testing.T) {
	give := func(names ...string) (a envprop.Assignment) {
		for _, name := range names {
			a.Set = append(a.Set, envprop.Setting{Name: name, Value: envprop.NewValue(name, "1")})
		}
		return a
	}
	docker := []string{"run", "-e", "RANK", "-e", "PASSED", "-e", "NCCL_DEBUG*", "image", "train"}
	for name, c := range map[string]struct {
		args    []string
		lost    preflight.Lost
		a       envprop.Assignment
		missing string
		changed string
		untried string
		fix     string
	}{
		"nothing is decided": {lost: preflight.Lost{Missing: []string{"A"}, Fix: []string{"as it was"}}, missing: "A", fix: "as it was"},
		"given perhaps, and not": {
			lost: preflight.Lost{Missing: []string{"A", "B"}, Changed: []string{"C"}, Perhaps: []string{"B", "C"}, Fix: []string{"f unsets A: x", "f unsets B: x"}},
			a:    give("D"), missing: "A", fix: "f unsets A: x",
		},
		"given": {lost: preflight.Lost{Missing: []string{"B"}, Perhaps: []string{"B"}, Fix: []string{"f unsets B"}}, a: give("B", "D"), missing: "B", fix: "f unsets B"},
		"taken away by all": {
			lost: preflight.Lost{Missing: []string{"A"}, Fix: []string{"f unsets A"}}, a: envprop.Assignment{Unset: []envprop.Removal{{Name: "A"}}},
		},
		"another node's, into a container": {
			args: docker, lost: preflight.Lost{Missing: []string{"A"}, Fix: []string{"x"}, Closed: true, Passed: []string{"PASSED", "RANK"}},
			a: give("NEW", "PASSED", "NCCL_DEBUG_FILE"), missing: "A", untried: "NEW", fix: "  docker run -e A -e NEW ...",
		},
		"not given, into a container": {
			args: docker, lost: preflight.Lost{Missing: []string{"A"}, Perhaps: []string{"A"}, Fix: []string{"x"}, Closed: true},
		},
	} {
		f := &preflight.Facts{Program: preflight.Program{Title: "docker", Args: c.args}, Lost: &c.lost}
		Settle(f, c.a)
		join := func(list []string) string { return strings.Join(list, " ") }
		if join(f.Lost.Missing) != c.missing || join(f.Lost.Changed) != c.changed || join(f.Lost.Untried) != c.untried {
			t.Errorf("%s: %+v", name, f.Lost)
		}
		if c.fix == "" && len(f.Lost.Fix) > 0 || c.fix != "" && (len(f.Lost.Fix) == 0 || f.Lost.Fix[len(f.Lost.Fix)-1] != c.fix) {
			t.Errorf("%s: the fix is %q", name, f.Lost.Fix)
		}
	}
}
