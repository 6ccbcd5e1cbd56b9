package logs

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func TestFolderLayout(t *testing.T) {
	o := FolderOptions{Base: filepath.Join(t.TempDir(), "not", "there"), RunID: "job 7", Workers: 2}
	f, err := NewFolders(o)
	if err != nil {
		t.Fatal(err)
	}
	if rel, _ := filepath.Rel(o.Base, f.Path); !regexp.MustCompile(`^job_7_[a-z0-9_]{8}$`).MatchString(rel) {
		t.Errorf("run folder %q", rel)
	}
	other, err := NewFolders(o)
	if err != nil || other.Path == f.Path {
		t.Errorf("a second node gets %q (%v), the first has %q", other.Path, err, f.Path)
	}

	attempt, err := f.Make(2)
	if err != nil || attempt != filepath.Join(f.Path, "attempt_2") {
		t.Fatalf("attempt folder %q (%v)", attempt, err)
	}
	if made, _ := filepath.Glob(attempt + "/*"); !slices.Equal(made, []string{attempt + "/0", attempt + "/1"}) {
		t.Errorf("attempt 2 begins with %v", made)
	}
	w := open(t, WorkerOptions{LocalRank: 11, Dir: attempt, Redirect: Stdout, Tee: Stderr, Console: captureFiles(t).Console})
	run(t, w, shell("echo out; echo err >&2"))
	if got := read(t, attempt+"/11/stdout.log"); got != "out\n" {
		t.Errorf("stdout.log has %q", got)
	}
	if got := read(t, attempt+"/11/stderr.log"); got != "err\n" {
		t.Errorf("stderr.log has %q", got)
	}
	if want := attempt + "/11/error.json"; w.ErrorFile != want {
		t.Errorf("error file %q, want %q", w.ErrorFile, want)
	}

	again, err := f.Make(2)
	if err != nil || again != filepath.Join(f.Path, "attempt_2.1") || read(t, attempt+"/11/stdout.log") != "out\n" {
		t.Errorf("a round that is no restart gets %q (%v)", again, err)
	}
}

func TestFolderDefault(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	f, err := NewFolders(FolderOptions{RunID: "none"})
	if err != nil {
		t.Fatal(err)
	}
	if ok, _ := filepath.Match(os.TempDir()+"/torchelastic_*/none_????????", f.Path); !ok {
		t.Errorf("run folder %q", f.Path)
	}
}

func TestNothingKept(t *testing.T) {
	f, err := NewFolders(FolderOptions{Base: os.DevNull, RunID: "x", Workers: 2})
	if err != nil {
		t.Fatal(err)
	}
	attempt, err := f.Make(0)
	if err != nil || attempt != "" {
		t.Fatalf("attempt folder %q (%v)", attempt, err)
	}
	c := captureFiles(t)
	w := open(t, WorkerOptions{Dir: attempt, Redirect: Stdout | Stderr, Console: c.Console})
	run(t, w, shell("echo out; echo why >&2"))
	if w.ErrorFile != "" {
		t.Errorf("error file %q", w.ErrorFile)
	}
	if got := text(t, c.out) + text(t, c.err); got != "" {
		t.Errorf("redirected to nowhere, but the console shows %q", got)
	}
	if got := w.Tail(); len(got) != 1 || got[0] != "why" {
		t.Errorf("tail %q", got)
	}
}

func TestFolderErrors(t *testing.T) {
	file := create(t, t.TempDir()+"/file").Name()
	if _, err := NewFolders(FolderOptions{Base: file + "/below", RunID: "x"}); err == nil || !strings.Contains(err.Error(), "cannot make") {
		t.Errorf("a folder below a file: %v", err)
	}
	if _, err := Open(WorkerOptions{LocalRank: 5, Dir: file}); err == nil || !strings.Contains(err.Error(), "local rank 5") {
		t.Errorf("a worker's folder below a file: %v", err)
	}
}

func TestPathElement(t *testing.T) {
	for in, want := range map[string]string{
		"none":                   "none",
		"a/b/../c":               "a_b_.._c",
		"..":                     "_.",
		".hidden":                "_hidden",
		"":                       "",
		"tab\tnew\nline\x00":     "tab_new_line_",
		"über-7_x.y":             "über-7_x.y",
		"bad\xffutf8":            "bad_utf8",
		strings.Repeat("é", 100): strings.Repeat("é", 64),
	} {
		if got := pathElement(in); got != want {
			t.Errorf("pathElement(%q) = %q, want %q", in, got, want)
		}
	}
}

func FuzzPathElement(f *testing.F) {
	f.Add("../../etc")
	f.Add(strings.Repeat("x", 300))
	f.Fuzz(func(t *testing.T, id string) {
		got := pathElement(id) + "_x"
		if len(got) > 255 || filepath.Base(got) != got || strings.ContainsAny(got, "/\x00\n") || got[0] == '.' {
			t.Errorf("run id %q gives the file name %q", id, got)
		}
	})
}

// TestFolders shows that every round has folders of its own, and that empty
// folders are removed at the end.
func TestFolders(t *testing.T) {
	base := filepath.Join(t.TempDir(), "torchelastic_x")
	f, err := NewFolders(FolderOptions{Temp: base, RunID: "none", Workers: 2})
	if err != nil {
		t.Fatal(err)
	}
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

// TestFoldersStay shows that folders with a base of the user stay, and so do
// folders that are not empty.
func TestFoldersStay(t *testing.T) {
	for _, temporary := range []bool{false, true} {
		o := FolderOptions{Temp: filepath.Join(t.TempDir(), "base"), RunID: "run", Workers: 1}
		if !temporary {
			o.Base = o.Temp
		}
		f, err := NewFolders(o)
		if err != nil {
			t.Fatal(err)
		}
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

// TestRemoveEmptyKeepsOtherFiles shows that folders that could not be made are not removed,
// nor is something of such a name in the working directory.
func TestRemoveEmptyKeepsOtherFiles(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, file := range []string{"0", "blocker"} {
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	f := &Folders{Path: filepath.Join("blocker", "base", "run"), temporary: true, workers: 2, roundsMade: map[int]int{}}
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
