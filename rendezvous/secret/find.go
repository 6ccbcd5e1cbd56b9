package secret

import (
	"fmt"

	"github.com/gorun/gorun/internal/smallfile"
)

// Env is the variable that has the secret's text. No worker sees it.
const Env = "GORUN_SECRET"

// Find returns the secret in a file, in GORUN_SECRET if file is "", or none. The warning
// is one line for the user or "". An empty variable is an error, because the user meant
// to set a secret.
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

// load reads the secret in a file.
func load(file string) (Secret, string, error) {
	text, mode, err := smallfile.Read(file, Max+len("\r\n"))
	var s Secret
	if err == nil {
		s, err = New(text)
	}
	if err != nil {
		return Secret{}, "", fmt.Errorf("cannot use --secret-file %s: %w", file, err)
	}
	if mode.IsRegular() && mode.Perm()&0o044 != 0 {
		return s, fmt.Sprintf("warning: the secret in %s can be read by other users (mode %04o); chmod 600 %s", file, mode.Perm(), file), nil
	}
	return s, "", nil
}
