package program

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// run is a Runner over os/exec: a test has no agent that reaps its children.
func run(ctx context.Context, path string, argv, env []string, dir string) ([]byte, int, error) {
	cmd := exec.CommandContext(ctx, path, argv[1:]...)
	cmd.Env, cmd.Dir = env, dir
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if errors.As(err, &exit) && ctx.Err() == nil {
		return out, exit.ExitCode(), nil
	}
	return out, 0, err
}

func goTool(t *testing.T) {
	if _, err := exec.LookPath("go"); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("no go on PATH")
		}
		t.Skip("no go on PATH")
	}
}

// resolve calls Check and Build.
func resolve(t *testing.T, in Input) (Program, error) {
	t.Helper()
	plan, err := Check(in)
	if err != nil {
		return Program{}, err
	}
	return plan.Build(t.Context())
}

// TestKilledBuild checks that what a killed tool leaves is in the build's folder.
func TestKilledBuild(t *testing.T) {
	dir := tree(t, map[string]string{"p/main.go": "package main", "bin/go*": "#!/bin/sh\nmkdir \"${GOTMPDIR:-$TMPDIR}/go-build1\"; kill -9 $$\n"})
	temp, built := t.TempDir(), filepath.Join(t.TempDir(), "built")
	env := []string{"PATH=" + filepath.Join(dir, "bin") + ":" + os.Getenv("PATH"), "TMPDIR=" + temp}
	if _, err := resolve(t, Input{Program: "p", Dir: dir, Env: env, BuildDir: built, Run: run}); err == nil {
		t.Error("no error")
	}
	if left, _ := os.ReadDir(temp); len(left) > 0 {
		t.Errorf("left in TMPDIR: %v", left)
	}
	if left, _ := os.ReadDir(built); len(left) != 1 {
		t.Errorf("in the build's folder: %v", left)
	}
}

func TestBuildErrorShort(t *testing.T) {
	for output, want := range map[string]string{
		"# example.com/p\n./main.go:3:2: undefined: x\n./main.go:4:2: undefined: y": "cannot build ./p: ./main.go:3:2: undefined: x",
		"go: downloading example.com/q v1.0.0\n\n  no required module\n":            "cannot build ./p: no required module",
		"": "cannot build ./p: go build ended with code 1",
	} {
		if got := (&BuildError{Program: "./p", Code: 1, Output: output}).Short(); got != want {
			t.Errorf("%q: %q, want %q", output, got, want)
		}
	}
}

const hello = "package main\n\nimport (\"fmt\"; \"os\")\n\nfunc main() { fmt.Println(\"hello\", os.Args[1]) }\n"

func TestBuild(t *testing.T) {
	goTool(t)
	dir := tree(t, map[string]string{
		"ok/go.mod": "module example.org/ok\n\ngo 1.21\n", "ok/main.go": hello,
		"bad/go.mod": "module example.org/bad\n\ngo 1.21\n", "bad/main.go": "package main\n\nfunc main() { undefinedThing() }\n",
		"lib/go.mod": "module example.org/lib\n\ngo 1.21\n", "lib/lib.go": "package lib\n",
		"single.go": hello, "outside/main.go": hello,
	})
	tests := []struct{ name, program, wantErr string }{
		{"package in another module", "./ok", ""},
		{"one file", "single.go", ""},
		{"compile error", "bad", "undefined: undefinedThing"},
		{"no command", "lib", "is it package main?"},
		{"folder outside any module", "outside", "go build -o "},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			temp := t.TempDir()
			t.Setenv("TMPDIR", temp)
			built := filepath.Join(t.TempDir(), "built")
			prog, err := resolve(t, Input{Program: tt.program, Args: []string{"$local_rank"}, Dir: dir, Env: os.Environ(), BuildDir: built, Run: run})
			if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
				t.Errorf("outside its folder a build leaves %v (%v)", left, err)
			}
			if tt.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), tt.wantErr) {
					t.Errorf("got error %v, want %q", err, tt.wantErr)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			out, _, err := run(t.Context(), prog.Path, prog.Argv(4), nil, dir)
			if err != nil || string(out) != "hello 4\n" {
				t.Errorf("got %q, %v", out, err)
			}
			if filepath.Dir(prog.Path) != built {
				t.Errorf("built %s, not in %s", prog.Path, built)
			}
		})
	}
}

func TestBuildFailures(t *testing.T) {
	dir := tree(t, map[string]string{"p/main.go": "package main", "bin/go*": "#!/bin/sh"})
	in := Input{Program: "p", Dir: dir, Env: []string{"PATH=/nowhere"}}
	try := func() error {
		in.BuildDir = filepath.Join(t.TempDir(), "built")
		_, err := resolve(t, in)
		return err
	}
	if err := try(); err == nil || !strings.Contains(err.Error(), "no go on PATH") {
		t.Errorf("without the Go tool: %v", err)
	}
	in.Env = []string{"PATH=" + filepath.Join(dir, "bin")}
	in.Run = func(context.Context, string, []string, []string, string) ([]byte, int, error) {
		return nil, 0, context.DeadlineExceeded
	}
	if err := try(); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a build out of time: %v", err)
	}
	in.Run = func(context.Context, string, []string, []string, string) ([]byte, int, error) {
		return []byte(strings.Repeat("é", maxBuildOutput)), 1, nil
	}
	if err := try(); err == nil || len(err.Error()) > 2*maxBuildOutput || !strings.Contains(err.Error(), "ended with code 1") {
		t.Errorf("a build with endless output: %.100v", err)
	}
}
