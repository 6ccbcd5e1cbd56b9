package e2e_test

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gorun/gorun/launch/selftest"
	"github.com/gorun/gorun/worker/cuda/cudatest"
)

// TestSelftest plays the whole ladder on two nodes.
func TestSelftest(t *testing.T) {
	j := newJob(t)
	good := filepath.Join(t.TempDir(), "good")
	a := j.launch("all", j.command("selftest", "--local-nodes", "2", "--nproc-per-node", "2", "--json", "--good", good))
	j.wantExit(2*longWait, 0, a)
	var r selftest.Report
	if err := json.Unmarshal([]byte(a.out.String()), &r); err != nil {
		t.Fatalf("%v: %s", err, a.out.String())
	}
	if !r.OK || len(r.Ranks) != 4 || len(r.Nodes) != 2 || len(r.Rungs) != 9 {
		t.Errorf("%+v", r)
	}
	for _, g := range r.Rungs {
		for _, s := range g.Sizes {
			if s.Median <= 0 || s.Worst < s.Median {
				t.Errorf("%s: %+v", g.Rung, s)
			}
		}
	}
	if hosts, err := os.ReadFile(good); err != nil || len(strings.Fields(string(hosts))) != 1 {
		t.Errorf("%q, %v", hosts, err)
	}
}

// TestSelftestNamesTheLink drops big packets between two of three hosts: small messages
// pass there, big ones do not.
func TestSelftestNamesTheLink(t *testing.T) {
	l := newLAN(t, 3)
	for _, pair := range [][2]int{{2, 3}, {3, 2}} {
		l.do("ip", "netns", "exec", l.host(pair[0]), "iptables", "-A", "INPUT", "-s", l.addr(pair[1]), "-m", "length", "--length", "600:", "-j", "DROP")
	}
	j := newJob(t)
	var agents []*agent
	for i := 1; i <= 3; i++ {
		cmd := l.selftest(j, i, "3", "--preflight", "off", "--node-rank", fmt.Sprint(i-1), "--nproc-per-node", "1", "--bad", filepath.Join(t.TempDir(), "bad"))
		agents = append(agents, j.launch(l.addr(i), cmd))
	}
	j.wantExit(3*longWait, 1, agents...)
	j.wantCause(agents, "node 1 (", " and node 2 (", "fail together; each works with others", "not done in time")
}

// TestSelftestNamesTheSlowNode slows one of six hosts down: it works with each partner, and
// takes longer with each.
func TestSelftestNamesTheSlowNode(t *testing.T) {
	l := newLAN(t, 6)
	l.do("ip", "netns", "exec", l.host(5), "tc", "qdisc", "add", "dev", "eth0", "root", "tbf", "rate", "200mbit", "burst", "64kb", "latency", "400ms")
	j := newJob(t)
	var agents []*agent
	for i := 1; i <= 6; i++ {
		cmd := l.selftest(j, i, "6", "--preflight", "off", "--node-rank", fmt.Sprint(i-1), "--nproc-per-node", "1", "--links", "--json")
		cmd.Env = append(cmd.Env, "SLURMD_NODENAME=host"+fmt.Sprint(i))
		agents = append(agents, j.launch(l.addr(i), cmd))
	}
	j.wantExit(3*longWait, 0, agents...)
	var r selftest.Report
	if err := json.Unmarshal([]byte(agents[0].out.String()), &r); err != nil {
		t.Fatalf("%v: %s", err, agents[0].out.String())
	}
	if !r.OK || len(r.Nodes) != 6 {
		t.Fatalf("%+v", r)
	}
	for i, n := range r.Nodes {
		t.Logf("%+v", n)
		if slow := i == 4; (n.State == selftest.StateSlow) != slow || n.Pair <= 0 || n.PairTimes <= 0 {
			t.Errorf("%+v", n)
		}
	}
	if len(r.Warnings) != 1 || !strings.Contains(r.Warnings[0], "node 4 (host5) is slow") {
		t.Errorf("%q", r.Warnings)
	}
}

// selftest makes the command of gorun selftest on one host.
func (l *lan) selftest(j *job, i int, nnodes string, args ...string) *exec.Cmd {
	cmd := l.command(j, i, l.addr(1), nnodes, args...)
	for k, word := range cmd.Args { // gorun selftest --nnodes …
		if word == "--nnodes" {
			cmd.Args = append(cmd.Args[:k:k], append([]string{"selftest"}, cmd.Args[k:]...)...)
			break
		}
	}
	return cmd
}

// TestSelftestBeforeAJob checks that the program runs after the test in the place of the
// worker that tested, with its own environment and arguments.
func TestSelftestBeforeAJob(t *testing.T) {
	j := newJob(t)
	script := j.write("program.sh", "echo \"rank $RANK: $* of $ROLE_NAME, child of $(tr '\\0' ' ' </proc/$PPID/cmdline)\"\n", 0o644)
	agents := j.nodes(2, "--selftest", "--nproc-per-node", "2", "--no-python", "sh", script, "a", "b c")
	j.wantExit(2*longWait, 0, agents...)
	for i, a := range agents {
		for rank := 2 * i; rank < 2*i+2; rank++ {
			_, line, there := strings.Cut(a.out.String(), fmt.Sprintf("rank %d: a b c of default, child of ", rank))
			line, _, _ = strings.Cut(line, "\n")
			if !there || !strings.Contains(line, "--agent-of-keeper") || strings.Contains(line, selftest.RankCommand) {
				t.Errorf("rank %d is not a child of its agent in %s", rank, a.out.String())
			}
		}
	}
}

// TestProgramHasThePidOfItsWorker checks that the program is the process that the agent
// started, and not a child of it.
func TestProgramHasThePidOfItsWorker(t *testing.T) {
	j := newJob(t)
	a := j.launch("one", j.command(with(sh("echo pid=$$=; exit 7"), "--selftest", "--standalone", "--no-python")...))
	j.wantExit(2*longWait, 7, a)
	parts := strings.Split(a.out.String(), "=")
	if len(parts) != 3 {
		t.Fatal(a.out.String())
	}
	j.wantCause([]*agent{a}, "pid "+parts[1]+" ")
}

// TestSelftestThatFailsStartsNoProgram leaves the ranks no port: they start, and cannot
// compute together.
func TestSelftestThatFailsStartsNoProgram(t *testing.T) {
	j := newJob(t)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := ln.Addr().(*net.TCPAddr).Port
	ln.Close() // the agent takes it
	program := sh("touch $E2E_DIR/started.$RANK")
	a := j.launch("one", j.command(with(program, "--selftest", "--standalone", "--preflight", "off", "--nproc-per-node", "2", "--port-range", fmt.Sprintf("%d-%d", port, port), "--no-python")...))
	j.wantExit(2*longWait, 1, a)
	j.wantCause([]*agent{a}, `the self-test failed at the rung "node": the 2 ranks of node 0`, "is free on 127.0.0.1")
	if started, _ := filepath.Glob(filepath.Join(j.dir, "started.*")); started != nil {
		t.Errorf("the program ran: %v", started)
	}
}

// TestSelftestRefusesListsItCannotWrite checks that nobody waits for a test whose result
// has no place.
func TestSelftestRefusesListsItCannotWrite(t *testing.T) {
	j := newJob(t)
	for file, why := range map[string]string{
		filepath.Join(j.dir, "none", "bad"): "there is no folder",
		j.dir:                               "it is a folder",
	} {
		a := j.launch(file, j.command("selftest", "--standalone", "--bad", file))
		j.wantExit(longWait, 2, a)
		if text := a.err.String(); !strings.Contains(text, "cannot use --bad "+file+": ") || !strings.Contains(text, why) || strings.Contains(text, "load") {
			t.Errorf("%s", text)
		}
	}
}

// TestSelftestWritesLists checks that the lists of an earlier test go, and that the reader
// of a pipe gets its list.
func TestSelftestWritesLists(t *testing.T) {
	j := newJob(t)
	old, pipe := j.write("bad", "an old host\n", 0o644), filepath.Join(j.dir, "good")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	read := make(chan string, 1)
	go func() {
		good, _ := os.ReadFile(pipe)
		read <- string(good)
	}()
	a := j.launch("lists", j.command("selftest", "--standalone", "--quick", "--nproc-per-node", "1", "--good", pipe, "--bad", old))
	j.wantExit(2*longWait, 0, a)
	if bad, err := os.ReadFile(old); len(bad) > 0 || err != nil {
		t.Errorf("bad %q, %v", bad, err)
	}
	select {
	case good := <-read:
		if len(strings.Fields(good)) != 1 {
			t.Errorf("good %q", good)
		}
	case <-time.After(longWait):
		t.Error("the reader of the pipe got no end")
	}
}

// gpus makes the environment of an agent whose workers see GPUs of the stand-in.
func gpus(lib string, n ...int) []string {
	var all []string
	for _, i := range n {
		all = append(all, fmt.Sprintf("GPU-%08d-0000-0000-0000-000000000000", i))
	}
	return []string{"GORUN_CUDA_LIB=" + lib, "GORUN_NCCL_LIB=" + lib, "FAKE_CUDA_DEVICES=" + strings.Join(all, ",")}
}

// TestSelftestOnGPUs plays the quick ladder on the GPUs of two nodes, and finds what is
// wrong with them at the rung load.
func TestSelftestOnGPUs(t *testing.T) {
	if !asksNVML() { // a gorun without cgo has no rungs for GPUs
		j := newJob(t)
		a := j.launch("without cgo", j.command("selftest", "--device", "gpu"))
		j.wantExit(longWait, 2, a)
		if text := a.err.String(); !strings.Contains(text, "built without C and has only CPU rungs") {
			t.Errorf("%s", text)
		}
		return
	}
	lib := cudatest.Build(t)
	for _, c := range []struct {
		name   string
		second []string // environment of the second node
		code   int
		text   string
	}{
		{"all is well", gpus(lib, 2, 3), 0, ""},
		{"another NCCL", append(gpus(lib, 2, 3), "FAKE_NCCL_VERSION=22703"), 1, "has NCCL 2.27.3 ("},
		{"the same GPUs", gpus(lib, 0, 1), 1, "rank 0 and rank 2 on "},
		{"a hidden GPU", gpus(lib, 2), 1, "node 1 (node2) has 1 GPU, others 2"},
		{"a GPU more", gpus(lib, 2, 3, 4), 1, "node 0 (node1) has 2 GPUs, others 3"},
		{"no driver", append(gpus(lib, 2, 3), "FAKE_CUDA_INIT=999"), 1, "node 1 (node2) fail, each by itself: rank 2 on node2 failed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			j := newJob(t)
			var agents []*agent
			for i, env := range [][]string{gpus(lib, 0, 1), c.second} {
				cmd := j.command("selftest", "--nnodes", "2", "--rdzv-endpoint", j.endpoint, "--rdzv-id", j.id, "--local-addr", fmt.Sprintf("127.0.0.%d", i+1),
					"--node-rank", fmt.Sprint(i), "--preflight", "off", "--nproc-per-node", "2", "--quick", "--json", "--device", "gpu")
				cmd.Env = append(append(cmd.Env, env...), fmt.Sprintf("SLURMD_NODENAME=node%d", i+1))
				agents = append(agents, j.launch(cmd.Env[len(cmd.Env)-1], cmd))
			}
			j.wantExit(2*longWait, c.code, agents...)
			var r selftest.Report
			if err := json.Unmarshal([]byte(agents[0].out.String()), &r); err != nil {
				t.Fatalf("%v: %s", err, agents[0].out.String())
			}
			if r.OK != (c.code == 0) || r.Compute != selftest.ComputeGPU {
				t.Errorf("%+v", r)
			}
			if r.Failure != nil && (r.Failure.Rung != "load" || !strings.Contains(r.Failure.Text, c.text)) {
				t.Errorf("%+v", r.Failure)
			}
			if c.code == 0 && (len(r.Rungs) != 4 || r.Ranks[3].GPU == nil || r.Ranks[3].GPU.NCCL == 0) {
				t.Errorf("%+v", r)
			}
		})
	}
}
