package e2e_test

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/porttest"
)

// static starts n agents with torchrun's static flags.
func (j *job) static(n int, args ...string) []*agent {
	j.Helper()
	_, port, err := net.SplitHostPort(j.endpoint)
	if err != nil {
		j.Fatal(err)
	}
	var out []*agent
	for i := range n {
		out = append(out, j.run(fmt.Sprint("node ", i), append([]string{
			"--nnodes", fmt.Sprint(n), "--node-rank", fmt.Sprint(i), "--master-addr", "127.0.0.1", "--master-port", port,
		}, args...)...))
	}
	return out
}

// TestStaticNeedsOnePort checks that the static rendezvous needs only the port that the
// user named, and the workers find their store there.
func TestStaticNeedsOnePort(t *testing.T) {
	t.Parallel()
	j := newJob(t, "--max-restarts", "1")
	agents := j.static(2, with(sh(`echo at $RANK $MASTER_ADDR:$MASTER_PORT; [ $TORCHELASTIC_RESTART_COUNT = 0 ] && [ $RANK = 1 ] && exit 3; `+untilGo),
		"--nproc-per-node", "2")...)
	agents[0].waitForStdout("up", 2)
	agents[1].waitForStdout("up", 2)
	for i, a := range agents {
		p := portsOf(t, a.pid())
		if len(p.udp) > 0 {
			t.Errorf("%s: UDP ports %v", a.name, p.udp)
		}
		switch {
		case i == 0 && (len(p.tcp) != 1 || fmt.Sprint("127.0.0.1:", p.tcp[0].Port()) != j.endpoint):
			t.Errorf("node 0 listens at %v, want %s alone", p.tcp, j.endpoint)
		case i > 0 && len(p.tcp) > 0:
			t.Errorf("node %d listens at %v, want nowhere", i, p.tcp)
		}
	}
	j.touch("go")
	j.wantExit(longWait, 0, agents...)
	for rank := range 4 {
		agents[rank/2].waitForStdout(fmt.Sprintf("at %d %s\n", rank, j.endpoint), 1)
	}
}

// TestStaticFails checks that nodes may start in any order, and a failure ends all of
// them.
func TestStaticFails(t *testing.T) {
	t.Parallel()
	j := newJob(t)
	agents := j.static(3, onRank("1", "exit 6")...)
	j.wantExit(longWait, 6, agents...)
	j.wantCause(agents, "rank 1 on", "exited with code 6")
	j.wantSameCause(agents...)
}

// TestStaticNodeLost checks that the loss of the master, or of another node, ends the
// job everywhere with 137.
func TestStaticNodeLost(t *testing.T) {
	t.Parallel()
	for target := range 2 {
		t.Run(fmt.Sprint("node ", target), func(t *testing.T) {
			t.Parallel()
			j := newJob(t, "--max-restarts", "0")
			agents := j.static(2, sh(printRankForever)...)
			for _, a := range agents {
				a.waitForStdout("up", 1)
			}
			killed := time.Now()
			j.kill(agents[target].pid())
			j.wantExit(longWait, 137, agents...)
			if took := time.Since(killed); took > shortWait {
				t.Errorf("took %v", took)
			}
			survivor := agents[1-target]
			j.wantCause([]*agent{survivor}, "was lost")
			for _, jargon := range []string{"context canceled", "EOF"} {
				if strings.Contains(survivor.err.String(), jargon) {
					t.Errorf("it speaks of %q", jargon)
				}
			}
		})
	}
}

// TestStaticMasterMissing checks that without the master the others give up in time and
// name its address.
func TestStaticMasterMissing(t *testing.T) {
	t.Parallel()
	j := newJob(t, "--rdzv-conf", "join_timeout=2")
	_, port, _ := net.SplitHostPort(j.endpoint)
	a := j.run("node 1", append([]string{
		"--nnodes", "2", "--node-rank", "1", "--master-addr", "127.0.0.1", "--master-port", port,
	}, sh("exit 0")...)...)
	j.wantExit(longWait, 75, a)
	j.wantCause(j.agents, j.endpoint, "refused")
}

// TestStaticNodesMissing checks that the master that waits in vain names the flags that
// this job meets by.
func TestStaticNodesMissing(t *testing.T) {
	t.Parallel()
	j := newJob(t, "--rdzv-conf", "join_timeout=1", "--nnodes", "2", "--node-rank", "0")
	_, port, _ := net.SplitHostPort(j.endpoint)
	a := j.run("by master", append([]string{"--master-addr", "127.0.0.1", "--master-port", port}, sh("exit 0")...)...)
	j.wantExit(longWait, 75, a)
	j.wantCause([]*agent{a}, "with the same --master-addr and --master-port, and that they reach "+j.endpoint)
	a = j.run("by endpoint", append([]string{"--rdzv-backend", "static", "--rdzv-endpoint", j.endpoint}, sh("exit 0")...)...)
	j.wantExit(longWait, 75, a)
	j.wantCause([]*agent{a}, "with the same --rdzv-endpoint, and that")
}

// TestStaticSameNodeRank checks that of two nodes with one rank the second is refused.
func TestStaticSameNodeRank(t *testing.T) {
	t.Parallel()
	j := newJob(t, "--rdzv-conf", "join_timeout=20")
	_, port, _ := net.SplitHostPort(j.endpoint)
	node := func(rank string) *agent {
		return j.run("node "+rank, append([]string{
			"--nnodes", "3", "--node-rank", rank, "--master-addr", "127.0.0.1", "--master-port", port,
		}, sh("exit 0")...)...)
	}
	first, second := node("0"), node("1")
	first.waitForStderr("have 2 of 3 nodes")
	third := node("1")
	j.wantExit(shortWait, 75, third)
	j.wantCause([]*agent{third}, "--node-rank 1")
	j.wantExit(shortWait, 0, node("2"), first, second)
}

// TestMasterOfOneNode checks that on one node the address that the user gave is the
// store's, if it can be.
func TestMasterOfOneNode(t *testing.T) {
	t.Parallel()
	const unusedAddr = "192.0.2.77" // TEST-NET-1: no machine has it
	for _, flags := range []string{"", "--rdzv-backend=static", "--standalone"} {
		for addr, want := range map[string]string{"localhost": "localhost", "127.0.0.9": "127.0.0.9", unusedAddr: "127.0.0.1", "no-such-host.invalid": "127.0.0.1"} {
			t.Run(flags+addr, func(t *testing.T) {
				t.Parallel()
				j := newJob(t, strings.Fields(flags)...)
				port := fmt.Sprint(porttest.Free(t, ""))
				a := j.run("a", "--master-addr", addr, "--master-port", port, "--no-python", "bash", "-c",
					`echo at $MASTER_ADDR:$MASTER_PORT; exec 3<>/dev/tcp/$MASTER_ADDR/$MASTER_PORT`)
				j.wantExit(longWait, 0, a)
				a.waitForStdout("at "+want+":"+port+"\n", 1)
				shown := strings.Contains(a.err.String(), "--master-addr "+addr+" is ignored, because the job has one node and ")
				if shown != (addr != want) {
					t.Errorf("a word about the address: %v", shown)
				}
			})
		}
	}
}
