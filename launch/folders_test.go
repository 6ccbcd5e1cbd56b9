package launch

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/gorun/gorun/launch/logs"
)

// The folders of the first attempt are made once, by whoever comes first; a round
// that starts again has its own; what is empty at the end goes.
func TestFolders(t *testing.T) {
	for _, ahead := range []bool{false, true} {
		base := filepath.Join(t.TempDir(), "torchelastic_x")
		dir, err := logs.NewDir("", base, "none")
		if err != nil {
			t.Fatal(err)
		}
		f := newFolders(dir, true, 2)
		if ahead {
			f.ahead()
		}
		var all []string
		for _, n := range []int{0, 0, 1} {
			path, err := f.attempt(n)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, path)
		}
		if all[0] == all[1] || all[1] == all[2] {
			t.Errorf("%q are not different", all)
		}
		for _, path := range all {
			if _, err := os.Stat(filepath.Join(path, "1")); err != nil {
				t.Error(err)
			}
		}
		f.clean()
		if _, err := os.Stat(base); !os.IsNotExist(err) {
			t.Errorf("ahead %v: %s is left (%v)", ahead, base, err)
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
	f := newFolders(logs.Dir{Path: filepath.Join("blocker", "base", "run")}, true, 2)
	if path, err := f.attempt(0); err == nil {
		t.Fatalf("%q was made", path)
	}
	f.clean()
	for _, file := range []string{"0", "blocker"} {
		if _, err := os.Stat(file); err != nil {
			t.Error(err)
		}
	}
}
