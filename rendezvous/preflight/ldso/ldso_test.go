package ldso

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gorun/gorun/rendezvous/preflight/ldso/ldsotest"
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

// folder creates a folder. It returns the folder's real path as a function that
// names files in it.
func folder(t *testing.T) func(string) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return func(name string) string { return filepath.Join(dir, name) }
}

func glibc(t *testing.T) {
	t.Helper()
	interp, err := Interpreter(anyProgram)
	need(t, err == nil && strings.HasPrefix(filepath.Base(interp), "ld-linux"), "glibc")
}

// TestListFollowsTheLoadersOrder checks that List finds what a program needs in
// the loader's own order.
func TestListFollowsTheLoadersOrder(t *testing.T) {
	glibc(t)
	in := folder(t)
	nccl := ldsotest.Library{Soname: "libnccl.so.2"}
	for _, dir := range []string{"rpath", "env", "pre"} {
		ldsotest.Write(t, in(dir+"/libnccl.so.2"), nccl)
	}
	ldsotest.Write(t, in("old"), ldsotest.Library{Program: true, Needed: []string{"libnccl.so.2"}, Rpath: "$ORIGIN/x/../rpath"})
	ldsotest.Write(t, in("new"), ldsotest.Library{Program: true, Needed: []string{"libnccl.so.2"}, Runpath: "$ORIGIN/rpath"})
	ldsotest.Write(t, in("plain"), ldsotest.Library{Program: true, Needed: []string{"libnccl.so.2"}})
	ldsotest.Write(t, in("x/loads"), ldsotest.Library{Soname: "x"})
	for _, c := range []struct{ program, env, path, why string }{
		{"old", "LD_LIBRARY_PATH=" + in("env"), "rpath/libnccl.so.2", "RPATH of " + in("old")},
		{"new", "LD_LIBRARY_PATH=" + in("env"), "env/libnccl.so.2", "LD_LIBRARY_PATH"},
		{"new", "", "rpath/libnccl.so.2", "RUNPATH of " + in("new")},
		{"plain", "LD_LIBRARY_PATH=env", "env/libnccl.so.2", "LD_LIBRARY_PATH"}, // relative to the working directory
		{"old", "LD_PRELOAD=" + in("pre/libnccl.so.2"), "pre/libnccl.so.2", "LD_PRELOAD"},
	} {
		l := Loader{Run: ldsotest.Run, Env: []string{c.env, "LD_AUDIT=/none", "LD_DEBUG=help", "LD_TRACE_LOADED_OBJECTS=1"}, Dir: in(".")}
		a, err := l.List(t.Context(), in(c.program))
		r := a.First(func(name string) bool { return name == "libnccl.so.2" })
		if err != nil || r == nil {
			t.Errorf("%s with %s: %+v, %v", c.program, c.env, a, err)
			continue
		}
		if r.Path != in(c.path) || r.Why != c.why || a.Stopped != "" {
			t.Errorf("%s with %s: %+v, want %s, %s", c.program, c.env, r, c.path, c.why)
		}
	}
	a, err := Loader{Run: ldsotest.Run, Dir: "/"}.List(t.Context(), in("plain"))
	r := a.First(func(name string) bool { return name == "libnccl.so.2" })
	if err != nil || r == nil || r.Path != "" || !strings.HasPrefix(r.Err, "libnccl.so.2: not found (searched: ld.so.cache, default folders") ||
		r.By != in("plain") || !strings.HasPrefix(a.Stopped, "libnccl.so.2: cannot open") {
		t.Errorf("without one: %+v, %+v, %v", a, r, err)
	}
}

// TestListLikeARunningPython checks that the loader finds for a real program
// what the program has mapped when it runs.
func TestListLikeARunningPython(t *testing.T) {
	glibc(t)
	python, err := exec.LookPath("python3")
	need(t, err == nil, "python3")
	out, err := exec.CommandContext(t.Context(), python, "-c", "import sys; print(sys.executable); print(open('/proc/self/maps').read())").Output()
	if err != nil {
		t.Fatal(err)
	}
	exe, maps, _ := strings.Cut(string(out), "\n")
	a, err := Loader{Run: ldsotest.Run, Env: os.Environ(), Dir: "/"}.List(t.Context(), exe)
	if err != nil || len(a.Requests) == 0 || a.Stopped != "" {
		t.Fatalf("%+v, %v", a, err)
	}
	for _, r := range a.Requests {
		if real, err := filepath.EvalSymlinks(r.Path); err != nil || !strings.Contains(maps, real) {
			t.Errorf("%+v is not mapped (%v)", r, err)
		}
	}
}

// TestFind checks that Find answers for each name, whatever is wrong with the
// other names.
func TestFind(t *testing.T) {
	glibc(t)
	in := folder(t)
	whole := ldsotest.Bytes(t, ldsotest.Library{Soname: "libgood.so.1", Text: strings.Repeat("x", 9000)})
	other := append([]byte(nil), whole...)
	other[18], other[19] = 0xff, 0x7f // machine
	for name, b := range map[string][]byte{"libgood.so": whole, "libcut.so": whole[:5000], "libtext.so": []byte("GROUP ( x ), which is longer than the header of a library is"), "libother.so": other} {
		if err := os.WriteFile(in(name), b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	l := Loader{Run: ldsotest.Run, Env: []string{"LD_LIBRARY_PATH=" + in(".")}, Dir: "/"}
	found, err := l.Find(t.Context(), []string{"libtext.so", "libcut.so", "libother.so", "libnone.so", "libgood.so", in("libgood.so"), "a b.so"})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]Request{
		"libtext.so":     {Err: "libtext.so: the loader gives up at " + in("libtext.so") + " (LD_LIBRARY_PATH): "},
		"libcut.so":      {Path: in("libcut.so"), Why: "LD_LIBRARY_PATH"},
		"libother.so":    {Err: "libother.so: not found (searched: LD_LIBRARY_PATH, ld.so.cache, default folders)"},
		"libnone.so":     {Err: "libnone.so: not found (searched: LD_LIBRARY_PATH, ld.so.cache, default folders)"},
		"libgood.so":     {Path: in("libgood.so"), Why: "LD_LIBRARY_PATH"},
		"a b.so":         {Err: "the loader cannot be asked"},
		in("libgood.so"): {Path: in("libgood.so"), Why: "named by its path"},
	} {
		r, ok := found[name]
		if !ok || r.Path != want.Path || r.Why != want.Why || !strings.HasPrefix(r.Err, want.Err) || (r.Err == "") != (want.Err == "") {
			t.Errorf("%s: %+v, want %+v", name, r, want)
		}
	}
	if p := found["libother.so"].Rejected; len(p) != 1 || p[0].Path != in("libother.so") || !strings.HasPrefix(p[0].Err, "it is built for") {
		t.Errorf("passed: %+v", p)
	}
	// This is the SONAME of a library that is mapped under another name.
	found, err = l.Find(t.Context(), []string{"libgood.so", "libgood.so.1"})
	if err != nil || found["libgood.so"].Path == "" || found["libgood.so.1"].Err == "" {
		t.Errorf("SONAME: %+v, %v", found, err)
	}
}

// TestListOfOddPrograms checks that List returns an error with the reason for
// programs about which the loader cannot be asked.
func TestListOfOddPrograms(t *testing.T) {
	glibc(t)
	in := folder(t)
	b := ldsotest.Bytes(t, ldsotest.Library{Program: true, Needed: []string{"libnccl.so.2"}})
	interp, err := Interpreter(anyProgram)
	if err != nil {
		t.Fatal(err)
	}
	musl := []byte(strings.Replace(string(b), interp, ("/lib/ld-musl.so.1" + strings.Repeat("\x00", len(interp)))[:len(interp)], 1))
	arch := append([]byte(nil), b...)
	arch[18], arch[19] = 0xff, 0x7f
	for name, b := range map[string][]byte{"suid": b, "musl": musl, "arch": arch, "text": []byte("#!/bin/sh\n"), "cut": b[:200], "empty": nil} {
		if err := os.WriteFile(in(name), b, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(in("suid"), 0o755|os.ModeSetuid); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(in("pipe"), 0o755); err != nil {
		t.Fatal(err)
	}
	started := func(context.Context, string, []string, []string, string) ([]byte, int, error) {
		t.Error("a child was started")
		return nil, 0, nil
	}
	for name, want := range map[string]string{
		"suid": "set-user-id", "musl": "is not the loader of glibc", "arch": "is built for", "text": "not an ELF file", "cut": "cut off after 200 bytes",
		"empty": "not an ELF file", "pipe": "not a regular file", "none": "no such file",
	} {
		if _, err := (Loader{Run: started}).List(t.Context(), in(name)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", name, err, want)
		}
	}
	if _, err := (Loader{Run: started}).List(t.Context(), anyProgram, "/a folder/lib.so"); err == nil {
		t.Error("a name with a space is asked for")
	}
	if _, err := (Loader{}).List(t.Context(), anyProgram); err == nil {
		t.Error("no runner, no error")
	}
}

// TestLoaderOfGlibc checks that musl's loader is recognised, also behind a
// link.
func TestLoaderOfGlibc(t *testing.T) {
	in := folder(t)
	for _, name := range []string{"libc.musl-x86_64.so.1", "ld-2.31.so"} {
		if err := os.WriteFile(in(name), nil, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, target := range map[string]string{"ld-linux-x86-64.so.2": "libc.musl-x86_64.so.1", "ld-linux-aarch64.so.1": "ld-2.31.so", "ld-linux.so": "none", "other.so": "ld-2.31.so"} {
		if err := os.Symlink(target, in(name)); err != nil {
			t.Fatal(err)
		}
		if got, want := isGlibcLoader(in(name)), name == "ld-linux-aarch64.so.1"; got != want {
			t.Errorf("%s -> %s: %v, want %v", name, target, got, want)
		}
	}
}

// TestListOfOddAnswers checks that a child which fails, hangs or prints
// nonsense gives an error that names it.
func TestListOfOddAnswers(t *testing.T) {
	glibc(t)
	type runner = func(context.Context) ([]byte, int, error)
	for name, c := range map[string]struct {
		run  runner
		want string
	}{
		"fails":    {func(context.Context) ([]byte, int, error) { return nil, 0, errors.New("fork failed") }, "fork failed"},
		"nonsense": {func(context.Context) ([]byte, int, error) { return []byte("usage: ld.so\x00\xff"), 1, nil }, "it ended with status 1: usage"},
		"killed":   {func(context.Context) ([]byte, int, error) { return nil, 139, nil }, "it ended with status 139"},
	} {
		l := Loader{Run: func(ctx context.Context, _ string, _, _ []string, _ string) ([]byte, int, error) { return c.run(ctx) }}
		if a, err := l.List(t.Context(), ""); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %+v, %v, want %s", name, a, err, c.want)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	hangs := func(ctx context.Context, _ string, _, _ []string, _ string) ([]byte, int, error) {
		<-ctx.Done()
		return nil, 0, ctx.Err()
	}
	if _, err := (Loader{Run: hangs}).List(ctx, ""); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a child that hangs: %v", err)
	}
}

// TestOpen checks that Open reads a file as the loader maps it, and returns an
// error for odd files.
func TestOpen(t *testing.T) {
	in := folder(t)
	b := ldsotest.Bytes(t, ldsotest.Library{Soname: "liba.so.1", Symbols: []string{"ncclNetPlugin_v8"}, Versions: []string{"IBVERBS_1.1"}, Text: "some text"})
	if err := os.WriteFile(in("a"), b, 0o644); err != nil {
		t.Fatal(err)
	}
	f, err := Open(in("a"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	names, err := f.Names()
	if all := " " + strings.Join(names, " ") + " "; err != nil || !strings.Contains(all, " ncclNetPlugin_v8 ") || !strings.Contains(all, " IBVERBS_1.1 ") {
		t.Errorf("names %q, %v", names, err)
	}
	text := make([]byte, 9)
	if c := f.Constants(); len(c) != 1 {
		t.Errorf("%d parts of constants", len(c))
	} else if _, err := c[0].ReadAt(text, 0); err != nil || string(text) != "some text" {
		t.Errorf("%q, %v", text, err)
	}
	for n := range b {
		if n%7 != 0 {
			continue
		}
		if err := os.WriteFile(in("cut"), b[:n], 0o644); err != nil {
			t.Fatal(err)
		}
		if f, err := Open(in("cut")); err == nil {
			_ = f.Close()
			t.Errorf("%d of %d bytes are a library", n, len(b))
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("     1:\tfile=libnccl.so.2 [0];  needed by /x/libtorch_cuda.so [0]\n     1:\tfind library=libnccl.so.2 [0]; searching\n" +
		"     1:\t search path=/x\t\t(RPATH from file /x/libtorch_cuda.so)\n     1:\t  trying file=/x/libnccl.so.2\n     1:\t search cache=/etc/ld.so.cache\n")
	f.Add("ERROR: ld.so: object 'liba.so' from LD_PRELOAD cannot be preloaded (file too short): ignored.\n\tlibb.so => not found\n")
	f.Add("/bin/sh: error while loading shared libraries: liba.so: cannot open shared object file: No such file or directory\n")
	f.Fuzz(func(t *testing.T, out string) {
		a := parse(out)
		if len(a.Requests) > strings.Count(out, "needed by") {
			t.Errorf("%d requests", len(a.Requests))
		}
		for i := range a.Requests {
			if r := &a.Requests[i]; len(r.tried) > strings.Count(out, "trying") || r.Path != "" {
				t.Errorf("%+v", r)
			}
		}
	})
}

func FuzzOpen(f *testing.F) {
	f.Add(ldsotest.Bytes(f, ldsotest.Library{Soname: "liba.so", Needed: []string{"libb.so"}, Text: "x"}))
	f.Add([]byte("\x7fELF\x02\x01\x01"))
	path := filepath.Join(f.TempDir(), "lib")
	f.Fuzz(func(t *testing.T, b []byte) {
		if err := os.WriteFile(path, b, 0o644); err != nil {
			t.Fatal(err)
		}
		e, err := Open(path)
		if err != nil {
			return
		}
		defer e.Close()
		_, _ = e.interpreter()
		_, _ = e.Names()
		_, _ = e.Needed()
		for _, c := range e.Constants() {
			if c.Size() > int64(len(b)) {
				t.Errorf("%d bytes of constants in %d", c.Size(), len(b))
			}
		}
	})
}
