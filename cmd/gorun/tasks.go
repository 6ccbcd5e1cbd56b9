package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"time"

	"github.com/gorun/gorun/launch/process"
	"github.com/gorun/gorun/launch/spec"
	"github.com/gorun/gorun/launch/standby"
)

// Waits of the tasks of one node.
const (
	leaderArrival = time.Minute      // for the first task
	taskArrival   = 10 * time.Second // for the other tasks, when the job has ended
	reportAfter   = 5 * time.Second
)

// runTask runs this process's part of a node with several tasks: the first task runs
// the agent, and the others end with its exit code.
func runTask(ctx context.Context, sp spec.Spec, o *jobOptions) error {
	around := sp.Surroundings
	switch t := around.Task; {
	case t.Key == "":
		return reportError(sp, usagef("%s has %d tasks on this node, and gorun starts all workers of a node: give it one task a node", around.Name, t.Count))
	case t.Local > 0:
		return standBy(ctx, sp)
	}
	leader, err := standby.Lead(taskGroup(sp), around.Task.Count-1)
	if err != nil {
		return reportError(sp, err)
	}
	leader.Serve()
	code := exitCode(runKeeper(ctx, sp, o))
	wait := taskArrival
	if isTerminal(os.Stdin) { // the shell of srun --pty is the first task, and the others have ended
		wait = 0
	}
	if missing := leader.End(code, wait); missing > 0 && wait > 0 {
		fmt.Fprintf(os.Stderr, "gorun: %d of %d tasks of %s on this node did not come within %v\n", missing, around.Task.Count, around.Name, taskArrival)
	}
	return exitStatus(code)
}

// standBy waits for the end of the job. It takes no signal, because the first task
// gets the same ones and stops the workers.
func standBy(ctx context.Context, sp spec.Spec) error {
	signal.Notify(make(chan os.Signal, 1), process.Forwarded()...)
	survivePipes()
	ctx, stop, err := untilStepEnds(ctx, sp)
	if err != nil {
		return err
	}
	defer stop()
	name := sp.Surroundings.Name
	say := time.AfterFunc(reportAfter, func() {
		fmt.Fprintf(os.Stderr, "gorun: task %d of %s on this node waits for the first one, at most %v\n", sp.Surroundings.Task.Local, name, leaderArrival)
	})
	ended := startTaskHost(ctx, sp)
	code, err := standby.Wait(ctx, taskGroup(sp), leaderArrival, func() { say.Stop() })
	say.Stop()
	ended()
	switch {
	case errors.Is(err, standby.ErrCommand):
		// The first task prints other wrong command lines for all, but does not know this one.
		fmt.Fprintf(os.Stderr, "gorun: task %d of %s: %v\n", sp.Surroundings.Task.Local, name, err)
		return exitStatus(2)
	case err != nil:
		return fmt.Errorf("%s: %w", name, err)
	}
	return exitStatus(code)
}

// taskGroup names the tasks of this node.
func taskGroup(sp spec.Spec) standby.Group {
	return standby.Group{Key: sp.Surroundings.Task.Key, Command: os.Args[1:]}
}
