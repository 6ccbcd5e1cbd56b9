package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"

	"github.com/gorun/gorun/launch"
	"github.com/gorun/gorun/launch/process"
	"github.com/gorun/gorun/launch/spec"
	"github.com/gorun/gorun/rendezvous/secret"
)

// gorun is two processes: the one that the user starts is the keeper, which
// forks the agent (early.c) or starts this program again as the agent. Whichever
// of the two is killed, the other one sees to it that nothing is left.
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

// ears are an agent's: the signals that it takes. The runtime needs a while for
// each, so they are opened beside everything else.
type ears struct {
	signals chan os.Signal
	safe    chan struct{} // closed when a broken pipe is no longer fatal
	open    chan struct{} // closed when all are taken
}

func openEars() *ears {
	e := &ears{signals: make(chan os.Signal, 16), safe: make(chan struct{}), open: make(chan struct{})}
	go func() { // ends by itself; runAgent waits for it
		defer close(e.open)
		survivePipes()
		close(e.safe)
		signal.Notify(e.signals, process.Forwarded()...)
	}()
	return e
}

// runJob is this process's part in the job that the arguments describe.
func runJob(args []string) error {
	lifeline, early := earlyAgent()
	var ears *ears
	if early {
		ears = openEars()
	}
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
	case early && (err != nil || offline || got || sp.LocalNodes > 1):
		stepBack() // the keeper says what is wrong, or starts several agents
		return nil
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
	case early:
		return runAgent(launch.Options{Spec: sp, Scratch: launch.NewScratch(earlyTag()), Elsewhere: commandWith(args)}, lifeline, ears)
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

// runStarted is an agent that a keeper has started: args are the keeper's, after
// where this agent stands.
func runStarted(args []string) error {
	if len(args) < 2 {
		return errNotKeeper
	}
	ears := openEars()
	index, count, err := agentPlace(args[0])
	if err != nil {
		return err
	}
	raw, err := parseJob(args[2:])
	if err != nil {
		return &launch.UsageError{Err: err}
	}
	sp, err := raw.Resolve(os.LookupEnv)
	if err != nil {
		return &launch.UsageError{Err: err}
	}
	opts := launch.Options{Spec: sp, Scratch: launch.NewScratch(args[1]), Elsewhere: commandWith(args[2:])}
	if count > 1 {
		opts.Local = localNode(index, count)
	}
	return runAgent(opts, process.LifelineFD, ears)
}

// runAgent is one node's part in the job. It completes the options.
func runAgent(opts launch.Options, lifeline int, ears *ears) error {
	fail := func(err error) error {
		if opts.Local != nil && opts.Local.Index > 0 {
			return err
		}
		return unreported(opts.Spec, err)
	}
	life, err := process.OpenLifeline(lifeline)
	if err != nil {
		return fail(err)
	}
	defer life.Close()
	dir, err := os.Getwd()
	if err != nil {
		return fail(fmt.Errorf("cannot find the working directory: %w", err))
	}
	var listening sync.WaitGroup
	defer listening.Wait()
	listening.Go(func() { // until then the keeper holds signals back
		<-ears.open
		life.Listens()
	})
	opts.Version, opts.Env, opts.Dir = version(), os.Environ(), dir
	_ = os.Unsetenv(secret.Env) // whatever this process starts, it does not pass it on
	opts.Stdin, opts.Stdout, opts.Stderr = os.Stdin, os.Stdout, os.Stderr
	opts.TimerSlack = earlySlack()
	opts.Signals, opts.Keeper = ears.signals, life.Lost()
	opts.Self, opts.Probe = selfPath, []string{"gorun", probeCommand}
	<-ears.safe
	code, err := launch.Run(context.Background(), opts)
	if err != nil {
		return err
	}
	if code != 0 {
		return exitStatus(code)
	}
	return nil
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
