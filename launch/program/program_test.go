package program

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// tree makes a folder with files; names ending in * get the x bit.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		mode := os.FileMode(0o644)
		if cut, ok := strings.CutSuffix(name, "*"); ok {
			name, mode = cut, 0o755
		}
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func node(t *testing.T) string {
	return tree(t, map[string]string{
		"bin/python3*": "#!/bin/sh", "bin/python*": "#!/bin/sh", "bin/tool*": "\x7fELF", "bin/train*": "#!/bin/sh",
		"bin/other-python*": "x", "bin/plain": "x", "venv/bin/python*": "x", "novenv/bin/python": "x",
		"w/train.py": "", "w/x.py*": "#!/bin/sh\n", "w/train": "print()", "w/script*": "#!/bin/bash\n", "w/pyscript*": "#!/usr/bin/env -S python3 -O\n",
		"w/noshebang*": "print()", "w/noexec": "#!/bin/sh\n", "w/pynoexec": "#!/usr/bin/python3\n", "w/elf*": "\x7fELF..", "w/elf-noexec": "\x7fELF..",
		"w/gopkg/main.go": "package main", "w/gopkg/x.py": "", "w/pypkg/__main__.py": "", "w/empty/notes": "", "w/one.go": "package main",
	})
}

func TestCheck(t *testing.T) {
	root := node(t)
	if err := unix.Mkfifo(root+"/w/pipe", 0o600); err != nil {
		t.Fatal(err)
	}
	py := "$/bin/python3 -u "
	tests := []struct {
		name     string
		program  string
		noPython bool
		module   bool
		env      []string // PATH=$/bin unless given
		want     string   // path and arguments before the user's own; $ stands for the root
		note     bool
	}{
		{name: "script", program: "train.py", want: py + "train.py"},
		{name: "script with x bit", program: "./x.py", want: py + "./x.py"},
		{name: "absolute script", program: "$/w/train.py", want: py + "$/w/train.py"},
		{name: "module", program: "pkg.train", module: true, want: py + "-m pkg.train"},
		{name: "file without x bit, before PATH", program: "train", want: py + "train"},
		{name: "script with an interpreter", program: "script", want: "$/w/script"},
		{name: "script with Python as interpreter", program: "./pyscript", want: py + "./pyscript"},
		{name: "x bit without interpreter", program: "noshebang", want: py + "noshebang"},
		{name: "interpreter without x bit", program: "noexec", want: py + "noexec", note: true},
		{name: "Python as interpreter without x bit", program: "pynoexec", want: py + "pynoexec"},
		{name: "ELF", program: "./elf", want: "$/w/elf"},
		{name: "on PATH", program: "tool", want: "$/bin/tool"},
		{name: "Go folder", program: "./gopkg", want: "go $/w/gopkg"},
		{name: "Go folder by bare name", program: "gopkg", want: "go $/w/gopkg"},
		{name: "Go file", program: "one.go", want: "go $/w/one.go"},
		{name: "Python folder", program: "pypkg", want: py + "pypkg"},
		{name: "no-python", program: "./script", noPython: true, want: "$/w/script"},
		{name: "no-python on PATH", program: "train", noPython: true, want: "$/bin/train"},
		{name: "no-python of a Python script", program: "./x.py", noPython: true, want: "$/w/x.py"},
		{name: "PYTHON_EXEC", program: "train.py", env: []string{"PYTHON_EXEC=$/bin/other-python", "VIRTUAL_ENV=$/venv"}, want: "$/bin/other-python -u train.py"},
		{name: "PYTHON_EXEC on PATH", program: "train.py", env: []string{"PATH=$/bin", "PYTHON_EXEC=other-python"}, want: "$/bin/other-python -u train.py"},
		{name: "virtual environment", program: "train.py", env: []string{"PATH=$/bin", "VIRTUAL_ENV=$/venv"}, want: "$/venv/bin/python -u train.py"},
		{name: "broken virtual environment", program: "train.py", env: []string{"PATH=$/bin", "VIRTUAL_ENV=$/novenv"}, want: py + "train.py"},
		{name: "standard input", program: "-", want: py + "-"},
		{name: "named pipe", program: "./pipe", want: py + "./pipe"},
		{name: "later entry wins", program: "train.py", env: []string{"PATH=/nowhere", "PATH=$/bin"}, want: py + "train.py"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			expand := func(s string) string { return strings.ReplaceAll(s, "$", root) }
			env := tt.env
			if env == nil {
				env = []string{"PATH=$/bin"}
			}
			env = slices.Clone(env)
			for i := range env {
				env[i] = expand(env[i])
			}
			plan, err := Check(Input{Program: expand(tt.program), NoPython: tt.noPython, Module: tt.module, Dir: root + "/w", Env: env})
			if err != nil {
				t.Fatal(err)
			}
			got := strings.Join(append([]string{plan.path}, plan.head...), " ")
			if plan.NeedsBuild() {
				got = "go " + got
			}
			if got != expand(tt.want) {
				t.Errorf("got %s, want %s", got, expand(tt.want))
			}
			if (plan.Note != "") != tt.note {
				t.Errorf("note %q, want %v", plan.Note, tt.note)
			}
		})
	}
}

func TestCheckErrors(t *testing.T) {
	root := node(t)
	tests := []struct {
		name string
		in   Input
		want string
	}{
		{"nothing", Input{}, "no program given"},
		{"missing script", Input{Program: "tain.py"}, "no such program: tain.py (looked in " + root + "/w)"},
		{"missing path", Input{Program: "./examples/allreduce"}, "a Go package is named by its folder"},
		{"missing name", Input{Program: "tol"}, "neither in " + root + "/w nor on PATH"},
		{"module without -m", Input{Program: "torch.run"}, "needs -m"},
		{"below a file", Input{Program: "train.py/x"}, "not a directory"},
		{"no x bit on PATH", Input{Program: "plain"}, "no such program: plain"},
		{"folder without program", Input{Program: "empty"}, "neither Go files nor a __main__.py"},
		{"device", Input{Program: "/dev/null"}, "neither a file nor a folder"},
		{"ELF without x bit", Input{Program: "elf-noexec"}, "chmod +x elf-noexec"},
		{"module and no-python", Input{Program: "m", Module: true, NoPython: true}, "--no-python together with -m"},
		{"no-python, missing", Input{Program: "./nothing", NoPython: true}, "no such program: ./nothing"},
		{"no-python, not on PATH", Input{Program: "script", NoPython: true}, "write ./script"},
		{"no-python, folder", Input{Program: "./gopkg", NoPython: true}, "it is a folder"},
		{"no-python, no x bit", Input{Program: "./train.py", NoPython: true}, "chmod +x ./train.py"},
		{"no Python", Input{Program: "train.py", Env: []string{"PATH=/nowhere:relative"}}, "no python3 or python on PATH"},
		{"bad PYTHON_EXEC", Input{Program: "train.py", Env: []string{"PYTHON_EXEC=/nowhere/python"}}, "PYTHON_EXEC=/nowhere/python"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.in.Dir = root + "/w"
			if tt.in.Env == nil {
				tt.in.Env = []string{"PATH=" + root + "/bin"}
			}
			plan, err := Check(tt.in)
			if err == nil {
				t.Fatalf("accepted as %+v", plan)
			}
			if !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("got %q, want one line with %q", err, tt.want)
			}
		})
	}
}

// TestPathIsNotSet checks that a program is found without PATH, as a shell finds it.
func TestPathIsNotSet(t *testing.T) {
	plan, err := Check(Input{Program: "sh", NoPython: true, Dir: t.TempDir(), Env: []string{"HOME=/"}})
	if err != nil || filepath.Base(plan.path) != "sh" {
		t.Errorf("got %q, %v, want the shell", plan.path, err)
	}
}

// TestPipeIsNoFile checks that nothing reads a script from a pipe but its worker.
func TestPipeIsNoFile(t *testing.T) {
	root := node(t)
	plan, err := Check(Input{Program: "-", Dir: root + "/w", Env: []string{"PATH=" + root + "/bin"}})
	if err != nil {
		t.Fatal(err)
	}
	if got := plan.Subject().Script; got != "" {
		t.Errorf("script %q, want none", got)
	}
}

// TestWords checks that only a program that gorun executes as the user named it has
// words.
func TestWords(t *testing.T) {
	root := node(t)
	for name, want := range map[string][]string{"tool": {"tool", "5"}, "./script": {"./script", "5"}, "train.py": nil, "gopkg": nil} {
		plan, err := Check(Input{Program: name, Args: []string{"$local_rank"}, Dir: root + "/w", Env: []string{"PATH=" + root + "/bin"}})
		if err != nil {
			t.Fatal(err)
		}
		if got := plan.Subject().Words(5); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if got := (Input{Dir: root}).Unnamed().Words(5); got != nil {
		t.Errorf("no program: %q", got)
	}
}

func TestArgv(t *testing.T) {
	root := node(t)
	args := []string{"--rank=${local_rank}", "$$HOME", ""}
	for _, tt := range []struct {
		in   Input
		want []string
	}{
		{Input{Program: "train.py"}, []string{root + "/bin/python3", "-u", "train.py", "--rank=3", "$HOME", ""}},
		{Input{Program: "a.b", Module: true}, []string{root + "/bin/python3", "-u", "-m", "a.b", "--rank=3", "$HOME", ""}},
		{Input{Program: "tool"}, []string{"tool", "--rank=3", "$HOME", ""}},
	} {
		tt.in.Args, tt.in.Dir, tt.in.Env = args, root+"/w", []string{"PATH=" + root + "/bin"}
		prog, err := resolve(t, tt.in)
		if err != nil {
			t.Fatal(err)
		}
		prog.Argv(0) // must not disturb the next call
		if got := prog.Argv(3); !slices.Equal(got, tt.want) {
			t.Errorf("got %q, want %q", got, tt.want)
		}
		if prog.Title != tt.in.Program {
			t.Errorf("title %q, want %q", prog.Title, tt.in.Program)
		}
	}
}
