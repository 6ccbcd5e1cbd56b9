package ssh

import (
	"fmt"
	"testing"
)

// The exit code of a job follows from how its hosts end, in the order of their ends.
func TestOutcome(t *testing.T) {
	const lost = -1
	for _, tt := range []struct {
		ends   []int
		fixed  bool
		forced bool
		want   int
		failed string
	}{
		{ends: []int{0, 0}, fixed: true, want: 0},
		{ends: []int{0, 3, 7}, fixed: true, want: 3, failed: "n1"},
		{ends: []int{0, lost, 0}, fixed: true, want: 137, failed: "n1"},
		{ends: []int{lost, 9}, fixed: true, want: 9, failed: "n0"},
		{ends: []int{lost, 143}, fixed: true, forced: true, want: 137, failed: "n0"},
		{ends: []int{2, 143}, fixed: true, forced: true, want: 2, failed: "n0"},
		{ends: []int{lost, lost}, fixed: true, want: 137, failed: "n0"},
		{ends: []int{7, 0}, want: 0, failed: "n0"},
		{ends: []int{0, lost}, want: 0, failed: "n1"},
		{ends: []int{7, 7}, want: 7, failed: "n0"},
		{ends: []int{lost, lost}, want: 137, failed: "n0"},
	} {
		o := outcome{fixed: tt.fixed}
		for i, code := range tt.ends {
			h := Host{Name: fmt.Sprintf("n%d", i)}
			if first := o.add(h, code, code != lost); first != (h.Name == tt.failed) {
				t.Errorf("%+v: n%d is the first that failed: %v", tt, i, first)
			}
		}
		o.forced = tt.forced
		if got := o.code(); got != tt.want || o.failed.Name != tt.failed {
			t.Errorf("%+v: %d, %s", tt, got, o.failed)
		}
	}
}
