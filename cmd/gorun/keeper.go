package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorun/gorun/launch"
	"github.com/gorun/gorun/launch/process"
	"github.com/gorun/gorun/launch/report"
	"github.com/gorun/gorun/launch/scratch"
	"github.com/gorun/gorun/launch/spec"
)

// gorun is two processes. The user starts the keeper, and the keeper starts this program
// again as the agent. When one of the two is killed, the other one kills all processes
// that are left.

// selfPath is the path of this program, even if its file was replaced or removed.
const selfPath = "/proc/self/exe"

// survivePipes makes a write to a closed terminal or pipe fail. By default SIGPIPE would
// end this process, and a line that is lost must not end the job. Workers get
// the default.
func survivePipes() { signal.Notify(make(chan os.Signal, 1), unix.SIGPIPE) }

// keeper is a process.Keeper with the results of its agents.
type keeper struct {
	process.Keeper
	job     spec.Spec
	started time.Time
	code    int          // exit code of the first agent that failed
	ended   bool         // true: at least one agent has ended
	killed  process.Exit // how the agent ended that writes the report, if a signal killed it
}

// replaceWait is the time in which the other local nodes may end by themselves after the
// agent of one node was killed.
const replaceWait = 5 * time.Second

// newKeeper returns a keeper without agents.
func newKeeper(job spec.Spec) *keeper {
	k := &keeper{job: job, started: time.Now()}
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, process.Forwarded(job.Signals...)...)
	survivePipes()
	k.Signals = signals
	k.OnExit = func(i int, e process.Exit, killed int) {
		k.ended = true
		if e.Signal != 0 {
			which := "the agent"
			if job.LocalNodes > 1 { // else i is not the node's number in its job
				which = fmt.Sprintf("the agent of node %d", i)
			}
			fmt.Fprintf(os.Stderr, "gorun: %s %v; %d processes that it left were killed\n", which, e, killed)
		}
		if i == 0 && e.Signal != 0 {
			k.killed = e
		}
		if job.LocalNodes > 1 && job.Backend == spec.Gossip && e.Signal != 0 { // the others would wait for this node, and nothing starts it again
			time.AfterFunc(replaceWait, func() {
				select {
				case signals <- syscall.SIGTERM:
				default: // the channel is full of other signals
				}
			})
		}
		if k.code == 0 {
			k.code = e.Status()
			if e.Signal != 0 && job.RequeueExitCode > 0 { // the other nodes see this node as lost
				k.code = job.RequeueExitCode
			}
		}
	}
	return k
}

// result turns the error of the keeper's run into the error of this process. Once an
// agent has ended, the exit code is the job's, and result only prints the error. The
// keeper writes the report if no agent could write it.
func (k *keeper) result(err error) error {
	var unwritten error
	switch {
	case err != nil && !k.ended:
		unwritten = launch.ReportError(k.job, k.started, err)
	case k.killed.Signal != 0:
		unwritten = report.Job{File: k.job.ReportFile, RunID: k.job.RunID, Started: k.started}.WriteKilled(k.killed, k.code)
	}
	if unwritten != nil {
		fmt.Fprintf(os.Stderr, "gorun: %v\n", unwritten)
	}
	if err != nil && !k.ended {
		return err
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "gorun: %v\n", err)
	}
	if k.code != 0 {
		return exitStatus(k.code)
	}
	return nil
}

// untilStepEnds returns a context that ends with the slurmstepd that started this
// process. Slurm gives the node to another job then, so nothing may be left there.
func untilStepEnds(ctx context.Context, sp spec.Spec) (step context.Context, stop func(), err error) {
	if !sp.Surroundings.IsSlurm() {
		return ctx, func() {}, nil
	}
	daemon, err := process.FindAncestor("slurmstepd")
	if err != nil || daemon == nil { // the shell of salloc has none
		return ctx, func() {}, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	daemon.Watch(func() { cancel(errors.New("the slurmstepd of this step has ended")) })
	return ctx, daemon.Close, nil
}

// runKeeper starts the agents and waits for them.
func runKeeper(ctx context.Context, sp spec.Spec, o *jobOptions) error {
	n := max(1, sp.LocalNodes)
	k := newKeeper(sp)
	give, err := shareLocal(n)
	if err != nil {
		return k.result(err)
	}
	line := o.commandLine()
	var removing sync.WaitGroup
	defer removing.Wait()
	for i := range n {
		place := agentPlace{index: i, count: n, tag: rand.Text()[:13]}
		defer removing.Go(scratch.Tag(place.tag).Remove) // the files that a killed agent leaves
		k.Agents = append(k.Agents, process.Spec{
			Path: selfPath, Args: append([]string{"gorun", o.cmd.Name(), "--" + agentFlag + "=" + place.String()}, line...),
			Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Group: true,
			ExtraFiles: give(i),
		})
	}
	ctx, stop, err := untilStepEnds(ctx, sp)
	if err != nil {
		return k.result(err)
	}
	defer stop()
	return k.result(k.Run(ctx))
}

// Descriptors of an agent of --local-nodes, after the keeper's lifeline. The first is a
// pipe: node 0 writes the endpoint into it once for each other node, and each other node
// reads it once. The second is a file with the secret of the job's agents, used if the
// user gives none. The last two are the file and the pipe of a device.Exchange.
const (
	endpointFD     = process.LifelineFD + 1
	secretFD       = process.LifelineFD + 2
	surveyFD       = process.LifelineFD + 3
	surveyReadyFD  = process.LifelineFD + 4
	endpointRecord = 64 // bytes, padded with spaces
	endpointWait   = 10 * time.Second
)

// shareLocal makes the pipes and the files that n agents of this machine share.
// files returns an agent's descriptors from endpointFD on.
func shareLocal(n int) (files func(index int) []*os.File, err error) {
	if n == 1 {
		return func(int) []*os.File { return nil }, nil
	}
	rd, wr, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	fd, err := unix.MemfdCreate("gorun-secret", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("cannot make the secret of the local nodes: memfd_create: %w", err)
	}
	key := os.NewFile(uintptr(fd), "secret")
	if _, err := key.WriteString(rand.Text()); err != nil {
		return nil, fmt.Errorf("cannot make the secret of the local nodes: %w", err)
	}
	if fd, err = unix.MemfdCreate("gorun-gpus", unix.MFD_CLOEXEC); err != nil {
		return nil, fmt.Errorf("cannot make the file of the GPUs: memfd_create: %w", err)
	}
	survey := os.NewFile(uintptr(fd), "gpus")
	wait, ready, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	return func(index int) []*os.File {
		if index == 0 {
			return []*os.File{wr, key, survey, ready}
		}
		return []*os.File{rd, key, survey, wait}
	}, nil
}
