package e2e_test

import (
	"fmt"
	"slices"
	"syscall"
	"testing"

	"github.com/gorun/gorun/rendezvous/etcd/etcdtest"
)

// nodeLosses are the forms in which a job loses a node.
var nodeLosses = map[string]struct {
	// lose makes the job lose a node that runs on a host.
	lose func(l *lan, host int, a *agent)
	// unproven is set if no connection to the node is refused afterwards. Then others can
	// go on only if they are the larger part.
	unproven bool
	// lives is set if the node's gorun lives on.
	lives bool
	// pid1 is set if the node's gorun is PID 1 of a container. With it the kernel kills
	// all other processes of the container, in any order.
	pid1 bool
	// orphans is set if a process that left its worker's session survives: nothing is
	// left that could find it.
	orphans bool
}{
	"agent killed":  {lose: func(_ *lan, _ int, a *agent) { a.j.kill(a.pid()) }},
	"keeper killed": {lose: func(_ *lan, _ int, a *agent) { a.j.kill(a.keeper()) }},
	"both killed": {orphans: true, lose: func(_ *lan, _ int, a *agent) {
		agent := a.pid()
		a.j.kill(a.keeper())
		a.j.kill(agent)
	}},
	"container killed": {pid1: true, unproven: true, lose: func(l *lan, host int, a *agent) {
		a.j.kill(a.pid())
		l.cut(host) // its network goes with it
	}},
	"network cut":   {unproven: true, lives: true, lose: func(l *lan, host int, _ *agent) { l.cut(host) }},
	"agent stopped": {unproven: true, lives: true, lose: func(_ *lan, _ int, a *agent) { a.j.freeze(a.pid()) }},
}

// TestNodeLost checks that the loss of a node, in whatever form, is the loss of that node
// alone if a restart is left: the others go on without it and end with 0. Without a
// restart they end with 137, and all name the lost node as the cause. No process of a
// lost node survives.
func TestNodeLost(t *testing.T) {
	t.Parallel()
	c := etcdtest.Start(t, etcdtest.Options{})
	for form := range nodeLosses {
		for _, backend := range []string{"gossip", "etcd"} {
			for _, where := range []string{"endpoint", "member"} {
				for restarts := range 2 {
					t.Run(fmt.Sprintf("%s/%s/%s/restarts %d", form, backend, where, restarts), func(t *testing.T) {
						t.Parallel()
						loss := nodeLoss{form: form, hosts: 3, target: 1, restarts: restarts}
						if restarts > 0 && !nodeLosses[form].unproven {
							loss.hosts = 2 // and the other goes on alone
						}
						if where == "member" {
							loss.target = loss.hosts
						}
						l := newLAN(t, loss.hosts)
						j := newJob(t, "--rdzv-backend", backend, "--max-restarts", fmt.Sprint(restarts))
						j.endpoint = l.addr(1)
						conf := "join_timeout=60,last_call_timeout=1"
						if nodeLosses[form].unproven {
							conf += "," + detectionConf
						}
						if backend == "etcd" {
							j.endpoint = l.etcd(c.Endpoints())[0]
							conf += ",lost_timeout=20"
						}
						j.flags = append(j.flags, "--rdzv-conf", conf)
						loss.play(l, j)
					})
				}
			}
		}
	}
}

// nodeLoss is one case of TestNodeLost.
type nodeLoss struct {
	form     string // in nodeLosses
	hosts    int
	target   int // host of the lost node
	restarts int
}

// play starts a job on all hosts, makes it lose a node, and checks how it goes on.
func (n nodeLoss) play(l *lan, j *job) {
	j.Helper()
	form := nodeLosses[n.form]
	script := `echo rank $RANK of $WORLD_SIZE; while [ ! -e $E2E_DIR/go ]; do sleep 0.05; done`
	if !form.orphans {
		script = `setsid sh -c 'trap "" TERM HUP; exec sleep 300' & ` + script
	}
	for host := 1; host <= n.hosts; host++ {
		cmd := l.command(j, host, j.endpoint, fmt.Sprintf("%d:%d", n.hosts-1, n.hosts), sh(script)...)
		if host == n.target && form.pid1 {
			asPID1(j, cmd)
		}
		j.launch(l.addr(host), cmd)
	}
	for _, a := range j.agents {
		a.waitForStdout(fmt.Sprintf("of %d", n.hosts), 1)
	}
	lost, others := j.agents[n.target-1], slices.Delete(slices.Clone(j.agents), n.target-1, n.target)
	form.lose(l, n.target, lost)
	if n.restarts > 0 {
		for rank, a := range others {
			a.waitForStdout(fmt.Sprintf("rank %d of %d", rank, n.hosts-1), 1)
			a.waitForStderr("(" + l.addr(n.target) + ") was lost")
		}
		j.touch("go")
		j.wantExit(longWait, 0, others...)
	} else {
		j.wantExit(longWait, 137, others...)
		j.wantCause(others, "("+l.addr(n.target)+") was lost")
		j.wantSameCause(others...)
	}
	switch {
	case form.lives:
		_ = lost.cmd.Process.Kill() // else it looks for the others for a minute
	case !form.pid1: // unshare has an exit code of its own
		j.wantExit(longWait, 137, lost)
	}
	if n.form == "agent killed" {
		lost.waitForStderr("gorun: the agent was killed by SIGKILL;")
	}
}

// freeze stops all threads of a process.
func (j *job) freeze(pid int) {
	j.Helper()
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		j.Fatalf("cannot stop %d: %v", pid, err)
	}
	eventually(j, shortWait, fmt.Sprintf("all threads of %d stop", pid), func() bool { return isStopped(pid) })
}
