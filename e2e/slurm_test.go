package e2e_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/slurmtest"
	"github.com/gorun/gorun/launch/spec/surroundings"
)

// TestSlurm runs jobs in a real Slurm of four virtual nodes.
func TestSlurm(t *testing.T) {
	t.Parallel()
	c := slurmtest.Start(t, slurmtest.Options{Nodes: 4, Preempt: true})
	for name, test := range map[string]func(*slurm){
		"signal before the time limit": slurmWarning, "time limit": slurmTimeLimit, "preemption": slurmPreemption, "requeue": slurmRequeue, // the longest first
		"examples": slurmExamples, "tasks": slurmTasks, "tasks of two commands": slurmTwoCommands, "forgotten srun": slurmForgottenSrun, "jobs on one node": slurmJobsOnOneNode,
		"scancel": slurmCancel, "scancel of workers that ignore it": slurmCancelStubborn, "killed slurmstepd": slurmStepdKilled,
		"failure": slurmFailure, "heterogeneous": slurmHeterogeneous, "script": slurmOwnScript, "wrong flag": slurmWrongFlag, "host names": slurmHostNames,
		"another user": slurmOtherUser,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := newJob(t)
			j.env = c.Env()
			test(&slurm{job: j, cluster: c})
		})
	}
}

// slurm is a test's view of the cluster. Its job's processes are those of all its Slurm
// jobs.
type slurm struct {
	*job
	cluster *slurmtest.Cluster
}

// command makes a command of Slurm. Its job gets the token and the folder.
func (s *slurm) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	cmd.Env = append(s.cluster.Env(), "OMP_NUM_THREADS=1", s.token, envDir+"="+s.dir)
	cmd.Dir = s.wd
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	return cmd
}

// output runs a command of Slurm and returns what it prints.
func (s *slurm) output(name string, args ...string) string {
	s.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), longWait)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env, cmd.Dir = s.command(name).Env, s.wd
	out, err := cmd.CombinedOutput()
	if err != nil {
		s.Fatalf("%s %q: %v\n%s", name, args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// srun starts a step outside an allocation.
func (s *slurm) srun(args ...string) *agent {
	s.Helper()
	return s.launch("srun", s.command("srun", args...))
}

// gorun is the program under test.
func gorun() string { return os.Getenv(envGorun) }

// batch is a job of sbatch.
type batch struct {
	s   *slurm
	id  string
	out string // file with its output
}

// sbatch submits a script. In it $E2E_GORUN is gorun.
func (s *slurm) sbatch(script string, options ...string) *batch {
	s.Helper()
	dir, err := os.MkdirTemp(s.dir, "job")
	if err != nil {
		s.Fatal(err)
	}
	b := &batch{s: s, out: filepath.Join(dir, "out")}
	file := filepath.Join(dir, "job.sh")
	if err := os.WriteFile(file, []byte("#!/bin/bash\n"+script+"\n"), 0o755); err != nil {
		s.Fatal(err)
	}
	b.id = s.output("sbatch", append(append([]string{"--parsable", "--open-mode=append", "-o", b.out}, options...), file)...)
	s.Cleanup(func() {
		if s.Failed() {
			s.Logf("--- job %s: %s\n%s", b.id, s.show(b.id)["JobState"], clip(b.text()))
		}
	})
	return b
}

func (b *batch) text() string {
	text, _ := os.ReadFile(b.out)
	return string(text)
}

// show returns what scontrol says of a job.
func (s *slurm) show(id string) map[string]string {
	s.Helper()
	fields := map[string]string{}
	for word := range strings.FieldsSeq(s.output("scontrol", "show", "job", "-o", id)) {
		name, value, _ := strings.Cut(word, "=")
		fields[name] = value
	}
	return fields
}

// prints waits until the job has printed a text n times.
func (b *batch) prints(text string, n int) {
	b.s.Helper()
	eventually(b.s, longWait, fmt.Sprintf("job %s prints %q %d times", b.id, text, n), func() bool { return strings.Count(b.text(), text) >= n })
}

// ends waits until the job has the state and the exit code, as scontrol shows them.
func (b *batch) ends(limit time.Duration, state, code string) map[string]string {
	b.s.Helper()
	var got map[string]string
	for deadline := time.Now().Add(limit); ; time.Sleep(100 * time.Millisecond) { // sleep: between two looks
		got = b.s.show(b.id)
		if !slices.Contains([]string{"PENDING", "CONFIGURING", "RUNNING", "COMPLETING"}, got["JobState"]) {
			break
		}
		if time.Now().After(deadline) {
			b.s.Fatalf("job %s is %s after %v", b.id, got["JobState"], limit)
		}
	}
	if got["JobState"] != state || got["ExitCode"] != code {
		b.s.Errorf("job %s is %s with %s, want %s with %s", b.id, got["JobState"], got["ExitCode"], state, code)
	}
	return got
}

// wants asserts how often the job printed texts.
func (b *batch) wants(times map[string]int) {
	b.s.Helper()
	for text, n := range times {
		if got := strings.Count(b.text(), text); got != n {
			b.s.Errorf("job %s printed %q %d times, want %d", b.id, text, got, n)
		}
	}
}

// script writes a worker's program and returns its path.
func (s *slurm) script(name, text string) string {
	s.Helper()
	path := filepath.Join(s.dir, name)
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text+"\n"), 0o755); err != nil {
		s.Fatal(err)
	}
	return path
}

// saving is a worker that saves for a second after SIGTERM.
func (s *slurm) saving() string {
	return s.script("saving.sh", `trap 'echo "rank $RANK has USR1"' USR1
trap 'sleep 1; echo "rank $RANK saved"; exit 0' TERM
echo "rank $RANK is up"
while :; do sleep 0.1; done`)
}

// The examples run on one, two and four nodes by the line that the docs show.
func slurmExamples(s *slurm) {
	py := python(s, "torch")
	s.wd = ".."
	bin := filepath.Join(s.dir, "allreduce")
	s.output("go", "build", "-o", bin, "./examples/allreduce")
	for _, n := range []int{1, 2, 4} {
		script := fmt.Sprintf("export PYTHON_EXEC=%s\nsrun $E2E_GORUN examples/ddp/train.py && srun $E2E_GORUN %s", py, bin)
		b := s.sbatch(script, "-N", strconv.Itoa(n))
		b.ends(4*longWait, "COMPLETED", "0:0")
		b.wants(map[string]int{
			fmt.Sprintf("ddp: %d ranks on ", n): 1, "parameters identical": 1,
			fmt.Sprintf("allreduce: %d ranks, float32 x 1048576: sum verified", n): 1,
		})
	}
}

// However many tasks a node has, it has one agent, and every task ends with its code.
func slurmTasks(s *slurm) {
	for _, n := range []int{1, 2, 8} {
		flags := []string{"-N", "2", "--overcommit", "--ntasks-per-node", strconv.Itoa(n), gorun()}
		a := s.srun(append(flags, sh(printRank)...)...)
		s.wantExit(longWait, 0, a)
		for rank := range 2 * n {
			a.waitForStdout(fmt.Sprintf("rank %d of %d in ", rank, 2*n), 1)
		}
		if got := strings.Count(a.out.String(), "rank "); got != 2*n {
			s.Errorf("%d tasks: %d lines of workers, want %d", n, got, 2*n)
		}
		a = s.srun(append(flags, sh("[ $RANK != 1 ] || exit 9; sleep 100")...)...)
		s.wantExit(longWait, 9, a)
		if got := strings.Count(a.err.String(), "FAILED"); got != 1 {
			s.Errorf("%d tasks: %d reports, want 1", n, got)
		}
	}
}

// Tasks of one node with different command lines end with a line; the second is not
// left out in silence.
func slurmTwoCommands(s *slurm) {
	conf := filepath.Join(s.dir, "two.conf")
	text := fmt.Sprintf("0 %s --nproc-per-node 1 --no-python sleep 5\n1 %s --nproc-per-node 1 --no-python sleep 6\n", gorun(), gorun())
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		s.Fatal(err)
	}
	a := s.srun("-N", "1", "-n", "2", "--overcommit", "--multi-prog", conf)
	s.wantExit(longWait, 2, a)
	a.waitForStderr("command line differs from that of the first task of this node")
}

// A batch script of several nodes that forgets srun is refused with the line to type.
func slurmForgottenSrun(s *slurm) {
	b := s.sbatch("$E2E_GORUN true", "-N", "2")
	b.ends(longWait, "FAILED", "2:0")
	b.wants(map[string]int{"as in `srun gorun true`": 1})
	b = s.sbatch("$E2E_GORUN --nnodes 1 true && echo fine", "-N", "2")
	b.ends(longWait, "COMPLETED", "0:0")
	b.wants(map[string]int{"fine": 1})
}

// Two jobs whose nodes are the same machines run at the same time.
func slurmJobsOnOneNode(s *slurm) {
	worker := s.script("meet.sh", `touch $E2E_DIR/$RDZV.$RANK
until [ -e $E2E_DIR/a.$RANK ] && [ -e $E2E_DIR/b.$RANK ]; do sleep 0.05; done
echo "rank $RANK of $WORLD_SIZE"`)
	var jobs []*batch
	for _, name := range []string{"a", "b"} {
		jobs = append(jobs, s.sbatch("export RDZV="+name+"\nsrun $E2E_GORUN "+worker, "-w", "n1,n2"))
	}
	for _, b := range jobs {
		b.ends(longWait, "COMPLETED", "0:0")
		b.wants(map[string]int{"rank 0 of 2": 1, "rank 1 of 2": 1})
	}
}

// scancel leaves workers time to save, on all nodes, and SIGUSR1 reaches all.
func slurmCancel(s *slurm) {
	b := s.sbatch("srun $E2E_GORUN "+s.saving(), "-N", "2")
	b.prints("is up", 2)
	s.output("scancel", "-s", "USR1", b.id)
	b.prints("rank 0 has USR1", 1)
	b.prints("rank 1 has USR1", 1)
	s.output("scancel", b.id)
	b.ends(longWait, "CANCELLED", "0:15")
	s.wantNoProcess()
	b.wants(map[string]int{"rank 0 saved": 1, "rank 1 saved": 1, "gorun: stopped: node ": 1, "FAILED": 0, "was killed by": 0})
}

// Workers that ignore SIGTERM are killed in time for the report; Slurm kills nothing.
func slurmCancelStubborn(s *slurm) {
	worker := s.script("stubborn.sh", `trap '' TERM; echo "rank $RANK is up"; while :; do sleep 0.1; done`)
	b := s.sbatch("srun $E2E_GORUN "+worker, "-N", "2")
	b.prints("is up", 2)
	s.output("scancel", b.id)
	b.ends(longWait, "CANCELLED", "0:15")
	s.wantNoProcess()
	b.wants(map[string]int{
		"Slurm kills this job soon (its KillWait is 6s); killing the workers": 1, "gorun: stopped: node ": 1,
		"Ctrl-C": 0, ": Killed": 0,
	})
	if text := b.text(); !strings.Contains(text, "SIGKILL in 2s") && !strings.Contains(text, "SIGKILL in 3s") {
		s.Error("no seconds until SIGKILL")
	}
}

// SIGUSR1 of sbatch --signal reaches the workers of all nodes. Slurm looks every 30 s at
// the limits of its jobs.
func slurmWarning(s *slurm) {
	b := s.sbatch("srun $E2E_GORUN "+s.saving(), "-N", "2", "-t", "1", "--signal=USR1@59")
	b.prints("is up", 2)
	eventually(s, 2*longWait, "both workers get SIGUSR1", func() bool {
		return strings.Contains(b.text(), "rank 0 has USR1") && strings.Contains(b.text(), "rank 1 has USR1")
	})
	s.output("scancel", b.id)
	b.ends(longWait, "CANCELLED", "0:15")
}

// At the time limit the workers of all nodes save, and the job ends inside KillWait.
func slurmTimeLimit(s *slurm) {
	b := s.sbatch("srun $E2E_GORUN "+s.saving(), "-N", "2")
	b.prints("is up", 2)
	s.output("scontrol", "update", "JobId="+b.id, "TimeLimit=1")
	s.output("scontrol", "update", "JobId="+b.id, "EndTime="+time.Now().Add(2*time.Second).Format("2006-01-02T15:04:05"))
	b.ends(2*longWait, "TIMEOUT", "0:15")
	s.wantNoProcess()
	b.wants(map[string]int{"rank 0 saved": 1, "rank 1 saved": 1, "gorun: stopped: node ": 1})
}

// A job of a higher priority takes the node away. The workers save, and Slurm starts the
// job again.
func slurmPreemption(s *slurm) {
	worker := s.script("again.sh", `[ -z "$SLURM_RESTART_COUNT" ] || exit 0
exec `+s.saving())
	b := s.sbatch("srun $E2E_GORUN --nproc-per-node 1 "+worker, "-p", "low", "--requeue", "--exclusive")
	b.prints("is up", 1)
	s.wantExit(longWait, 0, s.srun("-p", "urgent", "--exclusive", "true"))
	got := b.ends(2*longWait, "COMPLETED", "0:0")
	if got["Restarts"] != "1" {
		s.Errorf("%s restarts, want 1", got["Restarts"])
	}
	b.wants(map[string]int{"saved": 1, "Slurm has started this job again once": 1})
}

// A job that loses a node ends with the code after which Slurm starts it again.
func slurmRequeue(s *slurm) {
	worker := s.script("lost.sh", `if [ -z "$SLURM_RESTART_COUNT" ] && [ $RANK = 1 ]; then kill -9 $PPID; fi
[ -n "$SLURM_RESTART_COUNT" ] || sleep 100`)
	b := s.sbatch(fmt.Sprintf("srun $E2E_GORUN --requeue-exit-code %d %s", slurmtest.RequeueExit, worker), "-N", "2", "--requeue")
	got := b.ends(2*longWait, "COMPLETED", "0:0")
	if got["Restarts"] != "1" {
		s.Errorf("%s restarts, want 1", got["Restarts"])
	}
	b.wants(map[string]int{"Slurm has started this job again once": 1, "another try may help: exit code 75 instead of 137": 1})
}

// A slurmstepd that is killed leaves nothing alive on its node, and the job ends. srun
// alone would wait for the lost task until the time limit.
func slurmStepdKilled(s *slurm) {
	b := s.sbatch("srun --wait=2 $E2E_GORUN "+s.saving(), "-w", "n2,n3")
	b.prints("is up", 2)
	victim := 0
	for _, p := range s.processes() {
		if p.name == "gorun" && victim == 0 {
			victim = stepdAbove(p.parent)
		}
	}
	if victim == 0 {
		s.Fatal("no slurmstepd above gorun")
	}
	s.kill(victim)
	b.ends(2*longWait, "FAILED", "137:0")
	s.wantNoProcess()
}

// stepdAbove returns the pid of the slurmstepd that a process is, or is below of; 0: none.
func stepdAbove(pid int) int {
	for pid > 1 {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			return 0
		}
		name, rest, _ := strings.Cut(string(stat), ") ")
		if strings.HasSuffix(name, "(slurmstepd") {
			return pid
		}
		pid, _ = strconv.Atoi(strings.Fields(rest)[1])
	}
	return 0
}

// One worker's exit code is that of the job, whether srun ends the other tasks or not.
func slurmFailure(s *slurm) {
	for _, kill := range []string{"0", "1"} {
		b := s.sbatch("srun --kill-on-bad-exit="+kill+" $E2E_GORUN "+s.script("fail.sh", "[ $RANK != 2 ] || exit 7; exec sleep 100"), "-N", "4")
		b.ends(longWait, "FAILED", "7:0")
		b.wants(map[string]int{"FAILED": 1, "exited with code 7; exit code 7": 4, "was killed": 0})
	}
	s.wantNoProcess()
}

// The components of a heterogeneous step and job are one world.
func slurmHeterogeneous(s *slurm) {
	const ranks = `echo "rank $RANK of $WORLD_SIZE"`
	worker := s.script("ranks.sh", ranks)
	b := s.sbatch("#SBATCH -N1 -n1\n#SBATCH hetjob\n#SBATCH -N2 -n2\nsrun --het-group=0,1 $E2E_GORUN " + worker + " && srun $E2E_GORUN " + worker + " && $E2E_GORUN " + worker)
	b.ends(2*longWait, "FAILED", "2:0")
	b.wants(map[string]int{
		"rank 0 of 3": 1, "rank 1 of 3": 1, "rank 2 of 3": 1, "rank 0 of 1": 1,
		"the Slurm job has 3 nodes, and ": 1, "as in `srun --het-group=0-1 gorun ": 1,
	})
}

// The script that gorun slurm prints is one for sbatch. With --requeue Slurm starts the
// job again after the code that says so.
func slurmOwnScript(s *slurm) {
	worker := s.script("first.sh", `echo "rank $RANK of $WORLD_SIZE, restarts: $SLURM_RESTART_COUNT"
[ -n "$SLURM_RESTART_COUNT" ] || exec sleep 100`)
	file := filepath.Join(s.dir, "own.sh")
	text := s.output(gorun(), "slurm", "--nodes", "2", "-c", "1", "--job-name", "own", "--requeue", "--requeue-exit-code", "99", worker)
	if err := os.WriteFile(file, []byte(text+"\n"), 0o644); err != nil {
		s.Fatal(err)
	}
	b := &batch{s: s, out: filepath.Join(s.dir, "own.out")}
	b.id = s.output("sbatch", "--parsable", "-o", b.out, file)
	b.prints("restarts:", 2)
	// As sbatch --signal does before the time limit. A node whose step is not running yet,
	// for an instant after its task has begun, makes scancel fail, though other nodes have
	// the signal by then.
	eventually(s, longWait, "the step takes a signal", func() bool {
		return s.show(b.id)["Restarts"] == "1" || s.command("scancel", "-s", "TERM", b.id+".0").Run() == nil
	})
	got := b.ends(2*longWait, "COMPLETED", "0:0")
	if got["JobName"] != "own" || got["NumNodes"] != "2" || got["Restarts"] != "1" {
		s.Errorf("%s, %s nodes, %s restarts", got["JobName"], got["NumNodes"], got["Restarts"])
	}
	b.wants(map[string]int{"of 2, restarts: 1": 2, "another try may help: exit code 99 instead of 143": 1})
}

// A wrong flag is said by one task of a node.
func slurmWrongFlag(s *slurm) {
	for _, flag := range []string{"--nonsense", "--nnodes=many"} {
		a := s.srun("-N2", "--overcommit", "--ntasks-per-node=4", gorun(), flag, "true")
		s.wantExit(longWait, 2, a)
		if n := strings.Count(a.err.String(), "gorun: "); n != 2 {
			s.Errorf("%s: %d lines, want 2:\n%s", flag, n, a.err)
		}
	}
}

// Lists of hosts mean the same to gorun and to Slurm.
func slurmHostNames(s *slurm) {
	lists := []string{"n1", "n[1-3]", "n[1-3,07],login", "n[098-101]", "a,b,c", "r[1-2]n[01-02]", "a1,a[3-4,9],b[001-003]"}
	for range 20 {
		var list []string
		for range 1 + rand.IntN(3) {
			lo := rand.IntN(120)
			list = append(list, fmt.Sprintf("%c%c[%0*d-%d,%d]", 'a'+rand.IntN(26), 'a'+rand.IntN(26), 1+rand.IntN(3), lo, lo+rand.IntN(20), 200+rand.IntN(9)))
		}
		lists = append(lists, strings.Join(list, ","))
	}
	for _, list := range lists {
		want := strings.Fields(s.output("scontrol", "show", "hostnames", list))
		got, err := surroundings.ParseHosts(list)
		if err != nil || !slices.Equal(got, want) {
			s.Errorf("%s: %q, %v; scontrol says %q", list, got, err, want)
		}
	}
}

// Another user on a node of the step, with the step's environment, cannot join, and the
// user's own nodes have a secret by munge.
func slurmOtherUser(s *slurm) {
	program := filepath.Join(filepath.Dir(s.cluster.Conf), "gorun") // in a folder that every user can read
	text, err := os.ReadFile(gorun())
	if err == nil {
		err = os.WriteFile(program, text, 0o755)
	}
	if err != nil {
		s.Fatal(err)
	}
	s.wd = "/"
	script := `[ $SLURM_NODEID = 0 ] || { setpriv --reuid=nobody --regid=nogroup --clear-groups $0 true 2>&1; echo "nobody ends with $?"; }
exec $0 --nproc-per-node 1 --dry-run true`
	a := s.srun("-N2", "sh", "-c", script, program)
	s.wantExit(longWait, 0, a)
	for text, n := range map[string]int{
		"munge refuses its credential": 1, "nobody ends with 75\n": 1, "secret from a munge credential": 2,
	} {
		if got := strings.Count(a.out.String(), text); got != n {
			s.Errorf("%q comes %d times, want %d:\n%s%s", text, got, n, a.out, a.err)
		}
	}
}
