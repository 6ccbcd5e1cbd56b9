package smallfile

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestWritable checks what Writable returns for files and folders of each kind.
func TestWritable(t *testing.T) {
	dir := t.TempDir()
	file, readOnly := filepath.Join(dir, "there.json"), filepath.Join(dir, "readOnly")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(readOnly, 0o500); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"":                                 "",
		file:                               "",
		filepath.Join(dir, "new.json"):     "",
		os.DevNull:                         "",
		dir:                                "it is a folder",
		filepath.Join(dir, "no", "x.json"): "there is no folder " + filepath.Join(dir, "no"),
		filepath.Join(file, "x.json"):      "there is no folder " + file,
		filepath.Join(readOnly, "x.json"):  "permission denied",
	} {
		if want == "permission denied" && os.Geteuid() == 0 {
			continue // root may
		}
		err := Writable(name)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v, want %q", name, err, want)
		}
	}
}
