package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/gorun/gorun/launch/process"
	"github.com/gorun/gorun/launch/spec"
	"github.com/gorun/gorun/launch/standby"
	"github.com/gorun/gorun/rendezvous/secret"
)

// A task whose worker is its own is two processes, as an agent is: the task itself, a
// keeper, and below it the task host, which starts the worker. When one of the two is
// killed, the other one kills what is left.

// taskHostCommand is the hidden command that starts the workers of a task.
const taskHostCommand = "task-host"

// taskHostEnd is how long a task host has to end after the job.
const taskHostEnd = process.KillTimeout + 5*time.Second

// startTaskHost starts the task host, if each task is a worker. ended waits for its end.
func startTaskHost(ctx context.Context, sp spec.Spec) (ended func()) {
	around := sp.Surroundings
	if !around.TaskWorkers {
		return func() {}
	}
	k := process.Keeper{Agents: []process.Spec{{
		Path: selfPath, Args: []string{"gorun", taskHostCommand, around.Task.Key, strconv.Itoa(around.Task.Local)},
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Group: true,
	}}}
	k.OnExit = func(_ int, e process.Exit, killed int) {
		if e.Signal != 0 {
			fmt.Fprintf(os.Stderr, "gorun: the process above the worker of task %d %v; %d processes that it left were killed\n", around.Task.Local, e, killed)
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := k.Run(ctx); err != nil {
			fmt.Fprintf(os.Stderr, "gorun: task %d of %s on this node: %v\n", around.Task.Local, around.Name, err)
		}
	}()
	return func() {
		defer cancel()
		timer := time.AfterFunc(taskHostEnd, cancel)
		defer timer.Stop()
		<-done
	}
}

func newTaskHostCommand() *cobra.Command {
	return &cobra.Command{
		Use:    taskHostCommand + " KEY LOCAL_RANK",
		Short:  "Start the workers of one task",
		Hidden: true,
		Args:   cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			local, err := strconv.Atoi(args[1])
			if err != nil {
				return usagef("gorun %s is for gorun itself", taskHostCommand)
			}
			return runTaskHost(cmd.Context(), args[0], local)
		},
	}
}

// runTaskHost starts workers until the job ends or the keeper above is lost. It takes no
// signal, because the agent passes signals on.
func runTaskHost(ctx context.Context, key string, local int) error {
	signal.Notify(make(chan os.Signal, 1), process.Forwarded()...)
	survivePipes()
	life, err := process.OpenLifeline(process.LifelineFD)
	if err != nil {
		return err
	}
	defer life.Close()
	life.SendReady()
	_ = os.Unsetenv(secret.Env)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-life.Lost():
			cancel()
		case <-ctx.Done():
		}
	}()
	return standby.RunWorkers(ctx, standby.Self{
		Key: key, Local: local, Env: os.Environ(), Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
	}, leaderArrival)
}
