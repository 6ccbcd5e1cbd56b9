package launch

import (
	"os"
	"path/filepath"
	"testing"
)

// A folder that takes no files is passed over, as Python does.
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
