package smallfile

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Writable finds a file that cannot be written before the job starts.
func TestWritable(t *testing.T) {
	dir := t.TempDir()
	file, sealed := filepath.Join(dir, "there.json"), filepath.Join(dir, "sealed")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(sealed, 0o500); err != nil {
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
		filepath.Join(sealed, "x.json"):    "permission denied",
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
