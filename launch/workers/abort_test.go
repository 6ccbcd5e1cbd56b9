package workers

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gorun/gorun/launch/logs"
	"github.com/gorun/gorun/launch/place"
	"github.com/gorun/gorun/launch/process"
	"github.com/gorun/gorun/launch/program"
	"github.com/gorun/gorun/rendezvous"
)

// TestStopAborts checks that a Python worker that Stop aborts prints its stack, leaves no
// core file and is no failure of the round; and that the other worker gets SIGTERM.
func TestStopAborts(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("no Python here")
	}
	table, err := process.Open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(table.Close)
	dir := t.TempDir()
	files, err := logs.ParseStd("3")
	if err != nil {
		t.Fatal(err)
	}
	const script = `import faulthandler, resource, sys, time
def load_data():
    print("up", file=sys.stderr, flush=True)
    time.sleep(600)
faulthandler.enable()
soft, hard = resource.getrlimit(resource.RLIMIT_CORE)
resource.setrlimit(resource.RLIMIT_CORE, (hard, hard))
load_data()
`
	path := filepath.Join(dir, "train.py")
	if err := os.WriteFile(path, []byte(script), 0o600); err != nil {
		t.Fatal(err)
	}
	r := New(Options{
		Table: Processes(table),
		Plan: &Plan{
			World:   rendezvous.World{Size: 2, Members: []rendezvous.Member{{Workers: 2}}},
			Program: program.Program{Path: python, Interpreter: python, Argv: func(int) []string { return []string{python, path} }},
			Places:  &place.Plan{}, Dir: dir,
		},
		Open: func(local int) (*logs.Worker, error) {
			return logs.Open(logs.WorkerOptions{LocalRank: local, Dir: dir, Tee: files.For(local)})
		},
		ReportedFailure: func(context.Context, int) string { return "" },
		Post:            func(e rendezvous.Event) { t.Errorf("%+v", e) },
	})
	r.Start()
	defer r.Close()
	all := r.Workers()
	if len(all) != 2 {
		t.Fatalf("%d workers", len(all))
	}
	for _, w := range all {
		for deadline := time.Now().Add(20 * time.Second); strings.Join(w.Output.Tail(), "") != "up"; {
			if time.Now().After(deadline) {
				t.Fatalf("rank %d: %q", w.Rank, w.Output.Tail())
			}
		}
	}
	over, ok := r.Stop(process.StopOptions{Grace: 20 * time.Second}, 1)
	if !ok || len(over.Failures) != 0 || len(over.Ends) != 2 || over.Ends[0].Signal != syscall.SIGTERM || over.Ends[1].Signal != syscall.SIGABRT {
		t.Errorf("%v, %+v", ok, over)
	}
	if tail := strings.Join(all[1].Output.Tail(), "\n"); !strings.Contains(tail, " in load_data") {
		t.Errorf("rank 1 printed %q", tail)
	}
	if cores, _ := filepath.Glob(filepath.Join(dir, "core*")); len(cores) > 0 {
		t.Errorf("left: %v", cores)
	}
}
