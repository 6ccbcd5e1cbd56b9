package place

import (
	"testing"

	"github.com/gorun/gorun/launch/numa"
)

func TestPlanSeparatesWorkers(t *testing.T) {
	on := func(bound bool, cpus ...int) Slot { return Slot{Binding: numa.Binding{CPUs: cpus, Bound: bound}} }
	for name, tc := range map[string]struct {
		slots []Slot
		want  bool
	}{
		"no workers":      {nil, false},
		"unbound":         {[]Slot{on(false, 0), on(false, 1)}, false},
		"one unbound":     {[]Slot{on(true, 0), {}}, false},
		"disjoint":        {[]Slot{on(true, 0, 1), on(true, 2)}, true},
		"a CPU of two":    {[]Slot{on(true, 0, 1), on(true, 1, 2)}, false},
		"first and third": {[]Slot{on(true, 0), on(true, 1), on(true, 0)}, false},
	} {
		if got := (&Plan{Slots: tc.slots}).Separates(); got != tc.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
