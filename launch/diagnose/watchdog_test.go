package diagnose

import "testing"

// TestMissingRank shows which ranks count as missing where watchdogs of others time out.
func TestMissingRank(t *testing.T) {
	const (
		timeout = ":[E1 P.cpp:1] [PG 0 (default_pg) Rank %] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7, OpType=ALLREDUCE, NumelIn=1)"
		failed  = ":[E1 P.cpp:2] [Rank %] Some NCCL operations have failed or timed out."
		step    = ": step 3 loss 2.1\n"
	)
	line := func(text string, rank byte) string {
		out := "[rank" + string(rank) + "]"
		for _, c := range []byte(text) {
			if c == '%' {
				c = rank
			}
			out += string(c)
		}
		return out
	}
	for _, c := range []struct {
		name, log string
		rank      int
	}{
		{"it prints, and reports nothing", "[rank0]" + step + "[rank1]" + step + line(timeout, '0') + "\n" + line(timeout, '2') + "\n", 1},
		{"it stopped a call, too", "[rank0]" + step + "[rank1]" + step + line(timeout, '2') + "\n" + line(timeout, '0') + "\n" + line(failed, '1') + "\n", -1},
		{"Ray left its line out", "[rank0]" + step + "[rank1]" + step + line(timeout, '2') + " [repeated 2x across cluster]\n", -1},
	} {
		found := scan(t, "job.log", c.log)
		if len(found) == 0 || found[0].Rank != c.rank || c.rank >= 0 && found[0].ID != "X-TIMEOUT-MISSING-RANK" {
			t.Errorf("%s: %+v", c.name, found)
		}
	}
}
