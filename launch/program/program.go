// Package program decides how to start what the user named: with Python, by
// building a Go package once, or directly.
//
// The package reads files and builds; it starts no worker. Check is fast and only
// reads files, so that the user sees a mistyped name at once. Build may take a
// minute and should run while the nodes meet. The caller's Runner starts child
// processes, because only the agent reaps its children.
//
// Without --run-path, --no-python and -m the first rule that fits decides:
//
//  1. a directory: Go if it has .go files, Python if it has __main__.py;
//  2. a file ending in .go: Go; in .py: Python;
//  3. an ELF file, or an executable file whose first line names an interpreter
//     (#!): started directly. If that interpreter is Python, rule 4 applies,
//     because PYTHON_EXEC and -u must also apply to scripts with the x bit;
//  4. any other file: Python, as torchrun does with every file;
//  5. no such file, but a bare name on PATH: started directly.
//
// A name with ${local_rank} in it is a script of Python's for each worker. A pipe, and
// "-" for standard input, is a script of Python's that one worker reads.
//
// So a file in the working directory comes before a program on PATH.
package program

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Runner runs a program to its end. It returns the program's standard output and
// standard error together, and its exit code. err is only for a program that could
// not be started or awaited, or for the end of ctx.
type Runner func(ctx context.Context, path string, argv, env []string, dir string) (output []byte, exit int, err error)

// Input holds what the user named, and the surroundings.
type Input struct {
	Program  string
	Args     []string
	NoPython bool // start it directly, whatever it is
	Module   bool // Program is a Python module
	RunPath  bool // Program is a Python script for runpy; wins over NoPython and Module
	// LocalRank gives each worker --local-rank=N before Args.
	LocalRank bool

	Dir string   // working directory of the workers, absolute
	Env []string // environment: PATH, PYTHON_EXEC, VIRTUAL_ENV; given to the Go tool
	Run Runner   // needed for Go packages
	// BuildDir, needed for Go packages, is the folder that Build makes for the
	// program and for everything that the Go tool leaves. The caller removes it in
	// the end.
	BuildDir string
}

// Program is a program that is ready to start.
type Program struct {
	Path string // the file to execute: absolute, or as seen from the workers' folder
	// Argv returns the arguments of one worker, the program's name first.
	Argv func(localRank int) []string
	// Interpreter is the Python that runs the program; "" for another program.
	Interpreter string
	// Title heads the failure report: what the user named, never the interpreter.
	Title string
	// Then is the file that the process executes in its place, if After made the program.
	Then string
}

// Binary returns the file that the user's program begins with.
func (p *Program) Binary() string { return cmp.Or(p.Then, p.Path) }

// After returns a program that runs the program at path, with argv, which is given the
// path and the arguments of p and executes that in its place.
func (p Program) After(path string, argv []string) Program {
	then := p
	p.Path, p.Then = path, then.Path
	p.Argv = func(local int) []string { return slices.Concat(argv, []string{then.Path}, then.Argv(local)) }
	return p
}

// Plan is a checked Input: how to start the program is known.
type Plan struct {
	in     Input
	kind   kind
	path   string   // executable; for Go the folder or the file to build
	single bool     // for Go: path is one file
	head   []string // arguments between the executable and the user's arguments

	// Note is a line for the user about a program that may not be the intended one.
	Note string
}

type kind int

const (
	direct kind = iota
	python
	golang
)

// NeedsBuild reports whether Build takes longer than a moment.
func (p Plan) NeedsBuild() bool { return p.kind == golang }

// Check finds out what the program is. Its errors are about the command line.
func Check(in Input) (Plan, error) {
	switch {
	case in.Program == "":
		return Plan{}, fmt.Errorf("no program given")
	case in.RunPath:
		return in.runPath()
	case in.NoPython && in.Module:
		return Plan{}, fmt.Errorf("cannot use --no-python together with -m: a module is run by Python")
	case in.Module:
		return in.python("-m")
	case in.NoPython:
		path, err := in.executable(in.Program)
		return Plan{in: in, kind: direct, path: path}, err
	}
	if in.isPipe() || in.isTemplate() {
		return in.python()
	}
	path := in.abs(in.Program)
	info, err := os.Stat(path)
	switch {
	case err == nil && info.IsDir():
		return in.directory(path)
	case err == nil && !info.Mode().IsRegular():
		return Plan{}, fmt.Errorf("cannot start %s: it is neither a file nor a folder", in.Program)
	case err == nil:
		return in.file(path, info)
	}
	if !strings.Contains(in.Program, "/") {
		if found := in.lookPath(in.Program); found != "" {
			return Plan{in: in, kind: direct, path: found}, nil
		}
	}
	if !os.IsNotExist(err) {
		return Plan{}, fmt.Errorf("cannot start %s: %w", in.Program, err)
	}
	return Plan{}, fmt.Errorf("no such program: %s%s", in.Program, in.hint())
}

// isPipe reports whether the program is a script that can be read only once: "-", which
// is Python's name for standard input, or a pipe, such as /dev/stdin may be.
func (in Input) isPipe() bool {
	info, err := os.Stat(in.abs(in.Program))
	return in.Program == "-" || err == nil && info.Mode()&os.ModeNamedPipe != 0
}

// isTemplate reports whether the program's name differs from worker to worker.
func (in Input) isTemplate() bool { return Substitute(in.Program, 0) != Substitute(in.Program, 1) }

// hint guesses what the user meant by a name that is no file.
func (in Input) hint() string {
	name := in.Program
	switch {
	case strings.HasSuffix(name, ".py") || strings.HasPrefix(name, "/"):
		return fmt.Sprintf(" (looked in %s)", filepath.Dir(in.abs(name)))
	case strings.Contains(name, "/"):
		return fmt.Sprintf(" (looked for %s; a Go package is named by its folder)", in.abs(name))
	case strings.Contains(name, "."):
		return fmt.Sprintf(" (neither in %s nor on PATH; a Python module needs -m)", in.Dir)
	}
	return fmt.Sprintf(" (neither in %s nor on PATH)", in.Dir)
}

func (in Input) directory(path string) (Plan, error) {
	entries, err := os.ReadDir(path)
	if err != nil {
		return Plan{}, fmt.Errorf("cannot start %s: %w", in.Program, err)
	}
	has := func(fits func(name string) bool) bool {
		return slices.ContainsFunc(entries, func(e os.DirEntry) bool { return !e.IsDir() && fits(e.Name()) })
	}
	switch {
	case has(func(name string) bool { return strings.HasSuffix(name, ".go") }):
		return Plan{in: in, kind: golang, path: path}, nil
	case has(func(name string) bool { return name == "__main__.py" }):
		return in.python()
	}
	return Plan{}, fmt.Errorf("cannot start %s: the folder has neither Go files nor a __main__.py", in.Program)
}

func (in Input) file(path string, info os.FileInfo) (Plan, error) {
	if strings.HasSuffix(path, ".go") {
		return Plan{in: in, kind: golang, path: path, single: true}, nil
	}
	if strings.HasSuffix(path, ".py") {
		return in.script(path)
	}
	head, err := firstBytes(path)
	mayExecute := info.Mode()&0o111 != 0
	switch {
	// A program may be executable but not readable.
	case err != nil && !mayExecute:
		return Plan{}, fmt.Errorf("cannot start %s: %w", in.Program, err)
	case isELF(head) && !mayExecute:
		return Plan{}, fmt.Errorf("cannot start %s: it is a program without permission to execute (chmod +x %s)", in.Program, in.Program)
	case isELF(head), err != nil, mayExecute && bytes.HasPrefix(head, []byte("#!")) && !namesPython(head):
		return Plan{in: in, kind: direct, path: path}, in.startable(in.Program, path)
	}
	plan, err := in.script(path)
	if !mayExecute && bytes.HasPrefix(head, []byte("#!")) && !namesPython(head) {
		plan.Note = fmt.Sprintf("%s is run by Python, as under torchrun: its #! line names something else, but it is not executable (chmod +x %s)", in.Program, in.Program)
	}
	return plan, err
}

// abs returns the path of a name as seen from the workers' working directory.
func (in Input) abs(name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(in.Dir, name)
}

func firstBytes(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	buf := make([]byte, 256)
	n, _ := f.Read(buf)
	return buf[:n], nil
}

func isELF(head []byte) bool { return bytes.HasPrefix(head, []byte("\x7fELF")) }

// namesPython reads a first line such as "#!/usr/bin/env -S python3 -u".
func namesPython(head []byte) bool {
	line, _, _ := strings.Cut(string(head[2:]), "\n")
	return slices.ContainsFunc(strings.Fields(line), func(word string) bool {
		return strings.HasPrefix(filepath.Base(word), "python")
	})
}
