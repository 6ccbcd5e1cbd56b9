package loader_test

import (
	"bytes"
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/gorun/gorun/rendezvous/preflight/loader"
)

// need skips a test that lacks a part; with CI=true it fails.
func need(t *testing.T, have bool, part string) {
	t.Helper()
	switch {
	case have:
	case os.Getenv("CI") == "true":
		t.Fatal("no " + part)
	default:
		t.Skip("no " + part)
	}
}

func tool(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	need(t, err == nil, name)
	return path
}

// realLoader is the ld.so that /bin/sh asks for, if that is glibc's for this machine.
func realLoader(t *testing.T) string {
	t.Helper()
	data, err := os.ReadFile("/bin/sh")
	if err != nil {
		t.Fatal(err)
	}
	f, err := loader.Read(bytes.NewReader(data), int64(len(data)))
	need(t, err == nil && f.Interp != "" && !bytes.Contains([]byte(f.Interp), []byte("musl")), "glibc: /bin/sh asks for another loader")
	return f.Interp
}

// folder is a new folder without links in its path.
func folder(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func link(t *testing.T, target, path string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(target, path); err != nil {
		t.Fatal(err)
	}
}

// foreign is a machine that this one is not.
func foreign() elf.Machine {
	if loader.HostMachine() == elf.EM_AARCH64 {
		return elf.EM_X86_64
	}
	return elf.EM_AARCH64
}
