package host

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestSegmentsThatNoProcessMaps(t *testing.T) {
	root := fake(t, map[string]string{
		"dev/shm/nccl-used":     strings.Repeat("x", 8192),
		"dev/shm/nccl-stale1":   strings.Repeat("x", 8192),
		"dev/shm/nccl-stale2":   strings.Repeat("x", 8192),
		"dev/shm/torch_1_2":     "x",
		"dev/shm/nccl-folder/":  "",
		"proc/17/maps":          "7f00-7f01 rw-s 00000000 00:1a 5 /dev/shm/nccl-used\n7f02-7f03 r--p 0 00:00 0\n",
		"proc/18/maps":          "7f00-7f01 rw-s 00000000 00:1a 5 /dev/shm/nccl-used (deleted)",
		"proc/self/ns/pid":      "-> " + initPIDNamespace,
		"proc/net/dev":          "",
		"proc/999999999999/map": "",
	})
	left, why := Options{Root: root, Driver: true}.segments(context.Background())
	if why != "" || left.SHMFiles != 2 || left.SHMBytes < 2*8192 || left.Unsure {
		t.Errorf("%+v, %q", left, why)
	}
	if left, _ := (Options{Root: root}).segments(context.Background()); left.SHMFiles != 0 {
		t.Errorf("without a driver: %+v", left)
	}
	// In another pid namespace the process that maps the file may be invisible.
	if err := os.Remove(filepath.Join(root, "proc/self/ns/pid")); err != nil {
		t.Fatal(err)
	}
	if left, _ := (Options{Root: root, Driver: true}).segments(context.Background()); !left.Unsure {
		t.Errorf("%+v", left)
	}
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	if left, why := (Options{Root: root, Driver: true}).segments(ended); left.SHMFiles != 0 || why == "" {
		t.Errorf("cut short: %+v, %q", left, why)
	}
}

func TestJobsFaked(t *testing.T) {
	root := fake(t, map[string]string{
		"proc/17/environ": "A=b\x00TORCHELASTIC_RUN_ID=run\x00Z=\x00",
		"proc/17/comm":    "python3\n",
		"proc/18/environ": "TORCHELASTIC_RUN_ID=run\x00GORUN_RUN_ID=run\x00",
		"proc/18/comm":    "train\n",
		"proc/19/environ": "TORCHELASTIC_RUN_ID=run2\x00XTORCHELASTIC_RUN_ID=run\x00",
		"proc/20/environ": "",
		"proc/22/environ": "TORCHELASTIC_RUN_ID=run\x00MASTER_ADDR=" + ProbeAddr + "\x00",
		"proc/21/comm":    "x\n",
	})
	jobs, why := Options{Root: root, RunID: "run"}.jobs(context.Background())
	if why != "" || len(jobs) != 2 {
		t.Fatalf("%+v, %q", jobs, why)
	}
	byPID := map[int]Job{}
	for _, j := range jobs {
		byPID[j.PID] = j
	}
	if j := byPID[17]; j.Name != "python3" || j.RunID != "run" || j.Gorun {
		t.Errorf("%+v", j)
	}
	if j := byPID[18]; j.Name != "train" || !j.Gorun {
		t.Errorf("%+v", j)
	}
}

func TestJobsHere(t *testing.T) {
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Skip("no shell")
	}
	// The run id is unique, in case the tests run twice at once.
	run := fmt.Sprintf("host-test-%d", os.Getpid())
	cmd := exec.Command(sh, "-c", "echo ready; read line")
	cmd.Env = append(os.Environ(), "TORCHELASTIC_RUN_ID="+run)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	jobs, why := Options{RunID: run}.jobs(context.Background())
	if why != "" || len(jobs) != 1 || jobs[0].PID != cmd.Process.Pid {
		t.Errorf("%+v, %q; want pid %d", jobs, why, cmd.Process.Pid)
	}
	in.Close()
	_ = cmd.Wait() // read fails at the end of input
	if jobs, _ := (Options{RunID: run}).jobs(context.Background()); len(jobs) != 0 {
		t.Errorf("after its end: %+v", jobs)
	}
}

// TestOwnAncestorsAreNoLeftover checks that a worker which runs gorun again
// does not count as a leftover of itself.
func TestOwnAncestorsAreNoLeftover(t *testing.T) {
	all := Options{}.ancestors(os.Getpid())
	if !all[os.Getpid()] || !all[os.Getppid()] {
		t.Errorf("%v lacks %d or %d", all, os.Getpid(), os.Getppid())
	}
}
