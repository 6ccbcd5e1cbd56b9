package diagnose

import "testing"

// TestHostOfTask shows when the task of srun that ended gives a rank its host.
func TestHostOfTask(t *testing.T) {
	const failed = "[rank2]: RuntimeError: CUDA error: uncorrectable ECC error encountered\n"
	for name, tt := range map[string]struct{ log, host string }{
		"a task for each rank":      {failed + "srun: error: gpu1: task 2: Exited with exit code 1\nsrun: error: gpu1: tasks 0-1,3: Terminated\n", "gpu1"},
		"a task for each node":      {failed + "srun: error: gpu3: task 2: Exited with exit code 1\nsrun: error: gpu1: task 0: Terminated\n", ""},
		"more ranks than tasks":     {"world_size=16\n" + failed + "srun: error: gpu3: task 2: Exited with exit code 1\nsrun: error: gpu3: task 3: Terminated\n", ""},
		"no line about that task":   {failed + "srun: error: gpu1: tasks 0-1,3: Terminated\n", ""},
		"a record names the host":   {"2026-01-02 03:04:05 ERROR Version mismatch: started with:\n  A: 1\nthe process on node gpu7 has:\n", "gpu7"},
		"another record's host":     {"2026-01-02 03:04:05 ERROR Version mismatch: started with:\n2026-01-02 03:04:06 INFO the process on node gpu7 has:\n", ""},
		"without times, no records": {"ERROR Version mismatch: started with:\nthe process on node gpu7 has:\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			found := scan(t, oneFile(tt.log)...)
			if len(found) == 0 || found[0].Host != tt.host {
				t.Errorf("got %+v, want host %q", found, tt.host)
			}
		})
	}
}
