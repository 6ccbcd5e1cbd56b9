package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"github.com/gorun/gorun/bench/collectives"
	"github.com/gorun/gorun/rendezvous/etcd/etcdtest"
)

var (
	//go:embed csrc/helper.c
	helperC []byte
	//go:embed torchrun.py
	torchrunPy []byte
	//go:embed ssh-stand-in.sh
	sshStandIn []byte
)

// lab has what the measurements share: built programs and a scratch folder.
type lab struct {
	scratch  string // removed at the end
	helper   string // path of the worker and floor program
	compiler string // what helper was built with
	gorun    string // path of gorun, "" if there is none
	gorunWhy string // why there is no gorun
	torchrun string // path of the torchrun starter
	ssh      string // path of the stand-in for ssh
	module   string // root of the module
	etcd     *service
	etcdWhy  string // why there is no etcd
	slurm    *slurmService
	slurmWhy string             // why there is no Slurm
	sides    []collectives.Side // that all-reduces are measured with
	runs     int                // number of jobs of several nodes that were started
}

// newLab builds the programs. gorun is a path; "" means to run "make build".
func newLab(ctx context.Context, module, gorun string) (*lab, error) {
	// The path must be short, because the path of a Unix socket has 107 bytes at most.
	scratch, err := os.MkdirTemp("", "gorun-bench-")
	if err != nil {
		return nil, err
	}
	l := &lab{
		scratch: scratch, module: module, gorun: gorun,
		torchrun: filepath.Join(scratch, "torchrun.py"),
		ssh:      filepath.Join(scratch, "ssh"),
	}
	if err := l.prepare(ctx); err != nil {
		l.close()
		return nil, err
	}
	return l, nil
}

func (l *lab) prepare(ctx context.Context) error {
	if err := os.WriteFile(l.torchrun, torchrunPy, 0o600); err != nil {
		return err
	}
	if err := os.WriteFile(l.ssh, sshStandIn, 0o700); err != nil {
		return err
	}
	if err := l.buildHelper(ctx); err != nil {
		return err
	}
	return l.findGorun(ctx)
}

// buildHelper prefers C: a worker of 20 µs adds no noise of its own.
func (l *lab) buildHelper(ctx context.Context) error {
	l.helper = filepath.Join(l.scratch, "helper")
	if cc, err := exec.LookPath("cc"); err == nil {
		source := l.helper + ".c"
		if err := os.WriteFile(source, helperC, 0o600); err != nil {
			return err
		}
		for _, link := range []string{"-static", "-O2"} { // not every machine has a static libc
			if exec.CommandContext(ctx, cc, "-O2", link, "-o", l.helper, source).Run() == nil {
				l.compiler = "C"
				return nil
			}
		}
	}
	l.compiler = "Go"
	return l.build(ctx, "go", "build", "-o", l.helper, "./bench/helper")
}

// findGorun copies gorun, as an installation would. A program that the linker has just
// written lies in the page cache in single pages, and so starts up to 0.5 ms slower.
func (l *lab) findGorun(ctx context.Context) error {
	path := l.gorun
	if path == "" {
		path = filepath.Join(l.module, "bin", "gorun")
		if err := l.build(ctx, "make", "build"); err != nil {
			l.gorunWhy = "does not build"
			fmt.Fprintln(os.Stderr, "bench:", err)
			return nil
		}
	}
	program, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("cannot use -gorun: %w", err)
	}
	l.gorun = filepath.Join(l.scratch, "gorun")
	return os.WriteFile(l.gorun, program, 0o700)
}

// build runs a command in the module's root.
func (l *lab) build(ctx context.Context, line ...string) error {
	cmd := exec.CommandContext(ctx, line[0], line[1:]...)
	cmd.Dir = l.module
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("cannot run %s: %w\n%s", strings.Join(line, " "), err, text)
	}
	return nil
}

func (l *lab) close() {
	if l.etcd != nil {
		l.etcd.end()
	}
	if l.slurm != nil {
		l.slurm.end()
	}
	os.RemoveAll(l.scratch)
}

// service is a real etcd of one member, which serves one run of the benchmark.
type service struct {
	endpoints []string
	pids      []int // its processes, which are not killed or counted with a job
	end       func()
}

// startEtcd starts the lab's etcd, or records why there is none.
func (l *lab) startEtcd() {
	type started struct {
		s   *service
		err error
	}
	dir, err := os.MkdirTemp("/dev/shm", "gorun-bench-") // the disk is not measured
	if err != nil {
		dir = filepath.Join(l.scratch, "etcd")
	}
	result, over := make(chan started), make(chan struct{})
	ended := make(chan struct{})
	go func() {
		// The kernel ends etcd with the thread that started it, so this goroutine keeps
		// the thread until etcd ends.
		runtime.LockOSThread()
		defer close(ended)
		defer os.RemoveAll(dir)
		c, err := etcdtest.Launch(dir, etcdtest.Options{})
		if err != nil {
			result <- started{err: err}
			return
		}
		s := &service{endpoints: c.Endpoints()}
		for _, p := range descendants() { // no job runs yet
			s.pids = append(s.pids, p.pid)
		}
		result <- started{s: s}
		<-over
		c.Close()
	}()
	r := <-result
	switch {
	case errors.Is(r.err, etcdtest.ErrMissing):
		l.etcdWhy = "missing: etcd"
	case r.err != nil:
		l.etcdWhy = "etcd does not start"
		fmt.Fprintln(os.Stderr, "bench:", r.err)
	default:
		l.etcd = r.s
		l.etcd.end = func() { close(over); <-ended }
	}
}

// otherProcesses returns the descendants of this process that belong to no job.
func (l *lab) otherProcesses() []int {
	var pids []int
	if l.etcd != nil {
		pids = append(pids, l.etcd.pids...)
	}
	if l.slurm != nil {
		pids = append(pids, l.slurm.pids...)
	}
	return pids
}

// etcdCommands starts one gorun a node by hand, as gorunCommands does.
func etcdCommands(l *lab, s shape, program []string) ([][]string, error) {
	return byHand(l, s, []string{"--rdzv-backend", "etcd", "--rdzv-endpoint", strings.Join(l.etcd.endpoints, ",")}, program), nil
}

// byHand returns the command of one gorun for each node, spares included. where has the
// flags that say where the nodes meet.
func byHand(l *lab, s shape, where, program []string) [][]string {
	l.runs++
	var lines [][]string
	for i := range s.nodes + s.spares {
		lines = append(lines, join([]string{
			l.gorun, "--nproc-per-node", strconv.Itoa(s.perNode), "--nnodes", strconv.Itoa(s.nodes),
			"--max-restarts", strconv.Itoa(s.restarts), "--local-addr", loopback(i), "--rdzv-id", l.runID(), "--no-python",
		}, where, program))
	}
	return lines
}

// runID returns the run id of the last job. Each job has its own, because a killed job
// leaves keys under its run id in etcd for a minute.
func (l *lab) runID() string { return "bench" + strconv.Itoa(l.runs) }
