package e2e_test

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

const (
	// playFlag, then a mode of play, makes the test binary a worker. It is an argument
	// and not a variable, because a worker's children inherit its environment and could
	// then never be a test run.
	playFlag = "-play"
	envGorun = "E2E_GORUN" // path of the binary under test
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == playFlag {
		os.Exit(runAsWorker(os.Args[2:]))
	}
	flag.Parse()
	// The tests mostly wait.
	if f := flag.Lookup("test.parallel"); f.Value.String() == f.DefValue {
		_ = f.Value.Set("6")
	}
	os.Exit(withGorun(m.Run))
}

// withGorun builds gorun, unless the environment names one, and runs f.
func withGorun(f func() int) int {
	if os.Getenv(envGorun) != "" {
		return f()
	}
	dir, err := os.MkdirTemp("", "gorun-e2e-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	bin := filepath.Join(dir, "gorun")
	build := exec.Command("go", "build", raceFlag, "-o", bin, "../cmd/gorun")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "cannot build gorun: %v\n%s", err, out)
		return 1
	}
	if err := os.Setenv(envGorun, bin); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return f()
}
