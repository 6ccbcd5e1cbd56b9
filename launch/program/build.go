package program

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gorun/gorun/internal/environ"
)

// maxBuildOutput bounds the Go tool's output in an error, in bytes.
const maxBuildOutput = 8 << 10

// Build makes the program ready to start. For Go it runs "go build" once, in the
// package's own folder, so that the tool finds the package's module whatever the
// working directory is. If the program does not build, the error is a *BuildError.
func (p Plan) Build(ctx context.Context) (Program, error) {
	prog := Program{Path: p.path, Title: p.in.Program}
	name := p.path // argv[0] is a path, so that Python finds its virtual environment
	switch p.kind {
	case direct:
		if name = p.in.Program; strings.Contains(name, "/") {
			prog.Path = name // which a script sees as its own name
		}
	case python:
		prog.Interpreter = p.path
	case golang:
		path, err := p.goBuild(ctx)
		if err != nil {
			return Program{}, err
		}
		prog.Path, name = path, path
	}
	prog.Argv = func(localRank int) []string {
		argv := []string{name}
		for _, arg := range slices.Concat(p.head, p.localRankArg(), p.in.Args) {
			argv = append(argv, Substitute(arg, localRank))
		}
		return argv
	}
	return prog, nil
}

// localRankArg returns the argument with the local rank, if the worker gets one.
func (p Plan) localRankArg() []string {
	if !p.in.LocalRank {
		return nil
	}
	return []string{"--local-rank=${local_rank}"}
}

// goBuild makes BuildDir and builds the program in it.
func (p Plan) goBuild(ctx context.Context) (path string, err error) {
	if err := os.Mkdir(p.in.BuildDir, 0o700); err != nil {
		return "", fmt.Errorf("cannot build %s: %w", p.in.Program, err)
	}
	path = filepath.Join(p.in.BuildDir, strings.TrimSuffix(filepath.Base(p.path), ".go"))
	return path, p.compile(ctx, path)
}

func (p Plan) compile(ctx context.Context, output string) error {
	tool := p.in.lookPath("go")
	if root := environ.Get(p.in.Env, "GOROOT"); tool == "" && root != "" && isExecutable(filepath.Join(root, "bin", "go")) {
		tool = filepath.Join(root, "bin", "go")
	}
	if tool == "" {
		return fmt.Errorf("cannot build %s: no go on PATH (install Go, or build it elsewhere and name the built program)", p.in.Program)
	}
	dir, target := p.path, "."
	if p.single {
		dir, target = filepath.Dir(p.path), "./"+filepath.Base(p.path)
	}
	argv := []string{"go", "build", "-o", output, target}
	command := fmt.Sprintf("%s in %s", strings.Join(argv, " "), dir)
	env := append(slices.Clone(p.in.Env), "GOTMPDIR="+filepath.Dir(output)) // a killed tool does not remove its own folder
	text, exit, err := p.in.Run(ctx, tool, argv, env, dir)
	if err != nil {
		return fmt.Errorf("cannot build %s: %s: %w", p.in.Program, command, err)
	}
	if exit != 0 {
		return &BuildError{p.in.Program, command, exit, string(excerpt(text))}
	}
	// For a package that is no command the Go tool makes an archive.
	head, err := firstBytes(output)
	if err != nil {
		return fmt.Errorf("cannot build %s: %s made no program: %w", p.in.Program, command, err)
	}
	if !isELF(head) {
		return fmt.Errorf("cannot start %s: it is not a Linux program after %s (is it package main?)", p.in.Program, command)
	}
	return nil
}

// BuildError is the error of the Go tool for a program that does not build.
type BuildError struct {
	Program string // as the user named it
	Command string
	Code    int    // exit code of the tool
	Output  string // of the tool, at most a few KiB
}

// Error returns the error with all of the output.
func (e *BuildError) Error() string {
	return fmt.Sprintf("cannot build %s: %s ended with code %d:\n%s", e.Program, e.Command, e.Code, e.Output)
}

// Short returns the error in one line, with the compiler's first error.
func (e *BuildError) Short() string {
	for line := range strings.Lines(e.Output) {
		// "# package" heads the errors of a package; the download of modules comes
		// before.
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") && !strings.HasPrefix(line, "go: downloading ") {
			return fmt.Sprintf("cannot build %s: %s", e.Program, line)
		}
	}
	return fmt.Sprintf("cannot build %s: go build ended with code %d", e.Program, e.Code)
}

// excerpt returns the beginning of the output, where compilers print the first
// error.
func excerpt(output []byte) []byte {
	output = bytes.TrimSpace(output)
	if len(output) > maxBuildOutput {
		output = append(bytes.ToValidUTF8(output[:maxBuildOutput:maxBuildOutput], nil), " [...]"...)
	}
	return output
}
