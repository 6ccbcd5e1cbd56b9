package secret

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// Env is the variable that has the secret's text. No worker sees it.
const Env = "GORUN_SECRET"

// Find is the secret of a file, else (file is "") of GORUN_SECRET, else none. The
// warning is one line for the user, "" mostly. A variable that is set to nothing
// is an error: whoever set it meant a secret.
func Find(file string, lookup func(string) (string, bool)) (s Secret, warning string, err error) {
	if file != "" {
		return load(file)
	}
	text, set := lookup(Env)
	if !set {
		return Secret{}, "", nil
	}
	if s, err = New([]byte(text)); err != nil {
		return s, "", fmt.Errorf("cannot use %s: %w", Env, err)
	}
	return s, "", nil
}

// load reads a regular file, and no more of it than a secret may have.
func load(file string) (Secret, string, error) {
	fail := func(err error) (Secret, string, error) {
		if p, ok := errors.AsType[*fs.PathError](err); ok {
			err = p.Err
		}
		return Secret{}, "", fmt.Errorf("cannot use --secret-file %s: %w", file, err)
	}
	f, err := os.OpenFile(file, os.O_RDONLY|unix.O_NONBLOCK, 0) // a pipe would wait for its writer
	if err != nil {
		return fail(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return fail(err)
	}
	if !info.Mode().IsRegular() {
		return fail(errors.New("it is not a regular file"))
	}
	text, err := io.ReadAll(io.LimitReader(f, Max+3)) // one byte too many, and a line end
	if err != nil {
		return fail(err)
	}
	s, err := New(text)
	if err != nil {
		return fail(err)
	}
	if mode := info.Mode().Perm(); mode&0o044 != 0 {
		return s, fmt.Sprintf("warning: the secret in %s can be read by other users (mode %04o); chmod 600 %s", file, mode, file), nil
	}
	return s, "", nil
}
