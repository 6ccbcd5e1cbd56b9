// Package buildtest builds gorun for tests that run it as a process. It belongs to tests
// only.
package buildtest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Env names the gorun under test. Without it Run builds one, and sets it.
const Env = "E2E_GORUN"

// Run calls run, such as testing.M.Run, with a gorun that is built with these flags, and
// returns what it returns.
func Run(run func() int, flags ...string) (code int) {
	if os.Getenv(Env) != "" {
		return run()
	}
	dir, err := os.MkdirTemp("", "gorun-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	bin := filepath.Join(dir, "gorun")
	args := append(append([]string{"build"}, flags...), "-o", bin, "github.com/gorun/gorun/cmd/gorun")
	if out, err := exec.Command("go", args...).CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "cannot build gorun: %v\n%s", err, out)
		return 1
	}
	if err := os.Setenv(Env, bin); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return run()
}
