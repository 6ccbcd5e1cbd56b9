package device

import (
	"os"
	"path/filepath"
	"testing"
)

// TestHasDriver shows that a container without GPUs sees the driver in /proc and
// cannot call it.
func TestHasDriver(t *testing.T) {
	for file, want := range map[string][2]bool{
		"dev/nvidiactl": {true, true}, "dev/dxg": {true, true}, "proc/driver/nvidia/version": {true, false}, "dev/null": {},
	} {
		root := t.TempDir()
		if err := os.MkdirAll(filepath.Join(root, filepath.Dir(file)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, file), nil, 0o644); err != nil {
			t.Fatal(err)
		}
		c := Child{Root: root}
		if got := [2]bool{c.HasDriver(), c.HasDeviceFile()}; got != want {
			t.Errorf("%s: has driver, has device file: %v, want %v", file, got, want)
		}
	}
}
