package gather

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/gorun/gorun/rendezvous/preflight"
)

// writeProgram creates a folder with files and a script.
func writeProgram(t *testing.T, files ...string) preflight.Program {
	t.Helper()
	dir := t.TempDir()
	for _, name := range append(files, "train.py") {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return preflight.Program{Python: "/usr/bin/python3", Script: filepath.Join(dir, "train.py")}
}

func paths(list []preflight.Module) string {
	var names []string
	for _, m := range list {
		names = append(names, m.Path)
	}
	return strings.Join(names, " ")
}

func TestModules(t *testing.T) {
	p := writeProgram(t, "b.py", "a.py", "pkg/x.py", "pkg/sub/y.py", "data.txt", ".git/z.py", "lib/site-packages/q.py", "pkg/__pycache__/x.py", "venv/pyvenv.cfg", "venv/bin/v.py", "1/2.py", "run-7/x.py", "p/q/r/s/deep.py")
	dir := filepath.Dir(p.Script)
	outside := t.TempDir()
	if err := os.WriteFile(filepath.Join(outside, "secret.py"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for link, to := range map[string]string{"link.py": filepath.Join(outside, "secret.py"), "folder": outside} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "fifo.py"), 0o600); err != nil {
		t.Fatal(err)
	}
	list, more, err := modules(t.Context(), "", p)
	if got := paths(list); err != nil || got != "a.py b.py pkg/sub/y.py pkg/x.py" || !more { // p/q/r/s is too deep
		t.Errorf("%s, more %v, %v", got, more, err)
	}
	again, _, _ := modules(t.Context(), "", p)
	if err := os.WriteFile(filepath.Join(dir, "a.py"), []byte("b.py"), 0o600); err != nil {
		t.Fatal(err)
	}
	changed, _, _ := modules(t.Context(), "", p)
	if again[0] != list[0] || changed[0] == list[0] || changed[1] != list[1] {
		t.Errorf("%v, %v, %v", list[:2], again[:2], changed[:2])
	}
	if list, more, err := modules(t.Context(), "", preflight.Program{Path: "/bin/true", Script: p.Script}); list != nil || more || err != nil {
		t.Errorf("of a program without Python: %v", list)
	}
	module := preflight.Program{Python: p.Python, Title: "pkg.x", Dir: dir}
	if list, _, _ := modules(t.Context(), "", module); len(list) != 5 {
		t.Errorf("of a module: %v", list)
	}
	module.Title = "elsewhere.x"
	if list, _, _ := modules(t.Context(), "", module); list != nil {
		t.Errorf("of a module that lies elsewhere: %v", list)
	}
	linked := p
	linked.Script = filepath.Join(outside, "linked.py")
	if err := os.Symlink(p.Script, linked.Script); err != nil {
		t.Fatal(err)
	}
	if list, _, _ := modules(t.Context(), "", linked); len(list) != 4 {
		t.Errorf("behind a link to the script: %v", list)
	}
}

func TestModulesBounds(t *testing.T) {
	var files []string
	for i := range maxModules + 5 {
		files = append(files, fmt.Sprintf("m%03d.py", i))
	}
	if list, more, err := modules(t.Context(), "", writeProgram(t, files...)); len(list) != maxModules || !more || err != nil {
		t.Errorf("%d files, more %v, %v", len(list), more, err)
	}
	files = []string{"x.py"}
	for i := range maxModuleEntries + 1 {
		files = append(files, fmt.Sprintf("data/%d.py", i))
	}
	if list, more, err := modules(t.Context(), "", writeProgram(t, files...)); paths(list) != "x.py" || !more || err != nil {
		t.Errorf("%d files, more %v, %v", len(list), more, err)
	}
	files = nil
	for i := range maxModuleFolders + 9 {
		files = append(files, fmt.Sprintf("d%03d/x.py", i))
	}
	if list, more, err := modules(t.Context(), "", writeProgram(t, files...)); len(list) >= maxModuleFolders || len(list) < maxModuleFolders/2 || !more || err != nil {
		t.Errorf("%d folders, more %v, %v", len(list), more, err)
	}
}

func BenchmarkModules(b *testing.B) {
	dir := b.TempDir()
	for i := range 100 {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("m%d.py", i)), make([]byte, 10<<10), 0o600); err != nil {
			b.Fatal(err)
		}
	}
	p := preflight.Program{Python: "/usr/bin/python3", Script: filepath.Join(dir, "m0.py")}
	for b.Loop() {
		if _, _, err := modules(b.Context(), "", p); err != nil {
			b.Fatal(err)
		}
	}
}
