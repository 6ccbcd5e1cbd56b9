package spec

import (
	"testing"

	"github.com/gorun/gorun/launch/place"
)

// TestTaskWorkers checks that with --srun-tasks=workers each task is a worker, and that
// Slurm alone binds it.
func TestTaskWorkers(t *testing.T) {
	around := slurmStep()
	around.Task.Count, around.Task.Key = 2, "k"
	for _, tt := range []struct {
		flags   flags
		check   bool
		workers bool
		nproc   int // 0: refused
	}{
		{nil, false, false, 8},
		{flags{"srun_tasks": "agent"}, false, false, 8},
		{flags{"srun_tasks": "workers"}, false, true, 2},
		{flags{"srun_tasks": "workers", "nproc_per_node": "2", "pin": "none"}, false, true, 2},
		{flags{"srun_tasks": "workers"}, true, false, 8},
		{flags{"srun_tasks": "workers", "surroundings": "none"}, false, false, 1},
		{flags{"srun_tasks": "workers", "nproc_per_node": "3"}, false, false, 0},
		{flags{"srun_tasks": "workers", "pin": "order"}, false, false, 0},
		{flags{"srun_tasks": "workers", "virtual_local_rank": "1"}, false, false, 0},
		{flags{"srun_tasks": "workers", "numa_binding": "node"}, false, false, 0},
		{flags{"srun_tasks": "workers", "local_nodes": "2"}, false, false, 0},
		{flags{"srun_tasks": "all"}, false, false, 0},
	} {
		s, err := Raw{Flags: tt.flags, Command: []string{"train.py"}, Check: tt.check, Surroundings: found(around)}.Resolve(func(string) (string, bool) { return "", false })
		if (err == nil) != (tt.nproc > 0) {
			t.Errorf("%v: %v", tt.flags, err)
			continue
		}
		if err == nil && (s.Surroundings.TaskWorkers != tt.workers || s.Nproc.Count != tt.nproc || (s.Devices.Place.Mode == place.None) != tt.workers) {
			t.Errorf("%v: %+v, %+v, %q", tt.flags, s.Surroundings, s.Nproc, s.Devices.Place.Mode)
		}
	}
}
