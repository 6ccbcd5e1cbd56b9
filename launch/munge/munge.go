// Package munge seals texts for one user of a cluster, by the programs munge and
// unmunge. A credential travels openly: the cluster's munge key encrypts it, and only a
// process of the same user on a machine with that key can open it.
//
// Invariants: Open returns no text of another user. A text is never an argument of a
// program. Every program has a deadline.
package munge

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/gorun/gorun/internal/environ"
	"github.com/gorun/gorun/internal/term"
)

const (
	// timeout bounds one run of munge or unmunge. A munged that is busy with other
	// nodes needs some time.
	timeout = 5 * time.Second
	// MaxCredential bounds a credential, in bytes.
	MaxCredential = 16 << 10
)

// Runner runs a program with an input. It returns the output and the exit status.
type Runner func(ctx context.Context, input []byte, path string, argv, env []string, dir string) ([]byte, int, error)

// Munge seals and opens texts. It is safe for concurrent use.
type Munge struct {
	seal, open string // files of munge and unmunge
	socket     string // of munged; "": the one that munge knows
	uid        string // this user's number, as munged sees it
	env        []string
	run        Runner
}

// Find looks for munge and tries it. The error says why gorun does not use it.
func Find(ctx context.Context, env []string, run Runner) (*Munge, error) {
	m := &Munge{env: env, run: run}
	var err error
	if m.seal, err = findProgram(env, "munge"); err != nil {
		return nil, err
	}
	if m.open, err = findProgram(env, "unmunge"); err != nil {
		return nil, err
	}
	if m.socket, err = findSocket(ctx, env, run); err != nil {
		return nil, err
	}
	// In a user namespace this process has another number than munged sees.
	text, err := m.call(ctx, m.seal, nil, "--no-input")
	if err != nil {
		return nil, err
	}
	out, err := m.call(ctx, m.open, []byte(text))
	if err != nil {
		return nil, err
	}
	c, err := parse(out)
	if err != nil {
		return nil, err
	}
	m.uid = c.uid
	return m, nil
}

// findProgram looks for a program in PATH.
func findProgram(env []string, name string) (string, error) {
	for _, dir := range filepath.SplitList(environ.Get(env, "PATH")) {
		if path := filepath.Join(dir, name); filepath.IsAbs(path) {
			if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
				return path, nil
			}
		}
	}
	return "", fmt.Errorf("the program %s is not in PATH", name)
}

// Seal returns a credential with a text that only this user can open.
func (m *Munge) Seal(ctx context.Context, text []byte) (string, error) {
	out, err := m.call(ctx, m.seal, text, "--restrict-uid="+m.uid)
	if err != nil {
		return "", err
	}
	return strings.TrimSpace(out), nil
}

// OtherUser is the error of a credential that another user has made.
type OtherUser struct{ Name string } // the user, as unmunge shows it: "nobody (65534)"

func (o *OtherUser) Error() string { return "it is of another user: " + o.Name }

// Open returns the text of a credential of the same user.
func (m *Munge) Open(ctx context.Context, credential string) ([]byte, error) {
	if len(credential) > MaxCredential || !strings.HasPrefix(credential, "MUNGE:") {
		return nil, errors.New("it is no credential of munge")
	}
	out, err := m.call(ctx, m.open, []byte(credential))
	if err != nil {
		return nil, err
	}
	c, err := parse(out)
	if err != nil {
		return nil, err
	}
	if c.uid != m.uid {
		return nil, &OtherUser{c.user}
	}
	return []byte(c.text), nil
}

// call runs a program of munge. The error has its words and not its input.
func (m *Munge) call(ctx context.Context, path string, input []byte, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	argv := append([]string{path}, args...)
	if m.socket != "" {
		argv = append(argv, "--socket="+m.socket)
	}
	out, status, err := m.run(ctx, input, path, argv, m.env, "/")
	if err != nil {
		if errors.Is(err, context.DeadlineExceeded) {
			err = fmt.Errorf("%s has not ended within %v: %w", path, timeout, err)
		}
		return "", err
	}
	if status != 0 {
		return "", fmt.Errorf("%s: %s", path, complaint(string(out), status))
	}
	return string(out), nil
}

// complaint returns the error that munge or unmunge printed.
func complaint(out string, status int) string {
	for line := range strings.SplitSeq(out, "\n") {
		if _, text, ok := strings.Cut(line, ": Error: "); ok {
			return term.Truncate(term.OneLine(text), 200)
		}
	}
	return fmt.Sprintf("it ended with %d", status)
}
