package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"

	"github.com/gorun/gorun/launch"
	"github.com/gorun/gorun/launch/process"
	"github.com/gorun/gorun/launch/spec"
	"github.com/gorun/gorun/rendezvous/secret"
)

// gorun is two processes: the keeper, which the user starts, starts this program
// again as the agent. When one of the two is killed, the other one kills what is left.
//
// agentCommand is the first argument of an agent; the second is its index among
// the agents of the machine and their number, "0/1" without --local-nodes; the
// third is the tag of its temporary files. Arguments, not variables: what a
// process inherits must never make it an agent.
const agentCommand = "agent-of-keeper"

const selfPath = "/proc/self/exe"

// survivePipes makes a write to a terminal or a pipe that is gone fail, where Go
// would let SIGPIPE end this process: a remark that nobody can read must not
// cost the job. Workers still get the default.
func survivePipes() { signal.Notify(make(chan os.Signal, 1), unix.SIGPIPE) }

// runJob is this process's part in the job that the arguments describe.
func runJob(args []string) error {
	raw, err := parseJob(args)
	if err == nil {
		err = mistaken(args, raw)
	}
	var sp spec.Spec
	offline := raw.Flags["from"] == "1"
	got := raw.Show && len(raw.Command) == 0 // what a running job's ranks got
	if err == nil && !offline && !got {
		sp, err = raw.Resolve(os.LookupEnv)
	}
	switch {
	case errors.Is(err, pflag.ErrHelp):
		topic := "run"
		if isCheck(args) || isEnv(args) {
			topic = args[0]
		}
		root := newRoot()
		root.SetArgs([]string{"help", topic})
		return root.Execute()
	case err != nil:
		return unreported(sp, &launch.UsageError{Err: err})
	case offline:
		return checkOffline(raw)
	case got:
		return tellEnv(raw)
	}
	return runKeeper(sp, args)
}

// unreported returns the error with which a job ends here, of which nothing else
// tells --report.
func unreported(sp spec.Spec, err error) error {
	if err := launch.ReportError(sp, time.Time{}, err); err != nil {
		fmt.Fprintf(os.Stderr, "gorun: %v\n", err)
	}
	return err
}

// runAgent is one node's part in the job: args are those that the keeper adds,
// then its own.
func runAgent(args []string) error {
	if len(args) < 2 {
		return errNotKeeper
	}
	index, count, err := agentPlace(args[0])
	if err != nil {
		return err
	}
	survivePipes()
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, process.Forwarded()...)
	life, err := process.OpenLifeline(process.LifelineFD)
	if err != nil {
		return err
	}
	defer life.Close()
	life.Listens() // until now the keeper held signals back
	opts, err := agentOptions(args[2:])
	if err != nil && index == 0 {
		return unreported(opts.Spec, err)
	}
	if err != nil {
		return err
	}
	opts.Signals, opts.Keeper = signals, life.Lost()
	opts.Scratch = launch.NewScratch(args[1])
	if count > 1 {
		if opts.Local, err = localNode(index, count); err != nil {
			return err
		}
	}
	code, err := launch.Run(context.Background(), opts)
	if err == nil && code != 0 {
		return exitStatus(code)
	}
	return err
}

// agentOptions returns what the arguments and this process's environment and files
// say; with an error, the Spec if it is known.
func agentOptions(args []string) (launch.Options, error) {
	raw, err := parseJob(args)
	if err != nil {
		return launch.Options{}, &launch.UsageError{Err: err}
	}
	sp, err := raw.Resolve(os.LookupEnv)
	if err != nil {
		return launch.Options{}, &launch.UsageError{Err: err}
	}
	dir, err := os.Getwd()
	if err != nil {
		return launch.Options{Spec: sp}, fmt.Errorf("cannot find the working directory: %w", err)
	}
	env := os.Environ()
	_ = os.Unsetenv(secret.Env) // the agent's children do not get it
	return launch.Options{
		Spec: sp, Version: version(), Env: env, Dir: dir,
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		Self: selfPath, Probe: []string{"gorun", probeCommand},
		Elsewhere: commandWith(args),
	}, nil
}

func agentPlace(s string) (index, count int, err error) {
	i, n, ok := strings.Cut(s, "/")
	index, err1 := strconv.Atoi(i)
	count, err2 := strconv.Atoi(n)
	if !ok || err1 != nil || err2 != nil || index < 0 || index >= count {
		return 0, 0, errNotKeeper
	}
	return index, count, nil
}

var errNotKeeper = &launch.UsageError{Err: errors.New(agentCommand + " is for gorun itself; run gorun PROGRAM")}
