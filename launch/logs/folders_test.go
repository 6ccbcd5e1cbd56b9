package logs

import (
	"os"
	"path/filepath"
	"testing"
)

// Every round has folders of its own; what is empty at the end is removed.
func TestFolders(t *testing.T) {
	base := filepath.Join(t.TempDir(), "torchelastic_x")
	dir, err := NewDir("", base, "none")
	if err != nil {
		t.Fatal(err)
	}
	f := NewFolders(dir, true, 2)
	made := map[string]bool{}
	for _, attempt := range []int{0, 0, 1} {
		path, err := f.Make(attempt)
		if err != nil {
			t.Fatal(err)
		}
		if made[path] {
			t.Errorf("%s is of two rounds", path)
		}
		made[path] = true
		if _, err := os.Stat(filepath.Join(path, "1")); err != nil {
			t.Error(err)
		}
	}
	f.RemoveEmpty()
	if _, err := os.Stat(base); !os.IsNotExist(err) {
		t.Errorf("%s is left (%v)", base, err)
	}
}

// Folders that somebody asked for stay, and so does what is not empty.
func TestFoldersStay(t *testing.T) {
	for _, temporary := range []bool{false, true} {
		dir := Dir{Path: filepath.Join(t.TempDir(), "base", "run")}
		f := NewFolders(dir, temporary, 1)
		path, err := f.Make(0)
		if err != nil {
			t.Fatal(err)
		}
		if temporary {
			if err := os.WriteFile(filepath.Join(path, "0", "error.json"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		f.RemoveEmpty()
		if _, err := os.Stat(filepath.Join(path, "0")); err != nil {
			t.Errorf("temporary %v: %v", temporary, err)
		}
	}
}

// Folders that could not be made are not removed, nor is what has such a name in
// the working directory.
func TestFoldersNotMade(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, file := range []string{"0", "blocker"} {
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	f := NewFolders(Dir{Path: filepath.Join("blocker", "base", "run")}, true, 2)
	if path, err := f.Make(0); err == nil {
		t.Fatalf("%q was made", path)
	}
	f.RemoveEmpty()
	for _, file := range []string{"0", "blocker"} {
		if _, err := os.Stat(file); err != nil {
			t.Error(err)
		}
	}
}
