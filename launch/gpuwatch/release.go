package gpuwatch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gorun/gorun/launch/device"
)

const (
	minPoll     = 100 * time.Millisecond
	maxPoll     = time.Second
	reportDelay = 3 * time.Second // a wait must not be silent for more than 5 s
)

// releaseWait describes what to wait for.
type releaseWait struct {
	GPUs    []device.GPU     // all GPUs of the node
	UUIDs   []string         // the ranks' GPUs and MIG instances; none: all
	PIDs    []int            // the workers; an ended worker may still hold a GPU
	World   World            // the round that has ended
	Earlier []device.Process // the processes that computed on a GPU before the job
	// List returns the processes that compute on the GPUs.
	List  func(context.Context) ([]device.Process, error)
	Procs Procs
	// Timeout is how long the wait may take (--gpu-release-timeout).
	Timeout time.Duration
	Say     func(string)
}

// errNotReleased is the error when the GPUs are not free in time.
var errNotReleased = errors.New("the GPUs are not free")

// waitReleased waits until no process of the job holds one of the job's GPUs. After
// 3 s it names the holders. The error is errNotReleased with the holders, the error
// of ctx, or the error of List.
//
// The driver lists an ended process until it has freed the process's memory. So
// waitReleased counts a process that no longer exists as the job's, unless the process
// held a GPU before the job. It also counts an unknown process as the job's: a
// container of a worker may outlive the worker, and the environment of a process that
// hangs in the kernel cannot be read.
func waitReleased(ctx context.Context, r releaseWait) error {
	ctx, cancel := context.WithTimeoutCause(ctx, r.Timeout, errNotReleased)
	defer cancel()
	start, reported := time.Now(), ""
	var holding []device.Process
	matcher := newMatcher(r.Procs, r.World)
	for poll := minPoll; ; poll = min(2*poll, maxPoll) {
		all, err := r.list(ctx)
		switch {
		case ctx.Err() != nil:
			return r.timeoutError(context.Cause(ctx), holding)
		case err != nil:
			return fmt.Errorf("cannot check whether the GPUs are free again: %w", err)
		}
		if holding = r.jobProcesses(matcher, all); len(holding) == 0 {
			return nil
		}
		if holders := r.describe(holding); holders != reported && time.Since(start) >= reportDelay {
			reported = holders
			r.Say(fmt.Sprintf("waiting until the GPUs are free (at most %v): %s", r.Timeout, holders))
		}
		select {
		case <-ctx.Done():
			return r.timeoutError(context.Cause(ctx), holding)
		case <-time.After(poll):
		}
	}
}

// list reads the process list. It prints a line when the driver is slow to answer.
func (r releaseWait) list(ctx context.Context) (processes []device.Process, err error) {
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		processes, err = r.List(ctx)
	}()
	select {
	case <-answered:
	case <-time.After(reportDelay):
		r.Say(fmt.Sprintf("waiting until the GPUs are free (at most %v): the driver has not answered yet", r.Timeout))
		<-answered
	}
	return processes, err
}

func (r releaseWait) timeoutError(cause error, holding []device.Process) error {
	if !errors.Is(cause, errNotReleased) {
		return cause
	}
	holders := r.describe(holding)
	if holders == "" {
		holders = "the driver does not say which process holds them"
	}
	return fmt.Errorf("%w after %v: %s; end these processes, run nvidia-smi, or give a longer --gpu-release-timeout", errNotReleased, r.Timeout, holders)
}

// jobProcesses returns the processes of the job that hold one of its GPUs.
func (r releaseWait) jobProcesses(m *matcher, all []device.Process) []device.Process {
	n, hostPIDs := nodeGPUs(r.GPUs), r.Procs.HasHostPIDs()
	job := Rank{GPUs: r.UUIDs}
	return slices.DeleteFunc(slices.Clone(all), func(h device.Process) bool {
		if len(r.UUIDs) > 0 && !n.isAssigned(job, h.UUID) {
			return true
		}
		if slices.ContainsFunc(r.Earlier, func(b device.Process) bool { return b.PID == h.PID }) {
			return true
		}
		name := r.Procs.Name(h.PID)
		// In another pid namespace the name may be that of another process.
		if slices.Contains(r.PIDs, h.PID) || name == "" || !hostPIDs {
			return false
		}
		if isMPSServer(name) {
			return true
		}
		related, _ := m.relationOf(h.PID)
		return related == relationOther
	})
}

// describe lists the holders: "GPU 0: pid 7 (python); GPU 1: pid 8 (ended, 512 MiB)".
func (r releaseWait) describe(list []device.Process) string {
	var all []string
	for _, h := range list {
		what := r.Procs.Name(h.PID)
		if what == "" {
			what = "ended, or in another container"
		}
		all = append(all, fmt.Sprintf("%s: pid %d (%s)%s", nodeGPUs(r.GPUs).label(h.UUID), h.PID, what, describeMemory(h)))
	}
	return strings.Join(all, "; ")
}
