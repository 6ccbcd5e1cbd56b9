package e2e_test

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// connectToStore makes a bash script a worker that connects to the store, as torch does.
const connectToStore = `exec 3<>/dev/tcp/$MASTER_ADDR/$MASTER_PORT; printf '\x00\xCE\xF7\x85\x3C\x0D\x'$((RANK+1))'\0\0\0' >&3; `

// bash is sh for scripts that need bash.
func bash(t testing.TB, script string) []string {
	t.Helper()
	path, err := exec.LookPath("bash")
	need(t, err == nil, "bash")
	return append([]string{path}, sh(script)[1:]...)
}

// writeLive makes an empty file whose name begins with g.live. Workers wait for one.
func (g *gpuHost) writeLive(file string) {
	g.Helper()
	if err := os.WriteFile(g.live+file, nil, 0o644); err != nil {
		g.Fatal(err)
	}
}

// TestGPUMisplaced checks that an agent reports each of its workers that computes on
// another rank's GPU: on two nodes of one machine, and for a process that is no
// descendant of its worker, as in a container. It reports after the workers have met and
// their store had no request for a minute, on the node that serves the store and on the
// other one.
func TestGPUMisplaced(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it takes more than a minute")
	}
	g := newGPUHost(t, 4)
	script := bash(t, connectToStore+`echo busy 0 $$ >>$LIVE
[ $RANK != 3 ] || (setsid sh -c 'echo busy 1 $$ >>$LIVE; exec sleep 1000' </dev/null >/dev/null 2>&1 &)
until [ -e $LIVE.end ]; do sleep 0.2; done`)
	start := time.Now()
	a := g.run(with(script, "--local-nodes", "2", "--nproc-per-node", "2")...)
	g.addEvent(fmt.Sprint("busy 2 ", os.Getpid())) // in another container than gorun
	const fix = ": call torch.cuda.set_device(LOCAL_RANK) or use --pin=exclusive"
	for _, want := range []string{"its own is GPU 1" + fix, "its own is GPU 2" + fix, "its own is GPU 3" + fix} {
		// If the driver is late at the first reading, gorun asks again half a minute later.
		eventually(t, 6*longWait, "a word with "+want, func() bool { return strings.Count(a.err.String(), " runs on GPU 0, "+want) == 1 })
	}
	if took := time.Since(start); took < time.Minute {
		t.Errorf("the driver was asked after %v, while the workers met", took)
	}
	eventually(t, longWait, "a word about rank 3's other process", func() bool {
		return strings.Contains(a.err.String(), " also runs on GPU 1, its own is GPU 3"+fix) || strings.Contains(a.err.String(), " runs on GPU 1, its own is GPU 3"+fix)
	})
	a.waitForStderr(fmt.Sprintf("pid %d (", os.Getpid()))
	g.writeLive(".end")
	g.wantExit(longWait, 0, a)
	wantParts(t, a.err.String(), "runs on GPU 2, the GPU of rank 2, with 1024 MiB of its memory; gorun does not know whether it belongs to this job")
	for _, wrong := range []string{"rank 0 (pid", "not of this job", "the GPU of rank 0", "the GPU of rank 1"} {
		if strings.Contains(a.err.String(), wrong) {
			t.Errorf("it says %q", wrong)
		}
	}
}

// TestGPUError checks that an error of a worker's GPU ends the job with that as its
// cause.
func TestGPUError(t *testing.T) {
	t.Parallel()
	g := newGPUHost(t, 2)
	a := g.run(with(sh(`echo up; exec sleep 100`), "--nproc-per-node", "2")...)
	a.waitForStdout("up", 2)
	g.addEvent("xid 1 13") // an error of a program, not of the GPU
	g.addEvent("xid 1 79")
	g.wantExit(longWait, 1, a)
	g.wantCause([]*agent{a}, "rank 1", "GPU 1 (GPU-node1-0001) of rank 1", "Xid 79", "fallen off the bus")
	a.waitForStderr("Xid 13")
}

// TestGPUErrorWarnsOnly checks that with --on-gpu-error=warn the job goes on.
func TestGPUErrorWarnsOnly(t *testing.T) {
	t.Parallel()
	g := newGPUHost(t, 2)
	a := g.run(with(sh(`echo up; until [ -e $LIVE.end ]; do sleep 0.1; done`), "--nproc-per-node", "2", "--on-gpu-error=warn")...)
	a.waitForStdout("up", 2)
	g.addEvent("xid 0 48")
	a.waitForStderr("GPU 0 (GPU-node1-0000) of rank 0: Xid 48")
	if err := os.WriteFile(g.live+".end", nil, 0o644); err != nil {
		t.Fatal(err)
	}
	g.wantExit(longWait, 0, a)
}

// TestGPUErrorAgain checks that the same error ends each round in which it happens.
// gorun reports an error that happens while the workers are being stopped; it ends no
// later round.
func TestGPUErrorAgain(t *testing.T) {
	t.Parallel()
	g := newGPUHost(t, 2)
	a := g.run(with(sh(`trap 'until [ -e $LIVE.go ]; do sleep 0.05; done; exit 1' TERM; echo up; while :; do sleep 0.05; done`),
		"--nproc-per-node", "2", "--max-restarts", "2")...)
	a.waitForStdout("up", 2)
	g.addEvent("xid 1 94")
	a.waitForStderr("stopping the workers")
	g.addEvent("xid 0 48")
	a.waitForStderr("GPU 0 (GPU-node1-0000) of rank 0: Xid 48")
	g.writeLive(".go")
	a.waitForStdout("up", 4)
	g.addEvent("xid 1 94")
	a.waitForStdout("up", 6)
	g.addEvent("xid 0 48")
	g.wantExit(longWait, 1, a)
	g.wantCause([]*agent{a}, "rank 0", "GPU 0 (GPU-node1-0000) of rank 0", "Xid 48")
}

// TestGPUReleaseContainer checks that gorun waits for a worker's container that outlives
// the worker. The container is no child of gorun's, and only its environment shows its
// worker.
func TestGPUReleaseContainer(t *testing.T) {
	t.Parallel()
	g := newGPUHost(t, 2)
	a := g.run(with(sh(`[ $TORCHELASTIC_RESTART_COUNT = 1 ] && exit 0; echo token $GORUN_WORLD_TOKEN; until [ -e $LIVE.go ]; do sleep 0.1; done; exit 3`), "--max-restarts", "1")...)
	a.waitForStdout("token", 1)
	container := exec.Command("sleep", "1000")
	container.Env = []string{"RANK=0", "GORUN_WORLD_TOKEN=" + strings.Fields(a.out.String())[1]}
	if err := container.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = container.Process.Kill(); _ = container.Wait() }()
	g.addEvent(fmt.Sprint("busy 0 ", container.Process.Pid))
	g.writeLive(".go")
	a.waitForStderr(fmt.Sprintf("waiting until the GPUs are free (at most 50s): GPU 0: pid %d (sleep)", container.Process.Pid))
	g.writeLive("") // the driver lists no process any more
	g.wantExit(longWait, 0, a)
}
