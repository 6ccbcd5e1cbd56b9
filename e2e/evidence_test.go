package e2e_test

import (
	"strings"
	"testing"
)

// The rank that ends first says only that it was aborted. The rank that knows why hangs,
// and is stopped. The report shows what this rank had written, and does not call it a
// failure.
func TestEvidenceOfAStoppedWorkerIsReported(t *testing.T) {
	t.Parallel()
	j := newJob(t, "--shutdown-timeout", "1")
	agents := j.nodes(2, sh(`
		if [ $RANK = 1 ]; then
			echo 'n2:42:43 [0] init.cc:904 NCCL WARN Duplicate GPU detected : rank 0 and rank 1 both on CUDA device 1a000' >&2
			touch $E2E_DIR/reported
			exec sleep 100
		fi
		until [ -e $E2E_DIR/reported ]; do sleep 0.01; done
		sleep 0.2
		echo 'n1:41:44 [0] proxy.cc:1458 NCCL WARN [Service thread] Accept failed Resource temporarily unavailable' >&2
		exit 3`)...)
	j.wantExit(longWait, 3, agents...)
	for _, a := range agents {
		stderr := a.err.String()
		if !strings.Contains(stderr, "likely cause: ") || !strings.Contains(stderr, "[D01]") {
			t.Errorf("%s does not name the likely cause", a.name)
		}
		if strings.Count(stderr, "rank      :") != 1 {
			t.Errorf("%s lists the witness as a failure", a.name)
		}
	}
}
