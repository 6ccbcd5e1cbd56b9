package diagnose

import "testing"

// TestSentencesOfAHang shows that the sentences of package hang are the cause of a job
// that gorun stopped.
func TestSentencesOfAHang(t *testing.T) {
	for _, c := range []struct {
		text string
		rank int
	}{
		{"rank 1 (n1) is stopped by a signal (kill -CONT 7 lets it go on); no rank has made progress for 5m1s, and none computes, reads or writes files", 1},
		{"rank 0 is in all-reduce #7 at x.go:1 for 5m1s, none is behind, and it does not end: look at the network and the devices between them", 0},
		{"ranks 0 and 1 are all in all-reduce #7 for 5m1s, none is behind, and it does not end: look at the network and the devices between them", -1},
		{"no rank has made progress for 5m1s, and none computes, reads or writes files", -1},
		{"rank 1 (n1) never entered all-reduce #7 that rank 0 waits in since 5m1s; it is in load (data.go:3)", 1},
	} {
		found := scan(t, "job.log", "step 1\ngorun: "+c.text+"; exit code 124\n")
		if len(found) == 0 || found[0].ID != "X-HANG" || found[0].Rank != c.rank {
			t.Errorf("%s: %+v", c.text, found)
		}
	}
}
