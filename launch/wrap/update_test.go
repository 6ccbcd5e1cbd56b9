package wrap

import (
	"strings"
	"testing"

	"github.com/gorun/gorun/envprop"
	"github.com/gorun/gorun/rendezvous/preflight"
)

// TestUpdateLoss checks that the losses that count are known once the environment is
// decided.
func TestUpdateLoss(t *testing.T) {
	give := func(names ...string) (a envprop.Assignment) {
		for _, name := range names {
			a.Set = append(a.Set, envprop.Setting{Name: name, Value: envprop.NewValue(name, "1")})
		}
		return a
	}
	docker := []string{"run", "-e", "RANK", "-e", "PASSED", "-e", "NCCL_DEBUG*", "image", "train"}
	for name, c := range map[string]struct {
		args    []string
		lost    preflight.WrapperLoss
		a       envprop.Assignment
		missing string
		changed string
		untried string
		fix     string
	}{
		"nothing is decided": {lost: preflight.WrapperLoss{Missing: []string{"A"}, Fix: []string{"as it was"}}, missing: "A", fix: "as it was"},
		"given perhaps, and not": {
			lost: preflight.WrapperLoss{Missing: []string{"A", "B"}, Changed: []string{"C"}, Conditional: []string{"B", "C"}, Fix: []string{"f unsets A: x", "f unsets B: x"}},
			a:    give("D"), missing: "A", fix: "f unsets A: x",
		},
		"given": {lost: preflight.WrapperLoss{Missing: []string{"B"}, Conditional: []string{"B"}, Fix: []string{"f unsets B"}}, a: give("B", "D"), missing: "B", fix: "f unsets B"},
		"taken away by all": {
			lost: preflight.WrapperLoss{Missing: []string{"A"}, Fix: []string{"f unsets A"}}, a: envprop.Assignment{Unset: []envprop.Removal{{Name: "A"}}},
		},
		"another node's, into a container": {
			args: docker, lost: preflight.WrapperLoss{Missing: []string{"A"}, Fix: []string{"x"}, BlocksUnknown: true, Arrived: []string{"PASSED", "RANK"}},
			a: give("NEW", "PASSED", "NCCL_DEBUG_FILE"), missing: "A", untried: "NEW", fix: "  docker run -e A -e NEW ...",
		},
		"not given, into a container": {
			args: docker, lost: preflight.WrapperLoss{Missing: []string{"A"}, Conditional: []string{"A"}, Fix: []string{"x"}, BlocksUnknown: true},
		},
	} {
		f := &preflight.Facts{Program: preflight.Program{Title: "docker", Args: c.args}, WrapperLoss: &c.lost}
		UpdateLoss(f, c.a)
		join := func(list []string) string { return strings.Join(list, " ") }
		if join(f.WrapperLoss.Missing) != c.missing || join(f.WrapperLoss.Changed) != c.changed || join(f.WrapperLoss.Unsent) != c.untried {
			t.Errorf("%s: %+v", name, f.WrapperLoss)
		}
		if c.fix == "" && len(f.WrapperLoss.Fix) > 0 || c.fix != "" && (len(f.WrapperLoss.Fix) == 0 || f.WrapperLoss.Fix[len(f.WrapperLoss.Fix)-1] != c.fix) {
			t.Errorf("%s: the fix is %q", name, f.WrapperLoss.Fix)
		}
	}
}
