package diagnose

import (
	"fmt"
	"strings"
	"testing"
)

// TestNearMisses checks lines that look like errors, in jobs that go on after them. No
// such line may be reported as why the job failed.
func TestNearMisses(t *testing.T) {
	for near := range strings.Lines(read(t, "testdata/near.txt")) {
		for _, before := range []int{0, 15} {
			var b strings.Builder
			for i := range 30 {
				if i == before {
					b.WriteString(near)
				}
				fmt.Fprintf(&b, "step %d loss %.3f lr 1e-4\n", i, 2-0.01*float64(i))
			}
			b.WriteString("saved checkpoint /out/step_30.pt\n")
			for _, f := range scan(t, "job.log", b.String()) {
				if f.Severity == SeverityCause && !f.Doubtful {
					t.Errorf("%q is taken for the cause: %s %s", near, f.ID, f.OneLine())
				}
			}
		}
	}
}
