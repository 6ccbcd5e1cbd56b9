package ssh

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorun/gorun/internal/term"
	"github.com/gorun/gorun/launch/process"
)

// Options holds what a job on many hosts needs.
type Options struct {
	Hosts    []Host
	Least    int      // number of hosts without which nothing starts
	Command  []string // ssh and the first of its arguments
	Env      []string // of ssh
	Question Question
	Program  Program
	// Plan says what to run on the hosts that have come, by their index in Hosts.
	Plan func(index []int, hellos []Hello) ([]Start, error)

	Signals        <-chan os.Signal
	Console        *term.Console
	Stdout, Stderr io.Writer
	Prefix         bool // begins each line with its host
}

// Times of a job.
const (
	parallel     = 32              // connections that are made at the same time
	failedWait   = 3 * time.Second // for the other hosts, when one cannot be used
	endWait      = 5 * time.Second // for the other hosts to end by themselves, when one has failed
	killWait     = 5 * time.Second // from the second signal until everything is killed
	abandonWait  = 5 * time.Second // from then until the connections are closed
	mostNames    = 5               // hosts in a line about a wait
	tickInterval = time.Second
)

// StoppedError means that a signal ended the job before it began.
type StoppedError struct{ Signal syscall.Signal }

func (e *StoppedError) Error() string {
	return fmt.Sprintf("stopped by %s before the job began", unix.SignalName(e.Signal))
}

// NotStartedError means that nothing was started, because hosts cannot be used.
type NotStartedError struct{ Usable, Hosts int }

func (e *NotStartedError) Error() string {
	return fmt.Sprintf("nothing was started: %d of %d hosts cannot be used", e.Hosts-e.Usable, e.Hosts)
}

// job is a job on many hosts.
type job struct {
	o   *Options
	all []*connection
}

// Run runs the job and returns its exit code: that of the first host that failed. With
// an error nothing was started.
func Run(ctx context.Context, o Options) (code int, err error) {
	path, err := exec.LookPath(o.Command[0])
	if err != nil {
		return 0, fmt.Errorf("cannot find ssh: %w", err)
	}
	question, err := o.Question.encode()
	if err != nil {
		return 0, err
	}
	table, err := process.Open()
	if err != nil {
		return 0, err
	}
	defer table.Close()
	j := &job{o: &o}
	stdout, stderr := &output{to: o.Stdout}, &output{to: o.Stderr}
	for _, h := range o.Hosts {
		j.all = append(j.all, newConnection(h, &o, stdout, stderr))
	}
	usable, err := j.connect(ctx, func(ctx context.Context, c *connection) error { return c.connect(ctx, table, path, question) })
	if err == nil {
		err = j.start(usable)
	}
	if err != nil {
		for _, c := range j.all {
			c.kill()
		}
		for _, c := range j.all {
			<-c.done
		}
		return 0, err
	}
	return j.watch(ctx, usable), nil
}

// result is how the connection to one host went.
type result struct {
	index int // in the list of hosts
	err   error
}

// dial connects to all hosts, some at a time. It sends a result for each and returns
// when all are sent.
func (j *job) dial(ctx context.Context, connect func(context.Context, *connection) error, results chan<- result) {
	places := make(chan struct{}, parallel)
	var wg sync.WaitGroup
	for i, c := range j.all {
		wg.Go(func() {
			places <- struct{}{}
			defer func() { <-places }()
			if ctx.Err() != nil {
				close(c.done)
				results <- result{i, errors.New("not tried")}
				return
			}
			results <- result{i, connect(ctx, c)}
		})
	}
	wg.Wait()
}

// connect connects to all hosts and returns the indices of those that can be used.
func (j *job) connect(ctx context.Context, connect func(context.Context, *connection) error) (usable []int, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	results := make(chan result, len(j.all))
	go j.dial(ctx, connect, results) // ends before the loop below
	tick := time.NewTicker(tickInterval)
	defer tick.Stop()
	var hurry <-chan time.Time
	pending := map[int]bool{}
	for i := range j.all {
		pending[i] = true
	}
	for len(pending) > 0 {
		select {
		case r := <-results:
			delete(pending, r.index)
			if r.err == nil {
				usable = append(usable, r.index)
				continue
			}
			if err == nil {
				j.o.Console.Say("%s: %v", j.all[r.index].host, r.err)
			}
			if len(usable)+len(pending) < j.o.Least && hurry == nil {
				hurry = time.After(failedWait)
			}
		case sig := <-j.o.Signals:
			if s, isSignal := sig.(syscall.Signal); isSignal && endsJob(s) && s != unix.SIGTSTP && err == nil {
				err = &StoppedError{s}
				cancel()
			}
		case <-hurry:
			cancel()
		case <-tick.C:
			j.sayWait(pending)
		}
	}
	j.o.Console.Clear()
	slices.Sort(usable)
	if err == nil && len(usable) < j.o.Least {
		err = &NotStartedError{len(usable), len(j.all)}
	}
	return usable, err
}

// sayWait shows which hosts have not answered, and why.
func (j *job) sayWait(pending map[int]bool) {
	var names []string
	for i, c := range j.all {
		if !pending[i] {
			continue
		}
		if len(names) == mostNames {
			names = append(names, fmt.Sprintf("%d more", len(pending)-mostNames))
			break
		}
		names = append(names, fmt.Sprintf("%s (%s)", c.host, c.waiting()))
	}
	line := fmt.Sprintf("%d of %d hosts have answered; waiting for %s", len(j.all)-len(pending), len(j.all), strings.Join(names, ", "))
	j.o.Console.Wait(term.Wait{Line: line, State: fmt.Sprint(len(pending))})
}

// start tells the hosts what to run.
func (j *job) start(usable []int) error {
	hellos := make([]Hello, len(usable))
	for i, index := range usable {
		hellos[i] = j.all[index].hello
	}
	starts, err := j.o.Plan(usable, hellos)
	if err != nil {
		return err
	}
	lines := make([][]byte, len(starts))
	for i, s := range starts {
		if lines[i], err = s.line(); err != nil {
			return err
		}
	}
	for i, index := range usable {
		c := j.all[index]
		c.out.pass()
		c.errs.pass()
		c.send(lines[i])
	}
	return nil
}
