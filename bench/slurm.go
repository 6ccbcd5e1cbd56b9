package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"time"

	"github.com/gorun/gorun/internal/slurmtest"
)

// Names of the peers that run in a Slurm of the benchmark's own.
const (
	nameSrunGorun    = "srun gorun"
	nameSrun         = "srun"
	nameSrunTorchrun = "srun torchrun"
)

// slurmNodesMost is the number of virtual nodes of the benchmark's Slurm.
const slurmNodesMost = 16

// slurmPeers returns what is started by srun, one task on each node.
func slurmPeers(ctx context.Context, l *lab) []*peer {
	under := func(name, missing string, leaves bool, program func(l *lab, s shape) ([]string, error)) *peer {
		return &peer{name: name, missing: cmp.Or(l.slurmWhy, missing), inSlurm: true, leavesFiles: leaves, commands: func(l *lab, s shape, worker []string) ([][]string, error) {
			line, err := program(l, s)
			srun := []string{"env", "SLURM_CONF=" + l.slurm.conf, "srun", "-N", strconv.Itoa(s.nodes), "-n", strconv.Itoa(s.nodes)}
			return [][]string{join(srun, line, worker)}, err
		}}
	}
	return []*peer{
		under(nameSrunGorun, l.gorunWhy, false, func(l *lab, _ shape) ([]string, error) { return []string{l.gorun}, nil }),
		under(nameSrun, "", false, func(*lab, shape) ([]string, error) { return nil, nil }),
		under(nameSrunTorchrun, torchMissing(ctx), true, func(l *lab, s shape) ([]string, error) {
			port, err := freePort(l.slurm.addr)
			return []string{
				python, l.torchrun, "--nproc_per_node", "1", "--monitor_interval", "0.1", "--nnodes", strconv.Itoa(s.nodes),
				"--rdzv_backend", "c10d", "--rdzv_endpoint", port, "--rdzv_id", "bench", "--no_python",
			}, err
		}),
	}
}

// slurmStart measures a job of /bin/true under srun, from the start of srun to its end.
func slurmStart(quick bool) []scenario {
	sizes := []int{4, slurmNodesMost}
	if quick {
		sizes = sizes[:1]
	}
	var all []scenario
	for _, n := range sizes {
		s := shape{nodes: n, perNode: 1}
		all = append(all, scenario{
			measure: "slurm", name: fmt.Sprintf("N = %d", n), only: []string{nameSrunGorun, nameSrun, nameSrunTorchrun},
			run: func(ctx context.Context, l *lab, p *peer) (_ []reading, err error) {
				j, err := startJob(l, p, s, []string{"/bin/true"})
				if err != nil {
					return nil, err
				}
				defer func() { err = errors.Join(err, j.close()) }()
				codes, err := j.wait(ctx, 2*time.Minute)
				if err != nil {
					return nil, err
				}
				if codes[0] != 0 {
					return nil, fmt.Errorf("exit code %d: %s", codes[0], j.lastOutput())
				}
				return one(reading{metric: "the job has ended", value: ms(j.end - j.begin), unit: "ms"}), nil
			},
		})
	}
	return all
}

// slurmService is a real Slurm, which serves one run of the benchmark.
type slurmService struct {
	conf string // SLURM_CONF
	addr string // of the first node
	pids []int  // its processes, which are not killed or counted with a job
	end  func()
}

// startSlurm starts the lab's Slurm, or records why there is none.
func (l *lab) startSlurm() {
	before := map[int]bool{}
	for _, p := range descendants() {
		before[p.pid] = true
	}
	type started struct {
		c   *slurmtest.Cluster
		err error
	}
	result, over, ended := make(chan started), make(chan struct{}), make(chan struct{})
	go func() {
		// The kernel ends the daemons with the thread that started them.
		runtime.LockOSThread()
		defer close(ended)
		c, err := slurmtest.Launch(slurmtest.Options{Nodes: slurmNodesMost})
		result <- started{c, err}
		if err == nil {
			<-over
			c.Close()
		}
	}()
	r := <-result
	if r.err != nil {
		l.slurmWhy = "missing: Slurm"
		if !errors.Is(r.err, slurmtest.ErrMissing) {
			l.slurmWhy = "Slurm does not start"
			fmt.Fprintln(os.Stderr, "bench:", r.err)
		}
		return
	}
	l.slurm = &slurmService{conf: r.c.Conf, addr: r.c.Addr(0), end: func() { close(over); <-ended }}
	for _, p := range descendants() {
		if !before[p.pid] {
			l.slurm.pids = append(l.slurm.pids, p.pid)
		}
	}
}
