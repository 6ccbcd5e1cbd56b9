package program

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/gorun/gorun/internal/environ"
	"github.com/gorun/gorun/rendezvous/preflight/ldso"
)

// python plans "python -u [-m] PROGRAM ARGS".
func (in Input) python(flags ...string) (Plan, error) {
	path, err := in.interpreter()
	head := append(append([]string{"-u"}, flags...), in.Program)
	return Plan{in: in, kind: python, path: path, head: head}, err
}

// runPath plans a script that runs in Python's runpy.
func (in Input) runPath() (Plan, error) {
	if path := in.abs(in.Program); !in.isTemplate() {
		if _, err := os.Stat(path); err != nil {
			return Plan{}, fmt.Errorf("no such program: %s (looked for %s)", in.Program, path)
		}
	}
	path, err := in.interpreter()
	return Plan{in: in, kind: python, path: path, head: []string{"-u", "-c", runScriptPath, in.Program}}, err
}

// runScriptPath runs the script that is its first argument as __main__. As under torchrun
// an exception goes to the error file, if this Python has torch.
const runScriptPath = `import runpy, sys
def run_script_path():
    del sys.argv[0]
    runpy.run_path(sys.argv[0], run_name="__main__")
try:
    from torch.distributed.elastic.multiprocessing.errors import record
    run_script_path = record(run_script_path)
except Exception:
    pass
run_script_path()
`

// script plans a file that Python has to read.
func (in Input) script(path string) (Plan, error) {
	plan, err := in.python()
	if no := access(path, unix.R_OK); no != nil && err == nil {
		err = fmt.Errorf("cannot start %s: this user may not read it (%w)", in.Program, no)
	}
	return plan, err
}

// interpreter finds Python: PYTHON_EXEC (torchrun's variable), the active virtual
// environment, python3 or python on PATH. It does not follow links, because Python
// finds its virtual environment by the place of the link.
func (in Input) interpreter() (string, error) {
	if name := environ.Get(in.Env, "PYTHON_EXEC"); name != "" {
		path, err := in.executable(name)
		if err != nil {
			return "", fmt.Errorf("cannot use PYTHON_EXEC=%s: %w", name, err)
		}
		return path, nil
	}
	if venv := environ.Get(in.Env, "VIRTUAL_ENV"); venv != "" {
		if path := in.abs(filepath.Join(venv, "bin", "python")); isExecutable(path) {
			return path, nil
		}
	}
	for _, name := range []string{"python3", "python"} {
		if path := in.lookPath(name); path != "" {
			return path, nil
		}
	}
	return "", fmt.Errorf("cannot start %s: no python3 or python on PATH (set PYTHON_EXEC, or use --no-python for a program that is not Python)", in.Program)
}

// executable finds the file that a shell would run for this name.
func (in Input) executable(name string) (string, error) {
	if !strings.Contains(name, "/") {
		if path := in.lookPath(name); path != "" {
			return path, nil
		}
		if isExecutable(in.abs(name)) {
			return "", fmt.Errorf("no such program on PATH: %s (for the file here write ./%s)", name, name)
		}
		return "", fmt.Errorf("no such program on PATH: %s", name)
	}
	path := in.abs(name)
	switch info, err := os.Stat(path); {
	case os.IsNotExist(err):
		return "", fmt.Errorf("no such program: %s (looked for %s)", name, path)
	case err != nil:
		return "", fmt.Errorf("cannot start %s: %w", name, err)
	case info.IsDir():
		return "", fmt.Errorf("cannot start %s: it is a folder", name)
	case info.Mode()&0o111 == 0:
		return "", fmt.Errorf("cannot start %s: no permission to execute it (chmod +x %s)", name, name)
	}
	return path, in.startable(name, path)
}

// startable returns the error of a file with the x bit that the workers still
// cannot execute: its file system does not allow it, the file belongs to another
// user, or the program that the kernel starts in its place does not exist.
func (in Input) startable(name, path string) error {
	if err := access(path, unix.X_OK); err != nil {
		return fmt.Errorf("cannot start %s: it may not be executed by this user, or lies on a file system mounted noexec (%w)", name, err)
	}
	interpreter := ""
	if head, err := firstBytes(path); err == nil && bytes.HasPrefix(head, []byte("#!")) {
		line, _, whole := strings.Cut(string(head[2:]), "\n")
		if words := strings.Fields(line); whole && len(words) > 0 {
			interpreter = words[0]
		}
	} else if isELF(head) {
		interpreter, _ = ldso.Interpreter(path)
	}
	if !filepath.IsAbs(interpreter) || isExecutable(interpreter) {
		return nil
	}
	return fmt.Errorf("cannot start %s: its interpreter, %s, is missing or may not be executed", name, interpreter)
}

// access returns the kernel's answer for this process, which runs as the workers'
// user.
func access(path string, how uint32) error {
	return unix.Faccessat(unix.AT_FDCWD, path, how, unix.AT_EACCESS)
}

// defaultPath holds the folders to search where PATH is not set (env -i).
const defaultPath = "/usr/local/bin:/usr/bin:/bin"

// lookPath searches PATH; it returns "" if nothing fits. As os/exec does, it skips
// relative entries of PATH, because their meaning depends on the working directory.
func (in Input) lookPath(name string) string {
	for _, dir := range filepath.SplitList(cmp.Or(environ.Get(in.Env, "PATH"), defaultPath)) {
		if path := filepath.Join(dir, name); filepath.IsAbs(dir) && isExecutable(path) {
			return path
		}
	}
	return ""
}

func isExecutable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && access(path, unix.X_OK) == nil
}
