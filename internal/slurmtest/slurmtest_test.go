package slurmtest

import (
	"context"
	"os"
	"os/exec"
	"testing"
	"time"
)

// TestCluster checks that a cluster runs a step on all its nodes, and that nothing of
// it is left.
func TestCluster(t *testing.T) {
	began := time.Now()
	c := Start(t, Options{Nodes: 2, GPUs: 2})
	t.Logf("up after %v", time.Since(began).Round(time.Millisecond))
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, "srun", "-l", "-N2", "--gpus-per-node=1", "sh", "-c", "hostname; setsid sleep 1000 >/dev/null 2>&1 & echo $SLURM_GPUS_ON_NODE")
	cmd.Env = c.Env()
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	t.Logf("%s", out)
	c.Close()
	if left := c.processes(); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	if _, err := os.Stat(c.dir); err == nil {
		t.Errorf("%s is left", c.dir)
	}
}
