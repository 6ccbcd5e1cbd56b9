package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"github.com/gorun/gorun/rendezvous/etcd/etcdtest"
)

// service is a real etcd of one member, which serves one run of the benchmark.
type service struct {
	endpoints []string
	pids      []int // they are not the jobs': neither killed nor counted with one
	end       func()
}

// startEtcd starts the lab's etcd, or keeps why there is none.
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
		// The kernel ends etcd with the thread that has started it: this one is
		// nobody else's for as long.
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

// aside are the processes below this one that belong to no job.
func (l *lab) aside() []int {
	if l.etcd == nil {
		return nil
	}
	return l.etcd.pids
}

// etcdCommands starts one gorun a node by hand, as gorunCommands does.
func etcdCommands(l *lab, s shape, program []string) ([][]string, error) {
	return byHand(l, s, []string{"--rdzv-backend", "etcd", "--rdzv-endpoint", strings.Join(l.etcd.endpoints, ",")}, program), nil
}

// byHand is one gorun for each node, spares too, which meet as where says.
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

// runID is that of the job that was started last: what a killed job leaves in
// etcd keeps its run id for a minute.
func (l *lab) runID() string { return "bench" + strconv.Itoa(l.runs) }
