package porttest

import "testing"

// TestFree checks that ports of a test differ, and that they are given back.
func TestFree(t *testing.T) {
	t.Run("claims", func(t *testing.T) {
		seen := map[int]bool{}
		for range 50 {
			port := Free(t, "127.0.0.1")
			if seen[port] {
				t.Errorf("port %d twice", port)
			}
			seen[port] = true
			if claim(t, "127.0.0.1", port) {
				t.Errorf("port %d could be claimed twice", port)
			}
		}
	})
	port := 0
	t.Run("ends", func(t *testing.T) { port = Free(t, "127.0.0.1") })
	if !claim(t, "127.0.0.1", port) {
		t.Errorf("port %d is still claimed after its test", port)
	}
}
