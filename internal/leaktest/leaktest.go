// Package leaktest finds goroutines that outlive a test. It belongs to tests only.
package leaktest

import (
	"runtime"
	"strings"
	"testing"
	"time"
)

// Check fails the test if, 5 seconds after its end, a goroutine still runs functions
// whose names contain one of the parts. Goroutines of the test itself do not count.
func Check(t testing.TB, parts ...string) {
	t.Helper()
	t.Cleanup(func() {
		var left string
		for end := time.Now().Add(5 * time.Second); time.Now().Before(end); <-time.After(5 * time.Millisecond) {
			if left = running(parts); left == "" {
				return
			}
		}
		t.Errorf("goroutines are left:\n%.4000s", left)
	})
}

// running returns the stacks of the goroutines that contain one of the parts.
func running(parts []string) string {
	buf := make([]byte, 1<<20)
	buf = buf[:runtime.Stack(buf, true)]
	var found strings.Builder
	for stack := range strings.SplitSeq(string(buf), "\n\n") {
		if strings.Contains(stack, "testing.(*T).Run") || strings.Contains(stack, "leaktest.") {
			continue
		}
		for _, part := range parts {
			if strings.Contains(stack, part) {
				found.WriteString(stack + "\n\n")
				break
			}
		}
	}
	return found.String()
}
