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

// steps are lines of a job that works.
func steps(n int) string { return strings.Repeat("step 2 loss 2.1\n", n) }

// TestGoodEnds plays lines that look like an error, or like a failed end, as the last line
// of a job that worked. Those below the empty line of the file may be shown as doubtful.
func TestGoodEnds(t *testing.T) {
	certain, doubtful, _ := strings.Cut(read(t, "testdata/good-ends.txt"), "\n\n")
	for line := range strings.Lines(certain + "\n" + doubtful) {
		found := scan(t, oneFile(steps(30)+line)...)
		if len(found) > 0 && !(found[0].Doubtful && strings.Contains(doubtful, line)) {
			t.Errorf("%q: got %s", line, found[0].OneLine())
		}
	}
}

// TestSuccesses plays lines that say that the job ended well after an exception that was
// overcome.
func TestSuccesses(t *testing.T) {
	for line := range strings.Lines(read(t, "testdata/successes.txt")) {
		if found := scan(t, oneFile(raised+steps(3)+line)...); len(found) > 0 {
			t.Errorf("%q: got %s", line, found[0].OneLine())
		}
	}
	if found := scan(t, oneFile(raised+steps(3))...); len(found) == 0 {
		t.Error("without such a line: got nothing")
	}
}

// raised is an exception that ends a program.
const raised = "Traceback (most recent call last):\n  File \"t.py\", line 3, in <module>\n    f()\nValueError: bad shape\n"

// TestNoGoodEnds plays lines that look like a good end, a restart or an error that was
// overcome after an exception that ends the job.
func TestNoGoodEnds(t *testing.T) {
	for line := range strings.Lines(read(t, "testdata/no-good-ends.txt")) {
		log := steps(3) + raised + line
		if found := scan(t, oneFile(log)...); len(found) == 0 || !strings.Contains(found[0].Text, "bad shape") {
			t.Errorf("%q: got %+v", line, found)
		}
	}
	for _, line := range []string{
		"RuntimeError: CUDA error: device-side assert triggered, ignoring further launches",
		"train: error while loading shared libraries: libfoo.so: cannot open (will be used by plugin)",
		"There are not enough slots available in the system to satisfy the 4 slots, attempt 1",
		"Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 1000 (falling back is impossible)",
	} {
		if found := scan(t, oneFile(steps(3)+line+"\n")...); len(found) == 0 {
			t.Errorf("%q: got nothing", line)
		}
	}
}
