package library

import (
	"debug/elf"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// maxInterpreters is how many scripts may run each other, as in the kernel.
const maxInterpreters = 4

type workerKind int

const (
	noWorker workerKind = iota // no program was named
	elfWorker
	pythonWorker
	goWorker // source that is not built yet; needs no library, and may open NCCL
	unknownWorker
)

// worker is the program that will be executed.
type worker struct {
	kind   workerKind
	path   string   // ELF file, or Python's interpreter as it is named
	args   []string // of the interpreter: flags, then the script
	script string
	why    string // of unknownWorker
}

// wrappers start another program, which this package does not look for.
var wrappers = []string{
	"sh", "bash", "dash", "zsh", "ksh", "fish", "env", "nice", "timeout", "numactl", "taskset", "nsys", "ncu", "strace", "gdb", "sudo",
	"conda", "mamba", "micromamba", "uv", "poetry", "pixi", "docker", "podman", "apptainer", "singularity", "enroot", "srun", "mpirun",
}

// worker finds the program that is executed in the end.
func (g *gatherer) worker() worker {
	w := worker{kind: pythonWorker, path: g.Python, script: g.Script}
	if g.Python != "" {
		// If the script is not among the arguments, they are the user's own.
		if g.Program == g.Python && (g.Script == "" || slices.Contains(g.Args, g.Script)) {
			w.args = g.Args
		}
		return w
	}
	w.path, w.args = g.Program, g.Args
	if w.path == "" {
		return worker{kind: noWorker}
	}
	if strings.HasSuffix(w.path, ".go") || isDir(w.path) {
		return worker{kind: goWorker}
	}
	for range maxInterpreters {
		head, err := readHead(w.path, 4096)
		text := string(head)
		switch {
		case err != nil:
			return unknownProgram("which libraries the worker loads is not known: " + err.Error())
		case isPython(w.path) && !strings.HasPrefix(text, "#!"):
			w.kind = pythonWorker
			return w
		case strings.HasPrefix(text, elf.ELFMAG):
			if base := filepath.Base(w.path); slices.Contains(wrappers, base) {
				return unknownProgram("what " + base + " starts is not known, so the NCCL that workers load is unknown")
			}
			return worker{kind: elfWorker, path: w.path}
		case !strings.HasPrefix(text, "#!"):
			return unknownProgram(w.path + " is neither an ELF file nor a script with #!, so the NCCL that workers load is unknown")
		}
		if isPython(w.path) {
			w.kind = pythonWorker // a version manager's shim
			return w
		}
		next, arg := g.interpreter(text)
		if next == "" {
			return unknownProgram("the interpreter of " + w.path + " is not found, so the NCCL that workers load is unknown")
		}
		w.args = slices.Concat(arg, []string{w.path}, w.args)
		w.path = next
		if isPython(next) {
			w.kind = pythonWorker
			return w
		}
	}
	return unknownProgram(g.Program + ": too many scripts that run scripts")
}

func unknownProgram(why string) worker { return worker{kind: unknownWorker, why: why} }

func isPython(path string) bool { return strings.HasPrefix(filepath.Base(path), "python") }

// interpreter reads the first line of a script. It returns the program that
// runs the script and the arguments before the script's name.
func (g *gatherer) interpreter(text string) (path string, args []string) {
	line, _, _ := strings.Cut(strings.TrimPrefix(text, "#!"), "\n")
	path, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
	rest = strings.TrimSpace(rest)
	if filepath.Base(path) != "env" {
		if rest != "" {
			args = []string{rest} // the kernel does not split this
		}
		return path, args
	}
	words := []string{rest}
	if split, ok := strings.CutPrefix(rest, "-S"); ok {
		words = strings.Fields(split)
	}
	for len(words) > 0 && strings.Contains(words[0], "=") {
		words = words[1:]
	}
	if len(words) == 0 || words[0] == "" {
		return "", nil
	}
	return g.lookPath(words[0]), words[1:]
}

// lookPath searches PATH of the workers' environment.
func (g *gatherer) lookPath(name string) string {
	if strings.Contains(name, "/") {
		return name
	}
	for _, dir := range filepath.SplitList(g.env.get("PATH")) {
		path := filepath.Join(dir, name)
		if info, err := os.Stat(path); filepath.IsAbs(dir) && err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return path
		}
	}
	return ""
}
