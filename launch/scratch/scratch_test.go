package scratch

import (
	"os"
	"path/filepath"
	"testing"
)

// TestTempDir checks that a folder that takes no files is skipped, as in Python.
func TestTempDir(t *testing.T) {
	good := t.TempDir()
	file := filepath.Join(good, "file")
	if err := os.WriteFile(file, nil, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TEMP", good)
	for _, bad := range []string{"", filepath.Join(good, "nosuch"), file} {
		t.Setenv("TMPDIR", bad)
		if got := tempDir(); got != good {
			t.Errorf("TMPDIR=%s: %s, not %s", bad, got, good)
		}
	}
}

// TestMemoryDir checks that TMPDIR wins, and that without it small files are not on
// a disk.
func TestMemoryDir(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	if got := memoryDir(); got != dir {
		t.Errorf("with TMPDIR=%s: %s", dir, got)
	}
	t.Setenv("TMPDIR", "")
	got := memoryDir()
	if got != "/dev/shm" && got != os.TempDir() {
		t.Errorf("without TMPDIR: %s", got)
	}
	f, err := os.CreateTemp(got, "gorun-test*")
	if err != nil {
		t.Fatalf("%s cannot be used: %v", got, err)
	}
	f.Close()
	_ = os.Remove(f.Name())
}
