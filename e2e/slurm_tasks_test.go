package e2e_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/slurmtest"
)

// taskWorker prints what Slurm gave to the task of a worker: SLURM's number of the task,
// its GPU, whether the parent's parent is the task, and RANK.
const taskWorker = `echo "$SLURM_PROCID $CUDA_VISIBLE_DEVICES $(($(cut -d' ' -f4 /proc/$PPID/stat) == SLURM_TASK_PID)) $RANK $PPID"; echo "errors of $RANK" >&2; `

// step starts gorun by srun on two nodes with two tasks each.
func step(j *job, c *slurmtest.Cluster, script string, flags ...string) *exec.Cmd {
	args := append([]string{"-l", "-N2", "--ntasks-per-node=2", "--gpus-per-task=1", os.Getenv(envGorun), "--srun-tasks=workers"}, flags...)
	cmd := exec.Command("srun", append(args, "--no-python", "sh", "-c", script)...)
	cmd.Env = append(c.Env(), j.token)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd
}

// TestTasksAreWorkers checks srun --ntasks-per-node=2 gorun --srun-tasks=workers: each
// worker runs below its task, with the task's variables and output, and a failure, a
// restart and the loss of a task do what they do elsewhere.
func TestTasksAreWorkers(t *testing.T) {
	c := slurmtest.Start(t, slurmtest.Options{Nodes: 2, GPUs: 2})

	t.Run("each in its task", func(t *testing.T) {
		j := newJob(t)
		out, errs := new(bytes.Buffer), new(bytes.Buffer)
		cmd := step(j, c, taskWorker)
		cmd.Stdout, cmd.Stderr = out, errs
		if err := cmd.Run(); err != nil {
			t.Fatalf("%v\n%s%s", err, out, errs)
		}
		gpus := map[string]bool{}
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		slices.Sort(lines)
		for i, line := range lines {
			var label, task, below, rank int
			var gpu string
			if _, err := fmt.Sscanf(line, "%d: %d %s %d %d", &label, &task, &gpu, &below, &rank); err != nil || label != i || task != i || rank != i || below != 1 {
				t.Errorf("rank %d: %q: %v", i, line, err)
			}
			gpus[fmt.Sprint(i/2, gpu)] = true
			if want := fmt.Sprintf("%d: errors of %d\n", i, i); !strings.Contains(errs.String(), want) {
				t.Errorf("no %q in %s", want, errs)
			}
		}
		if len(lines) != 4 || len(gpus) != 4 {
			t.Errorf("%d workers, GPUs %v, want 4 of each: %q", len(lines), gpus, lines)
		}
	})

	t.Run("a failure and a restart", func(t *testing.T) {
		j := newJob(t)
		fail := `test $RANK = 3 && exit 7; sleep 600 & wait`
		out, err := step(j, c, `test $RANK$TORCHELASTIC_RESTART_COUNT = 30 && exit 6; `+taskWorker+fail, "--max-restarts=1").CombinedOutput()
		exit, ok := err.(*exec.ExitError)
		if !ok || exit.ExitCode() != 7 {
			t.Errorf("%v, want 7\n%s", err, out)
		}
		if n := bytes.Count(out, []byte("3: 3 ")); n != 1 {
			t.Errorf("rank 3 came %d times to its output\n%s", n, out)
		}
	})

	t.Run("a lost task", func(t *testing.T) {
		j := newJob(t)
		rd, wr, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer rd.Close()
		cmd := step(j, c, taskWorker+`setsid sleep 600 & wait`, "--max-restarts=3")
		cmd.Stdout = wr
		errs := new(bytes.Buffer)
		cmd.Stderr = errs
		err = cmd.Start()
		wr.Close()
		if err != nil {
			t.Fatal(err)
		}
		_ = rd.SetReadDeadline(time.Now().Add(longWait))
		parent := 0
		for lines := 0; lines < 4; {
			text := make([]byte, 4096)
			n, err := rd.Read(text)
			if err != nil {
				t.Fatalf("%v\n%s", err, errs)
			}
			for line := range strings.SplitSeq(strings.TrimSpace(string(text[:n])), "\n") {
				lines++
				if words := strings.Fields(line); words[0] == "1:" {
					parent, _ = strconv.Atoi(words[len(words)-1])
				}
			}
		}
		if err := syscall.Kill(parent, syscall.SIGKILL); err != nil {
			t.Fatal(parent, err)
		}
		err = cmd.Wait()
		if exit, ok := err.(*exec.ExitError); !ok || exit.ExitCode() != 137 {
			t.Errorf("%v, want 137\n%s", err, errs)
		}
	})
}
