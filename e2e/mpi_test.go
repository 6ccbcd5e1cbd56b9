package e2e_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/gorun/gorun/internal/porttest"
)

// mpiLauncher starts gorun on two nodes that are both this machine.
type mpiLauncher struct {
	name, program string
	args          func(ssh string, each int) []string // each: processes a node
}

func mpiLaunchers() []mpiLauncher {
	host, _ := os.Hostname()
	return []mpiLauncher{
		{"Open MPI", "mpirun.openmpi", func(ssh string, each int) []string {
			return append(openMPIArgs(ssh), "--host", host+":8,127.0.0.2:8", "-N", fmt.Sprint(each), "-n", fmt.Sprint(2*each))
		}},
		{"Hydra", "mpiexec.hydra", func(ssh string, each int) []string {
			return []string{"-launcher", "ssh", "-launcher-exec", ssh, "-hosts", "127.0.0.2,127.0.0.3", "-ppn", fmt.Sprint(each), "-n", fmt.Sprint(2 * each)}
		}},
	}
}

func openMPIArgs(ssh string) []string {
	return []string{"--oversubscribe", "--bind-to", "none", "--mca", "plm_rsh_agent", ssh, "--mca", "plm_rsh_no_tree_spawn", "1"}
}

// run runs gorun by the launcher with a shell script as program. It returns the exit code
// and the output.
func (l mpiLauncher) run(j *job, args []string, script string) (code int, out, errs string) {
	j.Helper()
	path, err := exec.LookPath(l.program)
	need(j, err == nil, l.program)
	dir, err := os.MkdirTemp("", "e2e-mpi-") // j.dir is too long for Open MPI's sockets
	if err != nil {
		j.Fatal(err)
	}
	j.Cleanup(func() { os.RemoveAll(dir) })
	for _, host := range []string{"127.0.0.2", "127.0.0.3"} { // daemons of one folder remove each other's files
		if err := os.Mkdir(filepath.Join(dir, host), 0o700); err != nil {
			j.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(j.Context(), longWait)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, append(args, os.Getenv(envGorun), "--no-python", "sh", "-c", script)...)
	cmd.Env = append(os.Environ(), j.token, "TMPDIR="+dir, "BENCH_TMPDIR="+dir, "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1", hideGPUs)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err = cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return exit.ExitCode(), stdout.String(), stderr.String()
	} else if err != nil {
		j.Fatal(err)
	}
	return 0, stdout.String(), stderr.String()
}

func standIn(t testing.TB) string {
	t.Helper()
	path, err := filepath.Abs("../bench/ssh-stand-in.sh")
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// TestMPI checks that mpirun and mpiexec start one job, with nothing said of where the
// nodes meet: one gorun a node, and several, of which one starts the workers.
func TestMPI(t *testing.T) {
	ssh := standIn(t)
	for _, l := range mpiLaunchers() {
		for _, each := range []int{1, 2} {
			t.Run(fmt.Sprintf("%s, %d a node", l.name, each), func(t *testing.T) {
				j := newJob(t)
				code, out, errs := l.run(j, l.args(ssh, each), `echo "$RANK of $WORLD_SIZE on $GROUP_RANK of $GROUP_WORLD_SIZE, $LOCAL_RANK of $LOCAL_WORLD_SIZE, fd '$PMI_FD' secret '$GORUN_SECRET' run $(test -n "$TORCHELASTIC_RUN_ID" && test "$TORCHELASTIC_RUN_ID" != none && echo named)"`)
				var want []string
				for rank := range 2 * each {
					want = append(want, fmt.Sprintf("%d of %d on %d of 2, %d of %d, fd '' secret '' run named", rank, 2*each, rank/each, rank%each, each))
				}
				got := strings.Split(strings.TrimSpace(out), "\n")
				slices.Sort(got)
				if code != 0 || !slices.Equal(got, want) {
					t.Errorf("code %d, workers %q, want %q\n%s", code, got, want, errs)
				}
				if strings.Contains(errs, "has no secret") {
					t.Errorf("no secret: %s", errs)
				}
			})
		}
		t.Run(l.name+", a failure", func(t *testing.T) {
			j := newJob(t)
			if code, _, errs := l.run(j, l.args(ssh, 1), `test $RANK = 1 && exit 7; exec sleep 600`); code != 7 {
				t.Errorf("code %d, want 7\n%s", code, errs)
			}
		})
	}
}

// TestMPIRunElsewhere checks that gorun says what to type where mpirun's machine has no
// process.
func TestMPIRunElsewhere(t *testing.T) {
	j := newJob(t)
	l := mpiLaunchers()[0]
	args := append(openMPIArgs(standIn(t)), "--host", "127.0.0.2:8,127.0.0.3:8", "-N", "1")
	host, _ := os.Hostname()
	if code, _, errs := l.run(j, args, "true"); code != 2 || !strings.Contains(errs, "--rdzv-endpoint "+host) {
		t.Errorf("code %d, want 2 and what to type\n%s", code, errs)
	}
	j = newJob(t)
	args = append(args, "-x", "GORUN_RDZV_ENDPOINT=127.0.0.1:"+fmt.Sprint(porttest.Free(t, "")))
	if code, _, errs := l.run(j, args, "true"); code != 0 {
		t.Errorf("with an endpoint: code %d\n%s", code, errs)
	}
}
