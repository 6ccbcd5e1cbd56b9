package smallfile

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestReadIsBoundedAndRefusesPipes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, fifo := filepath.Join(dir, "file"), filepath.Join(dir, "fifo")
	if err := os.WriteFile(file, []byte("0123456789"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	rd, wr, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer rd.Close()
	defer wr.Close()
	for name, c := range map[string]struct{ file, want, err string }{
		"file":   {file, "0123456789", ""},
		"empty":  {"/dev/null", "", ""},
		"pipe":   {fmt.Sprintf("/dev/fd/%d", rd.Fd()), "", "it is a pipe"},
		"fifo":   {fifo, "", "it is a pipe"},
		"folder": {dir, "", "it is a folder"},
		"none":   {dir + "/none", "", "no such file or directory"},
		"big":    {"/dev/zero", strings.Repeat("\x00", 21), ""},
	} {
		text, mode, err := Read(c.file, 20)
		if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) || string(text) != c.want {
			t.Errorf("%s: %q (%v)", name, text, err)
		}
		if name == "file" && mode != 0o600 || name == "pipe" && mode&fs.ModeNamedPipe == 0 {
			t.Errorf("%s: mode %v", name, mode)
		}
	}
}

func TestWriteNeedsAReader(t *testing.T) {
	t.Parallel()
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Write(fifo, []byte("x")); err == nil || !strings.Contains(err.Error(), "no program reads") {
		t.Errorf("without a reader: %v", err)
	}
	rd, err := os.OpenFile(fifo, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer rd.Close()
	for _, write := range []func(string, []byte) error{Write, Save} {
		if err := write(fifo, []byte("x")); err != nil {
			t.Error(err)
		}
		b := make([]byte, 2)
		if n, err := rd.Read(b); n != 1 || b[0] != 'x' {
			t.Errorf("it reads %q (%v)", b[:n], err)
		}
	}
}

// TestSave checks that Save replaces the content of a file, and makes one.
func TestSave(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	for _, text := range []string{"a long text", "short", ""} {
		if err := Save(file, []byte(text)); err != nil {
			t.Error(err)
		}
		if b, err := os.ReadFile(file); string(b) != text || err != nil {
			t.Errorf("%q, %v, want %q", b, err, text)
		}
	}
	if err := Save(filepath.Join(file, "x"), nil); err == nil || strings.Contains(err.Error(), file) {
		t.Errorf("below a file: %v", err)
	}
}

// TestNamesIsBounded checks that Names lists at most so many, and does not wait for a
// pipe.
func TestNamesIsBounded(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{"a", "b", "c"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := unix.Mkfifo(filepath.Join(dir, "fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	for most, want := range map[int]int{0: 0, 2: 2, 4: 4, 100: 4} {
		if names, err := Names(dir, most); len(names) != want || err != nil {
			t.Errorf("at most %d: %q, %v", most, names, err)
		}
	}
	for _, name := range []string{"a", "fifo", "none"} {
		if names, err := Names(filepath.Join(dir, name), 10); err == nil {
			t.Errorf("%s: %q", name, names)
		}
	}
}
