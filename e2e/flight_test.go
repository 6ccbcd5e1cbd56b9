package e2e_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/gorun/gorun/launch/recorder"
)

// TestFlightRecorder checks the whole way from a rank's pipe to the user with programs that
// record as PyTorch does: 4 ranks on 2 nodes, of which rank 2 left a call out. gorun status
// says so of the running job, and the watch ends the job for it.
func TestFlightRecorder(t *testing.T) {
	t.Parallel()
	python(t, "pickle")
	dir := t.TempDir()
	j := newJob(t, "--nproc-per-node", "2", "--shutdown-timeout", "5", "--hang-timeout", "30", "--on-hang", "abort")
	j.env = []string{"TORCH_NCCL_DEBUG_INFO_PIPE_FILE=" + dir + "/rank_", "TORCH_FR_DUMP_TEMP_FILE=" + dir + "/flight_rank_"}
	agents := j.nodes(2, "testdata/records.py")
	for _, a := range agents {
		a.waitForStdout("recording", 2)
	}
	out, errText, code := runClient(t, agents[1].client("status", "--collectives", "--json"))
	var answer recorder.Job
	if err := json.Unmarshal([]byte(out), &answer); err != nil || code != 0 {
		t.Fatalf("%v, exit code %d: %s%s", err, code, out, errText)
	}
	if c := answer.Causes; len(c) != 1 || !slices.Equal(c[0].Ranks, []int{2}) || !slices.Equal(c[0].Waiting, []int{0, 1, 3}) || c[0].Collective != "all_reduce number 2 of default_pg" || len(answer.Missing)+len(answer.Silent) > 0 {
		t.Errorf("%s", out)
	}
	if out, _, _ := runClient(t, agents[0].client("status", "--collectives")); !strings.Contains(out, "default_pg: ranks 0, 1 and 3 wait in all_reduce [4] Float, number 2 (step (train.py:12))") {
		t.Errorf("%s", out)
	}
	j.wantExit(4*longWait, 124, agents...)
	j.wantCause(agents, "rank 2 ", "never entered all_reduce number 2 of default_pg that ranks 0, 1 and 3 wait in")
}
