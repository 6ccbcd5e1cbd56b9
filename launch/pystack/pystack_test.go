package pystack

import (
	"bufio"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// program blocks in several threads and prints, once they block, what Python itself says
// of their stacks.
const program = `
import json, os, sys, threading, time

def générer():
    for i in range(3):
        yield (
            os.read(0,
                    1)
        )

class Loader:
    def __iter__(self):
        return générer()

def 読む(loader):
    total = 0
    for _ in range(1000):
        total += 1


    return [x for x in loader]

def wait(event):
    event.wait()

def padding():
` + "    x = 0\n" + `    return x

def show():
    deadline = time.time() + 20
    main = threading.main_thread().ident
    def stacks():
        found = {}
        for ident, frame in sys._current_frames().items():
            frames = []
            while frame is not None:
                frames.append([frame.f_code.co_name, frame.f_code.co_filename, frame.f_lineno])
                frame = frame.f_back
            found[ident] = frames
        return found
    while time.time() < deadline:
        now = stacks()
        if now[main][0][0] == "générer" and all(f[0][0] != "run" for f in now.values()):
            time.sleep(0.1)
            now = stacks()
            print(json.dumps([now.pop(main)] + [f for i, f in now.items() if i != threading.get_ident()]), flush=True)
            break
        time.sleep(0.01)
    threading.Event().wait()

event = threading.Event()
threading.Thread(target=wait, args=(event,), daemon=True).start()
threading.Thread(target=show, daemon=True).start()
読む(
    Loader())
`

// pythons returns the interpreters of this machine.
func pythons(t *testing.T) map[string]string {
	found := map[string]string{}
	names, _ := filepath.Glob("/usr/bin/python3.[0-9]*")
	if home, err := os.UserHomeDir(); err == nil {
		more, _ := filepath.Glob(filepath.Join(home, ".pyenv/versions/3.*/bin/python3"))
		names = append(names, more...)
	}
	if name, err := exec.LookPath("python3"); err == nil {
		names = append(names, name)
	}
	for _, name := range names {
		out, err := exec.Command(name, "-c", "import sys; print(sys.version.split()[0], sys.version_info >= (3, 7), sys.executable)").Output()
		if version, rest, _ := strings.Cut(strings.TrimSpace(string(out)), " "); err == nil && strings.HasPrefix(rest, "True ") {
			_, found[version], _ = strings.Cut(rest, " ")
		}
	}
	if len(found) == 0 {
		t.Skip("no Python here")
	}
	return found
}

func TestReadAgreesWithPython(t *testing.T) {
	script := filepath.Join(t.TempDir(), "prögram.py")
	if err := os.WriteFile(script, []byte(program), 0o600); err != nil {
		t.Fatal(err)
	}
	for version, name := range pythons(t) {
		t.Run(version, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), name, script)
			cmd.Env = append(os.Environ(), "PYTHONUTF8=1")
			cmd.Stderr = os.Stderr
			in, err1 := cmd.StdinPipe() // never written: the main thread waits in os.read
			out, err2 := cmd.StdoutPipe()
			if err1 != nil || err2 != nil {
				t.Fatal(err1, err2)
			}
			defer in.Close()
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
			line, err := bufio.NewReader(out).ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			var said [][][3]any
			if err := json.Unmarshal([]byte(line), &said); err != nil {
				t.Fatal(err)
			}
			got, err := Read(t.Context(), cmd.Process.Pid)
			if err != nil {
				t.Fatal(err)
			}
			if len(got) != len(said)+1 { // besides the thread that asked
				t.Fatalf("%d threads, want %d", len(got), len(said)+1)
			}
			for i, stack := range said {
				var want Thread
				for _, f := range stack {
					want = append(want, Frame{f[0].(string), f[1].(string), int(f[2].(float64))})
				}
				if i == 0 && !slices.Equal(got[0], want) || !slices.ContainsFunc(got, func(t Thread) bool { return slices.Equal(t, want) }) {
					t.Errorf("thread %d:\n got %v\nwant %v", i, got, want)
				}
			}
		})
	}
}

func TestReadOfOtherPrograms(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "sleep", "60")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	if threads, err := Read(t.Context(), cmd.Process.Pid); err == nil {
		t.Errorf("sleep has Python's threads %v", threads)
	}
	if _, err := Read(t.Context(), 1<<30); err == nil {
		t.Error("no error for a process that is not there")
	}
}

// BenchmarkRead measures how long one reading of a Python process takes.
func BenchmarkRead(b *testing.B) {
	name, err := exec.LookPath("python3")
	if err != nil {
		b.Skip(err)
	}
	cmd := exec.CommandContext(b.Context(), name, "-c", "import time\nprint(1, flush=True)\ntime.sleep(600)")
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := Read(b.Context(), cmd.Process.Pid); err != nil {
			b.Fatal(err)
		}
	}
}
