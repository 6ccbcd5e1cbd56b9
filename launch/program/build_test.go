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
			prog, err := Resolve(t.Context(), Input{Program: tt.program, Args: []string{"$local_rank"}, Dir: dir, Env: os.Environ(), TempDir: temp, Run: run})
			left := func() int {
				entries, err := os.ReadDir(temp)
				if err != nil {
					t.Fatal(err)
				}
				return len(entries)
			}
			if tt.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), tt.wantErr) {
					t.Errorf("got error %v, want %q", err, tt.wantErr)
				}
				if left() != 0 {
					t.Error("a failed build leaves files behind")
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
			for range 2 {
				if err := prog.Cleanup(); err != nil {
					t.Error(err)
				}
			}
			if left() != 0 {
				t.Error("Cleanup leaves files behind")
			}
		})
	}
}

func TestBuildFailures(t *testing.T) {
	dir := tree(t, map[string]string{"p/main.go": "package main", "bin/go*": "#!/bin/sh"})
	in := Input{Program: "p", Dir: dir, Env: []string{"PATH=/nowhere"}, TempDir: t.TempDir()}
	if _, err := Resolve(t.Context(), in); err == nil || !strings.Contains(err.Error(), "no go on PATH") {
		t.Errorf("without the Go tool: %v", err)
	}
	in.Env = []string{"PATH=" + filepath.Join(dir, "bin")}
	in.Run = func(context.Context, string, []string, []string, string) ([]byte, int, error) {
		return nil, 0, context.DeadlineExceeded
	}
	if _, err := Resolve(t.Context(), in); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a build out of time: %v", err)
	}
	in.Run = func(context.Context, string, []string, []string, string) ([]byte, int, error) {
		return []byte(strings.Repeat("é", maxBuildOutput)), 1, nil
	}
	if _, err := Resolve(t.Context(), in); err == nil || len(err.Error()) > 2*maxBuildOutput || !strings.Contains(err.Error(), "ended with code 1") {
		t.Errorf("a build with endless output: %.100v", err)
	}
}
