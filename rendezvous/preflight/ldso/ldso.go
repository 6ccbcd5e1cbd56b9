// Package ldso asks the C library's loader, ld.so, which shared libraries a
// program would get, and reads what their files say.
//
// The loader is the program's own PT_INTERP. It is started with --list in a
// child process, with the environment and the folder of the workers. --list
// maps the program and its libraries and prints where each was found. It runs
// neither the program nor a constructor of a library. (ldd is not used, because
// it starts the program itself in some cases.) LD_DEBUG makes the loader print
// its search.
//
// Invariants: a child ends within two seconds, and its output is bounded by the
// Runner. Unexpected output and hostile files are errors, never panics. Only
// the loader of glibc is asked, because others, such as musl's, print something
// else.
package ldso

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gorun/gorun/internal/environ"
)

// Runner runs a program until it or ctx ends. It returns the beginning of what
// the program wrote to standard output and standard error, and its exit status.
// It leaves no process behind.
type Runner func(ctx context.Context, path string, argv, env []string, dir string) (output []byte, exit int, err error)

// limit is how long one child may take. The child maps files, which may be on a
// slow file system.
const limit = 2 * time.Second

// anyProgram is a program that every machine has. It stands for any program in
// questions to the loader.
const anyProgram = "/bin/sh"

// Loader is the loader as the workers would start it.
type Loader struct {
	Run Runner   // nil: the loader is not asked
	Env []string // of the workers; of two entries for a name the later counts
	Dir string   // their working directory
}

// List returns what ld.so would load for a program, and for the libraries that
// the program would open by dlopen one after the other. If program is empty,
// List uses /bin/sh, which stands for any program. A static program loads
// nothing.
func (l Loader) List(ctx context.Context, program string, open ...string) (Answer, error) {
	if program == "" {
		program = anyProgram
	}
	interp, err := Interpreter(program)
	if err != nil || interp == "" {
		return Answer{}, err
	}
	if !isGlibcLoader(interp) {
		return Answer{}, fmt.Errorf("%s is not the loader of glibc", interp)
	}
	if l.Run == nil {
		return Answer{}, errors.New("the loader was not asked")
	}
	for _, name := range open {
		if !canPreload(name) {
			return Answer{}, errCannotPreload(name)
		}
	}
	preload := slices.Concat(Preloads(l.Env), open)
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("no answer within %v", limit))
	defer cancel()
	out, exit, err := l.Run(ctx, interp, []string{interp, "--list", program}, l.environment(preload), l.Dir)
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return Answer{}, fmt.Errorf("%s --list %s: %w", interp, program, err)
	}
	a := parse(string(out))
	for i := range a.Requests {
		r := &a.Requests[i]
		r.finish(l.Dir)
		if r.Path != "" && r.By == program && slices.Contains(Preloads(l.Env), r.Name) {
			r.Why = "LD_PRELOAD"
		}
	}
	if len(a.Requests) == 0 && exit != 0 {
		return a, fmt.Errorf("%s --list %s: it ended with status %d: %.200s", interp, program, exit, strings.TrimSpace(string(out)))
	}
	return a, nil
}

// isGlibcLoader reports by its name whether a loader is glibc's. Alpine has a
// link of that name to musl's loader.
func isGlibcLoader(interp string) bool {
	real, err := filepath.EvalSymlinks(interp)
	base := filepath.Base(interp)
	return err == nil && !strings.Contains(real, "musl") && (strings.HasPrefix(base, "ld-linux") || strings.HasPrefix(base, "ld64.so"))
}

// Find returns what dlopen of each name finds in a program without an RPATH. It
// leaves out names without an answer.
func (l Loader) Find(ctx context.Context, names []string) (map[string]Request, error) {
	found := map[string]Request{}
	find := func(names ...string) error {
		a, err := l.List(ctx, "", names...)
		for _, r := range a.Requests {
			if _, known := found[r.Name]; !known && slices.Contains(names, r.Name) {
				found[r.Name] = r
			}
		}
		return err
	}
	for _, name := range names {
		if !canPreload(name) {
			found[name] = Request{Name: name, Err: errCannotPreload(name).Error()}
		}
	}
	if err := find(slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !canPreload(name) })...); err != nil {
		return nil, err
	}
	for _, name := range names {
		// The loader does not search for the SONAME of a library that it has
		// mapped, and a damaged library may end the loader early.
		if _, known := found[name]; !known {
			if err := find(name); err != nil {
				return found, err
			}
		}
	}
	return found, nil
}

// canPreload reports whether a name can be an element of LD_PRELOAD as it is.
func canPreload(name string) bool { return !strings.ContainsAny(name, ": \t\n$") }

func errCannotPreload(name string) error {
	return fmt.Errorf("the loader cannot be asked for %q, whose name has a space, a colon or a dollar sign", name)
}

// environment returns the workers' environment with the libraries to preload.
// It removes the loader's other variables, which would change its output or run
// code (LD_AUDIT).
func (l Loader) environment(preload []string) []string {
	env := slices.DeleteFunc(slices.Clone(l.Env), func(entry string) bool {
		return strings.HasPrefix(entry, "LD_") && !strings.HasPrefix(entry, "LD_LIBRARY_PATH=")
	})
	return append(env, "LD_DEBUG=libs,files", "LD_PRELOAD="+strings.Join(preload, ":"))
}

// Preloads returns the elements of LD_PRELOAD in an environment.
func Preloads(env []string) []string {
	return strings.FieldsFunc(environ.Get(env, "LD_PRELOAD"), func(c rune) bool { return c == ' ' || c == ':' })
}

// Interpreter returns the loader that a program of this machine asks for
// (PT_INTERP), "" for a static program.
func Interpreter(program string) (string, error) {
	f, err := Open(program)
	if err != nil {
		return "", fmt.Errorf("%s: %w", program, err)
	}
	defer f.Close()
	if err := f.checkMachine(); err != nil {
		return "", fmt.Errorf("%s: %w", program, err)
	}
	// The kernel starts such a program without the LD_ variables, but --list
	// reads them.
	if f.Mode&(os.ModeSetuid|os.ModeSetgid) != 0 {
		return "", fmt.Errorf("%s is set-user-id or set-group-id", program)
	}
	return f.interpreter()
}
