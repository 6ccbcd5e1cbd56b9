package place

import (
	"os"
	"testing"
	"testing/fstest"

	"github.com/gorun/gorun/launch/numa"
)

func TestDivide(t *testing.T) {
	root := os.DirFS("/")
	cpus, _, err := numa.Allowed()
	if err != nil {
		t.Fatal(err)
	}
	cores := len(numa.Cores(root, cpus))
	if got := Divide(root, cores+1); got != nil {
		t.Errorf("%d workers got %v of %d cores", cores+1, got, cores)
	}
	if got := Divide(root, 1); got != nil {
		t.Errorf("a single worker got %v", got)
	}
	if cores < 2 || numa.Quota(root) > 0 {
		t.Skipf("this machine has %d cores and a quota of %v", cores, numa.Quota(root))
	}
	var taken numa.Set
	for _, set := range Divide(root, cores) {
		if len(set) == 0 || len(set.And(cpus)) != len(set) || len(set.And(taken)) > 0 {
			t.Errorf("a worker got %v of %v, of which others have %v", set, cpus, taken)
		}
		taken = taken.Or(set)
	}
	if len(taken) == 0 {
		t.Error("no worker got CPUs")
	}
	if got := Divide(fstest.MapFS{
		"proc/self/cgroup":      {Data: []byte("0::/\n")},
		"sys/fs/cgroup/cpu.max": {Data: []byte("50000 100000\n")},
	}, 2); got != nil {
		t.Errorf("half a CPU was divided: %v", got)
	}
}

func TestWhoDivides(t *testing.T) {
	none := &Plan{Slots: make([]Slot, 2)}
	for name, tc := range map[string]struct {
		config Config
		plan   *Plan
		want   bool
	}{
		"by default":       {Config{}, none, true},
		"bound":            {Config{Options: Options{Binding: numa.ByNode}}, none, false},
		"none":             {Config{Options: Options{Unbound: true}}, none, false},
		"several agents":   {Config{Agents: 2}, none, false},
		"workers of a GPU": {Config{}, &Plan{Slots: []Slot{{}, {GPUs: []string{"GPU-1"}}}}, false},
	} {
		if got := tc.config.Divides(tc.plan); got != tc.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
