package logs

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func TestDirLayout(t *testing.T) {
	base := filepath.Join(t.TempDir(), "not", "there")
	d, err := NewDir(base, "", "job 7")
	if err != nil {
		t.Fatal(err)
	}
	if rel, _ := filepath.Rel(base, d.Path); !regexp.MustCompile(`^job_7_[a-z0-9_]{8}$`).MatchString(rel) {
		t.Errorf("run folder %q", rel)
	}
	other, err := NewDir(base, "", "job 7")
	if err != nil || other.Path == d.Path {
		t.Errorf("a second node gets %q (%v), the first has %q", other.Path, err, d.Path)
	}

	attempt, err := d.Attempt(2, 0, 2)
	if err != nil || attempt != filepath.Join(d.Path, "attempt_2") {
		t.Fatalf("attempt folder %q (%v)", attempt, err)
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

	again, err := d.Attempt(2, 1, 1)
	if err != nil || again != filepath.Join(d.Path, "attempt_2.1") || read(t, attempt+"/11/stdout.log") != "out\n" {
		t.Errorf("a round that is no restart gets %q (%v)", again, err)
	}
	if attempt, err = d.Attempt(2, 0, 2); err != nil {
		t.Fatal(err)
	}
	if left, _ := filepath.Glob(attempt + "/*"); !slices.Equal(left, []string{attempt + "/0", attempt + "/1"}) {
		t.Errorf("the second attempt 2 begins with %v", left)
	}
}

func TestDirDefault(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	d, err := NewDir("", "", "none")
	if err != nil {
		t.Fatal(err)
	}
	if ok, _ := filepath.Match(os.TempDir()+"/torchelastic_*/none_????????", d.Path); !ok {
		t.Errorf("run folder %q", d.Path)
	}
}

func TestDirNothingKept(t *testing.T) {
	d, err := NewDir(os.DevNull, "", "x")
	if err != nil {
		t.Fatal(err)
	}
	attempt, err := d.Attempt(0, 0, 2)
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

func TestDirErrors(t *testing.T) {
	file := create(t, t.TempDir()+"/file").Name()
	if _, err := NewDir(file+"/below", "", "x"); err == nil || !strings.Contains(err.Error(), "cannot make") {
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
