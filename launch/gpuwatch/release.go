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
	firstPoll = 100 * time.Millisecond
	lastPoll  = time.Second
	sayAfter  = 3 * time.Second // a wait must not be silent for more than 5 s
)

// release describes what to wait for.
type release struct {
	GPUs   []device.GPU     // all GPUs of the node
	UUIDs  []string         // the ranks' GPUs and MIG instances; none: all
	PIDs   []int            // the workers; an ended worker may still hold a GPU
	World  World            // the round that has ended
	Before []device.Process // the processes that held a GPU before the job
	// Held lists the processes that compute on the GPUs.
	Held  func(context.Context) ([]device.Process, error)
	Procs Procs
	// Within is how long the wait may take (--gpu-release-timeout).
	Within time.Duration
	Say    func(string)
}

// errHeld is the error when the GPUs are not free in time.
var errHeld = errors.New("the GPUs are not free")

// waitReleased waits until no process of the job holds one of the job's GPUs. After
// 3 s it names the holders. The error is errHeld with the holders, the error of
// ctx, or why the holders cannot be known.
//
// The driver lists an ended process until it has taken everything back. So
// waitReleased counts a process that no longer exists as the job's, unless it held
// a GPU before the job. It also counts a living process as the job's, unless the
// process certainly does not belong to it: what a worker ran in a container may
// outlive the worker, and a process that hangs in the kernel shows nothing.
func waitReleased(ctx context.Context, r release) error {
	ctx, cancel := context.WithTimeoutCause(ctx, r.Within, errHeld)
	defer cancel()
	start, said := time.Now(), ""
	var holding []device.Process
	matcher := newMatcher(r.Procs, r.World)
	for poll := firstPoll; ; poll = min(2*poll, lastPoll) {
		all, err := r.ask(ctx)
		switch {
		case ctx.Err() != nil:
			return r.late(context.Cause(ctx), holding)
		case err != nil:
			return fmt.Errorf("whether the GPUs are free again cannot be told: %w", err)
		}
		if holding = r.ours(matcher, all); len(holding) == 0 {
			return nil
		}
		if holders := r.name(holding); holders != said && time.Since(start) >= sayAfter {
			said = holders
			r.Say(fmt.Sprintf("waiting until the GPUs are free (at most %v): %s", r.Within, holders))
		}
		select {
		case <-ctx.Done():
			return r.late(context.Cause(ctx), holding)
		case <-time.After(poll):
		}
	}
}

// ask reads the process list. It says so when the driver is slow to answer.
func (r release) ask(ctx context.Context) (held []device.Process, err error) {
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		held, err = r.Held(ctx)
	}()
	select {
	case <-answered:
	case <-time.After(sayAfter):
		r.Say(fmt.Sprintf("waiting until the GPUs are free (at most %v): the driver has not answered yet", r.Within))
		<-answered
	}
	return held, err
}

func (r release) late(cause error, holding []device.Process) error {
	if !errors.Is(cause, errHeld) {
		return cause
	}
	holders := r.name(holding)
	if holders == "" {
		holders = "the driver does not say who holds them"
	}
	return fmt.Errorf("%w after %v: %s; end what is left, look at nvidia-smi, or give a longer --gpu-release-timeout", errHeld, r.Within, holders)
}

// ours returns the processes of the job that hold one of its GPUs.
func (r release) ours(k *matcher, held []device.Process) []device.Process {
	n, machine := node(r.GPUs), r.Procs.Machine()
	job := Rank{Own: r.UUIDs}
	return slices.DeleteFunc(slices.Clone(held), func(h device.Process) bool {
		if len(r.UUIDs) > 0 && !n.owns(job, h.UUID) {
			return true
		}
		if slices.ContainsFunc(r.Before, func(b device.Process) bool { return b.PID == h.PID }) {
			return true
		}
		name := r.Procs.Name(h.PID)
		// In a pid namespace the name may belong to another process.
		if slices.Contains(r.PIDs, h.PID) || name == "" || !machine {
			return false
		}
		if computesForOthers(name) {
			return true
		}
		what, _ := k.of(h.PID)
		return what == stranger
	})
}

// name lists the holders: "GPU 0: pid 7 (python); GPU 1: pid 8 (ended, 512 MiB)".
func (r release) name(held []device.Process) string {
	var all []string
	for _, h := range held {
		what := r.Procs.Name(h.PID)
		if what == "" {
			what = "ended, or of another container"
		}
		all = append(all, fmt.Sprintf("%s: pid %d (%s)%s", node(r.GPUs).label(h.UUID), h.PID, what, memory(h)))
	}
	return strings.Join(all, "; ")
}
