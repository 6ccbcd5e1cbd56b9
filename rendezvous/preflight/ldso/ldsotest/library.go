// Package ldsotest builds small shared libraries with gcc, and asks the real loader
// for tests.
package ldsotest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// Library describes a shared library.
type Library struct {
	Soname   string
	Needed   []string // file names
	Rpath    string   // DT_RPATH
	Runpath  string   // DT_RUNPATH
	Symbols  []string // exported
	Versions []string // versions of symbols
	Text     string   // a constant, such as NCCL(...)
	Program  bool     // a program instead of a library; Needed is not resolved
}

// NCCL returns the text of a libnccl: version "2.19.3", cuda "12.3".
func NCCL(version, cuda string) string { return "NCCL version " + version + "+cuda" + cuda }

// Write builds a library and creates the folders of its path. Without gcc it
// skips the test, or fails it with CI=true.
func Write(t testing.TB, path string, l Library) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, Bytes(t, l), 0o755); err != nil {
		t.Fatal(err)
	}
}

// built holds the libraries of this process by their description.
var built sync.Map

// Bytes builds a library.
func Bytes(t testing.TB, l Library) []byte {
	t.Helper()
	if _, err := exec.LookPath("gcc"); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("no gcc")
		}
		t.Skip("no gcc")
	}
	key := fmt.Sprintf("%+v", l)
	if b, ok := built.Load(key); ok {
		return b.([]byte)
	}
	b, err := l.build()
	if err != nil {
		t.Fatal(err)
	}
	built.Store(key, b)
	return b
}

func (l Library) build() ([]byte, error) {
	dir, err := os.MkdirTemp("", "gorun-library-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	in := func(name string) string { return filepath.Join(dir, name) }
	source, versions := "", ""
	for _, s := range l.Symbols {
		source += "int " + s + ";\n"
	}
	for _, v := range l.Versions {
		versions += v + " {};\n"
	}
	if l.Text != "" {
		source += "__asm__(\".section .rodata\\n.incbin \\\"" + in("text") + "\\\"\\n.byte 0\\n.previous\");\n"
	}
	if l.Program {
		source += "void _start(void) { for (;;) ; }\n"
	}
	if err := errors.Join(os.WriteFile(in("text"), []byte(l.Text), 0o600), os.WriteFile(in("a.c"), []byte(source), 0o600), os.WriteFile(in("a.map"), []byte(versions), 0o600)); err != nil {
		return nil, err
	}
	args := []string{"-nostdlib", "-fPIC", "-o", in("out"), in("a.c"), "-Wl,--no-as-needed", "-Wl,--allow-shlib-undefined", "-L" + dir}
	if l.Program {
		args = append(args, "-pie")
	} else {
		args = append(args, "-shared", "-Wl,-soname,"+l.Soname)
	}
	if l.Versions != nil {
		args = append(args, "-Wl,--version-script,"+in("a.map"))
	}
	if l.Rpath != "" {
		args = append(args, "-Wl,--disable-new-dtags", "-Wl,-rpath,"+l.Rpath)
	}
	if l.Runpath != "" {
		args = append(args, "-Wl,--enable-new-dtags", "-Wl,-rpath,"+l.Runpath)
	}
	if l.Needed != nil {
		if out, err := exec.Command("gcc", "-shared", "-nostdlib", "-o", in("stub"), "-x", "c", "/dev/null").CombinedOutput(); err != nil {
			return nil, fmt.Errorf("gcc: %w: %s", err, out)
		}
	}
	for _, name := range l.Needed {
		// The linker uses the file name of a library without a SONAME.
		if err := os.Link(in("stub"), in(name)); err != nil {
			return nil, err
		}
		args = append(args, "-l:"+name)
	}
	if out, err := exec.Command("gcc", args...).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("gcc %q: %w: %s", args, err, out)
	}
	return os.ReadFile(in("out"))
}

// Run is a Runner for tests. Tests have no table of processes.
func Run(ctx context.Context, path string, argv, env []string, dir string) ([]byte, int, error) {
	cmd := exec.CommandContext(ctx, path)
	cmd.Args, cmd.Env, cmd.Dir = argv, env, dir
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	if e, ok := errors.AsType[*exec.ExitError](err); ok {
		return out.Bytes(), e.ExitCode(), nil
	}
	return out.Bytes(), 0, err
}
