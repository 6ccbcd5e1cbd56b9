package numa

import (
	"fmt"
	"testing"
	"testing/fstest"
)

// TestCores shows that one file says that a machine has no SMT. The siblings of
// a CPU are then not read, which the wrong siblings here show.
func TestCores(t *testing.T) {
	cpus := Set{0, 1, 2, 3}
	for _, c := range []struct {
		active string
		first  string // siblings of CPU 0
		want   int
	}{
		{"0", "0", 4},
		{"1", "0,2", 2},
		{"", "0,2", 2},
		{"rubbish", "0,2", 2},
		{"0", "0,2", 2}, // a kernel whose scheduler ignores SMT
	} {
		root := fstest.MapFS{}
		for cpu := range cpus {
			name := fmt.Sprintf("%s/cpu%d/topology/thread_siblings_list", cpuDir, cpu)
			text := fmt.Sprintf("%d,%d", cpu%2, cpu%2+2)
			if cpu == 0 {
				text = c.first
			}
			root[name] = &fstest.MapFile{Data: []byte(text + "\n")}
		}
		if c.active != "" {
			root[cpuDir+"/smt/active"] = &fstest.MapFile{Data: []byte(c.active + "\n")}
		}
		if got := Cores(root, cpus); len(got) != c.want {
			t.Errorf("smt/active %q, CPU 0 with %s: %v, want %d cores", c.active, c.first, got, c.want)
		}
	}
}
