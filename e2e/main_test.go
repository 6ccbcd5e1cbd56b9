package e2e_test

import (
	"flag"
	"os"
	"testing"

	"github.com/gorun/gorun/internal/buildtest"
)

const (
	// playFlag, then a mode of play, makes the test binary a worker. It is an argument
	// and not a variable, because a worker's children inherit its environment and could
	// then never be a test run.
	playFlag = "-play"
	envGorun = buildtest.Env // path of the binary under test
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
	os.Exit(buildtest.Run(m.Run, raceFlag))
}
