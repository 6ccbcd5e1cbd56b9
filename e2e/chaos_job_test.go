package e2e_test

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gorun/gorun/rendezvous/etcd/etcdtest"
)

// chaosJob is a job that a test disturbs at random.
type chaosJob struct {
	*job
	plan
	net          *lan              // nil: loopback
	cluster      *etcdtest.Cluster // nil: gossip
	all          []*chaosAgent
	began        time.Time
	undoActions  []undoAction
	hasStopped   bool // true: an agent or keeper was stopped
	hasCut       bool // true: a link was cut
	down         int  // number of etcd members that do not run
	longestPause func() time.Duration
}

// chaosAgent is one agent. faults says what the test did to it; "" for nothing.
type chaosAgent struct {
	*agent
	host      int
	startedAt time.Duration
	faults    string
	frozen    bool
}

// undoAction undoes an action at a later time.
type undoAction struct {
	at time.Time
	do func()
}

func newChaosJob(t *testing.T, p plan, c *etcdtest.Cluster) *chaosJob {
	a := &chaosJob{plan: p, began: time.Now(), longestPause: watchMachine(t)}
	t.Cleanup(func() { // runs after the job's own, so that no stopped process stays
		for _, l := range a.undoActions {
			l.do()
		}
	})
	if p.lan {
		a.net = newLAN(t, p.hosts)
	}
	conf := "keep_alive_interval=0.5,keep_alive_max_attempt=6"
	switch {
	case p.etcd:
		conf += ",join_timeout=10,last_call_timeout=0.5,ttl=3,lost_timeout=10"
	case p.min < p.max:
		// The survivors of a job find a restarted agent of the endpoint within 5 s. Before
		// that, this agent could make a world of its own (docs/usage.md).
		conf += ",join_timeout=20,last_call_timeout=7"
	default:
		conf += ",join_timeout=10,last_call_timeout=0.5"
	}
	a.job = newJob(t, "--rdzv-conf", conf, "--shutdown-timeout", "2", "--max-restarts", fmt.Sprint(p.restarts), "--nproc-per-node", fmt.Sprint(p.workers))
	if p.stubborn {
		a.touch("stubborn")
	}
	if p.lan {
		a.endpoint = a.net.addr(1)
	}
	if p.etcd {
		a.cluster = c
		ends := c.Endpoints()
		if p.lan {
			ends = a.net.etcd(ends)
		}
		a.inEtcd(ends...)
	}
	return a
}

func (a *chaosJob) note(format string, args ...any) {
	a.Helper()
	a.Logf("%6.2fs %s", time.Since(a.began).Seconds(), fmt.Sprintf(format, args...))
}

// start starts an agent on a host.
func (a *chaosJob) start(host int) {
	nnodes := fmt.Sprintf("%d:%d", a.min, a.max)
	p := &chaosAgent{host: host, startedAt: time.Since(a.began)}
	if a.net != nil {
		p.agent = a.net.node(a.job, host, a.endpoint, nnodes, a.world()...)
	} else {
		p.agent = a.node(host, nnodes, a.world()...)
	}
	a.note("start %s, pid %d", p.name, p.keeper())
	a.all = append(a.all, p)
}

// waitUpTo waits up to d and runs the undo actions that are due.
func (a *chaosJob) waitUpTo(d time.Duration) {
	d = time.Duration(a.rnd.Int64N(int64(d)))
	for end := time.Now().Add(d); ; time.Sleep(5 * time.Millisecond) { // sleep: between two looks
		now := time.Now()
		a.undoActions = slices.DeleteFunc(a.undoActions, func(l undoAction) bool {
			due := !now.Before(l.at)
			if due {
				l.do()
			}
			return due
		})
		if !now.Before(end) {
			return
		}
	}
}

// undo schedules an action, which runs after at most d.
func (a *chaosJob) undo(d time.Duration, do func()) {
	a.undoActions = append(a.undoActions, undoAction{time.Now().Add(time.Duration(a.rnd.Int64N(int64(d)))), do})
}

// disturb breaks something at random, or starts an agent on a host without one.
func (a *chaosJob) disturb() {
	switch n := a.rnd.IntN(12); {
	case n < 2:
		a.disturbWorker()
	case n < 6:
		a.disturbGorun()
	case n < 8 && a.cluster != nil:
		a.disturbEtcd()
	case n < 10 && a.net != nil:
		a.cutHost()
	default:
		a.startMissing()
	}
}

// startMissing starts an agent on a host that has none.
func (a *chaosJob) startMissing() {
	for h := 1; h <= a.hosts; h++ {
		if !slices.ContainsFunc(a.all, func(p *chaosAgent) bool { return p.host == h && p.running() }) {
			a.start(h)
			return
		}
	}
}

// disturbWorker kills or stops a worker, or lets one fail.
func (a *chaosJob) disturbWorker() {
	seats := slices.DeleteFunc(readNotes[workerNote](a.dir, "seat.*"), func(s workerNote) bool { return !s.isAlive() })
	if len(seats) == 0 {
		return
	}
	s := seats[a.rnd.IntN(len(seats))]
	switch a.rnd.IntN(3) {
	case 0:
		a.note("kill the worker of rank %d, round %d, on %s", s.Rank, s.Round, s.Node)
		a.send(s.PID, syscall.SIGKILL)
	case 1:
		a.note("stop the worker of rank %d, round %d, on %s, for good", s.Rank, s.Round, s.Node)
		a.send(s.PID, syscall.SIGSTOP)
		a.undo(5*time.Second, func() { // because the job would run for ever
			if s.isAlive() {
				a.note("kill it")
				a.send(s.PID, syscall.SIGKILL)
			}
		})
	default:
		a.note("fail the worker of rank %d, round %d, on %s", s.Rank, s.Round, s.Node)
		a.touch(fmt.Sprint("fail.", s.Rank))
	}
}

// disturbGorun kills or stops an agent or its keeper.
func (a *chaosJob) disturbGorun() {
	var up []*chaosAgent
	for _, p := range a.all {
		if p.running() && !p.frozen && p.findPid() != 0 {
			up = append(up, p)
		}
	}
	if len(up) == 0 {
		return
	}
	p := up[a.rnd.IntN(len(up))]
	what, pid := "agent", p.findPid()
	if a.rnd.IntN(2) == 0 {
		what, pid = "keeper", p.keeper()
	}
	if a.rnd.IntN(3) > 0 || pid == 0 {
		a.note("kill the %s of %s", what, p.name)
		p.faults += what + " killed "
		a.send(pid, syscall.SIGKILL)
		return
	}
	a.note("stop the %s of %s", what, p.name)
	p.faults, p.frozen, a.hasStopped = p.faults+what+" stopped ", true, true
	a.send(pid, syscall.SIGSTOP)
	a.undo(6*time.Second, func() {
		a.note("let the %s of %s go on", what, p.name)
		p.frozen = false
		a.send(pid, syscall.SIGCONT)
	})
}

// cutHost cuts a host off.
func (a *chaosJob) cutHost() {
	h := 1 + a.rnd.IntN(a.hosts)
	a.note("cut %s off", a.net.addr(h))
	a.hasCut = true
	for _, p := range a.all {
		if p.host == h && p.running() {
			p.faults += "cut "
		}
	}
	a.net.cut(h)
	a.undo(8*time.Second, func() {
		a.note("mend the link of %s", a.net.addr(h))
		a.net.mend(h)
	})
}

// disturbEtcd kills or stops a member of etcd.
func (a *chaosJob) disturbEtcd() {
	i := a.rnd.IntN(3)
	if a.down>>i&1 == 1 {
		return
	}
	a.down |= 1 << i
	kill := a.rnd.IntN(2) == 0
	a.note("etcd member %d: kill %v, else stop", i, kill)
	back := func() error { return a.cluster.Cont(i) }
	if kill {
		a.cluster.Kill(i)
		back = func() error { return a.cluster.Restart(i) }
	} else if err := a.cluster.Stop(i); err != nil {
		a.Error(err)
	}
	a.undo(5*time.Second, func() {
		a.note("etcd member %d is back", i)
		a.down &^= 1 << i
		if err := back(); err != nil && !strings.Contains(err.Error(), "is not ready") { // without a majority no member is ready
			a.Error(err)
		}
	})
}

func (a *chaosJob) send(pid int, sig syscall.Signal) {
	if err := syscall.Kill(pid, sig); err != nil && err != syscall.ESRCH {
		a.Errorf("cannot send %v to %d: %v", sig, pid, err)
	}
}
