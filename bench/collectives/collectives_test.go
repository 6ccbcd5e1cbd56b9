package collectives

import (
	"maps"
	"testing"
)

func TestParse(t *testing.T) {
	got := parse("[0] median 8 0.310\nnoise median\nmedian 4096 12.5\r\nmedian x 3\n")
	if want := map[int]float64{8: 0.31, 4096: 12.5}; !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestSidesWithoutTools(t *testing.T) {
	p := &Programs{worker: "w", mpi: "m", gloo: "g"}
	for _, s := range p.Sides(Tools{}) {
		if s.Missing == "" {
			t.Errorf("%s is not missing", s.Name)
		}
	}
	for _, s := range p.Sides(Tools{Gorun: "gorun", MPIRun: "mpirun", Python: "python"}) {
		if s.Missing != "" {
			t.Errorf("%s is missing: %s", s.Name, s.Missing)
		}
	}
}
