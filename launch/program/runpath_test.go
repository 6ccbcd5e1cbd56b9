package program

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestScriptOfEachRank checks that a script's name may have the local rank in it.
func TestScriptOfEachRank(t *testing.T) {
	root := node(t)
	prog, err := resolve(t, Input{Program: "w${local_rank}.py", Args: []string{"$local_rank"}, LocalRank: true, Dir: root + "/w", Env: []string{"PATH=" + root + "/bin"}})
	if got := strings.Join(prog.Argv(3), " "); err != nil || got != root+"/bin/python3 -u w3.py --local-rank=3 3" || prog.Title != "w${local_rank}.py" {
		t.Errorf("%s, %q, %v", got, prog.Title, err)
	}
}

// TestRunPath checks that a script runs as __main__ in runpy, with its own arguments.
func TestRunPath(t *testing.T) {
	if _, err := exec.LookPath("python3"); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("no python3")
		}
		t.Skip("no python3")
	}
	dir := t.TempDir()
	script := filepath.Join(dir, "train")
	if err := os.WriteFile(script, []byte("import sys\nprint(__name__, sys.argv[0] == __file__, sys.argv[1:])\nsys.exit(7)\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	in := Input{Program: script, Args: []string{"a", "${local_rank}"}, RunPath: true, NoPython: true, Module: true, Dir: dir, Env: os.Environ()}
	prog, err := resolve(t, in)
	if err != nil || prog.Title != script {
		t.Fatalf("%q, %v", prog.Title, err)
	}
	out, code, err := run(t.Context(), prog.Path, prog.Argv(5), os.Environ(), dir)
	if want := "__main__ True ['a', '5']\n"; err != nil || code != 7 || string(out) != want {
		t.Errorf("%q, %d, %v, want %q and 7", out, code, err, want)
	}
	in.Program = "none"
	if _, err := Check(in); err == nil || !strings.Contains(err.Error(), "no such program: none") {
		t.Errorf("no such script: %v", err)
	}
}
